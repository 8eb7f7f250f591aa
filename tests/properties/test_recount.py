"""Long random histories of one cluster: after every operation the columns equal what a recount gives.

Other tests compare decisions too and so afford short histories only; these are long, on a stock of nodes and pods.
"""

import random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.properties.comparing import engine_of
from tests.properties.enginemachine import EngineAgainstReference
from tests.properties.worlds import NODES, PODS, POLICIES, examples, nodes, pods, running_pods
from tonnage.model.node import Node
from tonnage.model.pod import Pod

OPERATIONS = 1000


@settings(max_examples=examples(2), phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**64 - 1),
    policies=st.tuples(POLICIES, POLICIES),
    machines=st.lists(nodes(), min_size=10, max_size=10),
    waiting=st.lists(pods(), min_size=20, max_size=20),
    bound=st.lists(running_pods(), min_size=12, max_size=12),
)
def test_columns_equal_a_recount_after_every_operation_of_a_long_history(
    seed: int, policies: tuple[dict[str, str], ...], machines: list[Node], waiting: list[Pod], bound: list[Pod]
) -> None:
    rng = random.Random(seed)
    history = EngineAgainstReference()
    history.sessions = [(policy, engine_of(history.cluster, policy)) for policy in policies]
    operations = [
        (2, lambda: history.upsert_node(node=rng.choice(machines))),
        (1, lambda: history.remove_node(name=rng.choice(NODES))),
        (3, lambda: history.upsert_running_pod(pod=rng.choice(bound))),
        (2, lambda: history.upsert_waiting_pod(pod=rng.choice(waiting))),
        (2, lambda: history.remove_pod(name=rng.choice(PODS))),
        (3, lambda: history.place(pod=rng.choice(waiting), which=rng.randrange(2), keep=rng.random() < 0.7)),
        (1, lambda: history.confirm(name=rng.choice(PODS))),
        (1, lambda: history.release(name=rng.choice(PODS))),
    ]
    weights = [weight for weight, _ in operations]
    for _ in range(OPERATIONS):
        ((_, operation),) = rng.choices(operations, weights)
        operation()
        history.columns_equal_a_recount()
