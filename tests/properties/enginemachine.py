"""A machine that does the same with the engine and with the reference."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.properties.comparing import (
    assert_columns_are_recounted,
    assert_same,
    assert_same_answer,
    engine_of,
    explained,
    reference_of,
    snapshot,
)
from tests.properties.worlds import NODES, PODS, POLICIES, nodes, pods, running_pods
from tests.reference import ObjectScheduler
from tests.reference_objects import Held, placement
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.model.node import Node
from tonnage.model.pod import Pod

VENDORS = default_vendors()
NAMES = tuple(vendor.name for vendor in VENDORS)


class EngineAgainstReference(RuleBasedStateMachine):
    """The engine with long-lived sessions, beside plain dictionaries of what should be the case."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(VENDORS)
        self.nodes: dict[str, Node] = {}
        self.held: dict[str, Held] = {}
        self.reserved: dict[str, Pod] = {}
        self.waiting: set[str] = set()
        self.shapes: list[Pod] = []
        self.sessions: list[tuple[dict[str, str], Session]] = []

    @initialize(
        policies=st.tuples(POLICIES, POLICIES),
        shapes=st.lists(pods("probe"), min_size=4, max_size=5),
        first=st.lists(nodes(), min_size=2, max_size=4),
    )
    def begin(self, policies: tuple[dict[str, str], ...], shapes: list[Pod], first: list[Node]) -> None:
        self.shapes = shapes
        self.sessions = [(policy, engine_of(self.cluster, policy)) for policy in policies]
        for node in first:
            self.upsert_node(node)

    @rule(node=nodes())
    def upsert_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.cluster.upsert_node(node)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    @rule(pod=running_pods())
    def upsert_running_pod(self, pod: Pod) -> None:
        self.cluster.upsert_pod(pod)
        self._forget(pod.key)
        reference = ObjectScheduler(vendors=VENDORS)
        reference.add_pod(pod)
        self.held |= reference.held

    @rule(pod=pods())
    def upsert_waiting_pod(self, pod: Pod) -> None:
        self.cluster.upsert_pod(pod)
        if pod.key in self.reserved:
            self.reserved[pod.key] = pod
        else:
            self._forget(pod.key)
            self.waiting.add(pod.key)

    @rule(name=st.sampled_from(PODS))
    def remove_pod(self, name: str) -> None:
        self.cluster.remove_pod(f"default/{name}")
        self._forget(f"default/{name}")

    @rule(pod=pods(), which=st.integers(0, 1), keep=st.booleans())
    def place(self, pod: Pod, which: int, keep: bool) -> None:
        policies, session = self.sessions[which]
        again = pod.key in self.reserved
        if pod.key in self.held and not again:
            return
        before = snapshot(self.cluster)
        waited = pod.key in self.waiting
        self._forget(pod.key)  # an earlier placement is given up first
        reference = reference_of(self.nodes, self.held, policies)
        decision = session.place(make_task(pod, VENDORS))
        answer = reference.decide(pod)
        with explained(reference, pod, answer):
            assert_same_answer(decision, answer, NAMES)
        if decision.node is None:
            self.waiting |= {pod.key} if waited or again else set()
            return
        self._assert_nothing_is_over_committed(pod, decision.node)
        if keep:
            self.held[pod.key] = placement(reference.read(pod), decision.node, answer.shares)
            self.reserved[pod.key] = pod
            return
        session.unplace(pod.key)
        self.waiting.add(pod.key)
        if not again:
            assert_same(before, snapshot(self.cluster))

    @rule(name=st.sampled_from(PODS))
    def confirm(self, name: str) -> None:
        self.cluster.confirm(f"default/{name}")
        self.reserved.pop(f"default/{name}", None)

    @rule(name=st.sampled_from(PODS))
    def release(self, name: str) -> None:
        key = f"default/{name}"
        self.cluster.release(key)
        if key in self.reserved:
            self._forget(key)
            self.waiting.add(key)

    @invariant()
    def columns_equal_a_recount(self) -> None:
        reference = reference_of(self.nodes, self.held, {})
        assert_columns_are_recounted(self.cluster, reference)
        assert set(self.cluster.reserved) == set(self.reserved)
        assert set(self.cluster.waiting) == self.waiting
        for problem in self.cluster.problems():
            assert str(problem)

    @invariant()
    def decisions_equal_the_references(self) -> None:
        for policies, session in self.sessions:
            reference = reference_of(self.nodes, self.held, policies)
            before = snapshot(self.cluster)
            for shape in self.shapes:
                answer = reference.decide(shape)
                task = make_task(shape, VENDORS)
                for warm_or_fresh in (session, engine_of(self.cluster, policies)):
                    with explained(reference, shape, answer):
                        assert_same_answer(warm_or_fresh.decide(task), answer, NAMES)
            assert_same(before, snapshot(self.cluster))

    def _forget(self, key: str) -> None:
        self.held.pop(key, None)
        self.reserved.pop(key, None)
        self.waiting.discard(key)

    def _assert_nothing_is_over_committed(self, pod: Pod, node: str) -> None:
        """What the engine itself gave out fits: resources, every card it touched, and slots nobody can point at."""
        columns, state = self.cluster.columns, self.cluster.nodes[node]
        for name, _ in make_task(pod, VENDORS).requests:
            if name in columns.resources:
                assert columns.free[columns.resources[name], state.row] >= 0, name
        for use in state.holdings[pod.key].vendors:
            own = [position for position, vendor in enumerate(state.vendors) if vendor == use.vendor]
            for card in use.cards:
                free = columns.card_free[:, state.positions[card.uuid], state.row]
                total = columns.card_total[:, state.positions[card.uuid], state.row]
                assert (free[total > 0] >= 0).all(), card
            places = sum(max(0, int(columns.card_free[0, position, state.row])) for position in own)
            assert places >= columns.foreign[use.vendor, state.row]
