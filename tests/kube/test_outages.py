"""An API server that is away: one line for all kinds and all their retries, with the count."""

import asyncio

import pytest

from tests.virtualtime import run
from tonnage.kube.errors import ConnectionLostError, KubeError, StatusError, UnsentError
from tonnage.kube.outages import BETWEEN, Outages

AWAY = ConnectionLostError("Cannot connect")
KINDS = [f"Kind{number}" for number in range(17)]


def test_the_retries_of_all_kinds_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        outages = Outages()
        for _ in range(3):
            for kind in KINDS:
                outages.add(kind, AWAY)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)

    run(main())
    assert caplog.messages == [
        "51 requests for 17 kinds failed and are repeated; the last: Kind16: Cannot connect",
    ]


def test_a_long_outage_is_told_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        outages = Outages()
        for _ in range(60):
            outages.add("Pod", UnsentError("no credentials"))
            outages.add("Node", StatusError(503, "ServiceUnavailable", "starting"))
            await asyncio.sleep(1)

    run(main())
    assert len(caplog.messages) == 60 / BETWEEN
    assert caplog.messages[1].startswith("20 requests for 2 kinds failed and are repeated; the last: ")


def test_one_failure_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        Outages().add("Pod", AWAY)
        await asyncio.sleep(1)

    run(main())
    assert caplog.messages == ["Pod: Cannot connect"]


def test_what_concerns_one_kind_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    outages = Outages()
    outages.add("Queue", KubeError("may not list queues"))
    outages.add("Pod", StatusError(400, "BadRequest", "no such field"))
    assert caplog.messages == ["Queue: may not list queues", "Pod: 400 BadRequest: no such field"]
