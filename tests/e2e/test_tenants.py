"""A short run of `make tenants` on both servers: a hostile tenant does not reach beyond its namespace."""

import pytest

from tests.tenants.ground import EXTENDER, SCHEDULER
from tests.tenants.run import Settings, run, table

BUSY = 20.0
"""Seconds that an honest pod may wait longer here, where other tests run on the same machine; `make tenants` allows 1.

Whoever closes a node for others does so for 28 s and more.
"""


@pytest.mark.parametrize("server", [EXTENDER, SCHEDULER])
def test_beside_an_adversary_honest_pods_are_bound_soon_and_left_alone(server: str) -> None:
    settings = Settings(server, operations=100, seed=1, nodes=4, jobs=8, margin=BUSY)
    outcome = run(settings, lambda line: None)
    assert outcome.wrong == [], table(outcome)
