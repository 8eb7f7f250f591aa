"""Random pods with rules about other pods: after every event the engine allows and scores what a recount does."""

from collections import Counter

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.neighbours import (
    HOST,
    ZONE,
    World,
    affinity_scores,
    is_selected,
    is_tolerated,
    labelled,
    reason,
    spread,
    spread_scores,
    term,
    wish,
    zoned,
)
from tests.properties.worlds import examples, phases
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node
from tonnage.model.pod import ContainerPort, Pod
from tonnage.model.selection import Expression, LabelSelector, Taint, Toleration
from tonnage.model.storage import Namespace
from tonnage.plugins.filters.nodeselection import NodeSelection
from tonnage.plugins.filters.predicates import Predicates
from tonnage.plugins.scoring._podpreferences import PodAffinityScore, SpreadScore

NODES = ["n0", "n1", "n2", "n3", "n10"]
PODS = [f"p{number}" for number in range(9)]
TOPOLOGIES = st.sampled_from([HOST, ZONE, ZONE, "rack"])
APPS = st.sampled_from(["web", "web", "db", "job"])
NAMESPACES = st.sampled_from(["default", "default", "team"])
SELECTORS = st.sampled_from(
    [
        LabelSelector({"app": "web"}),
        LabelSelector({"app": "web"}),
        LabelSelector({"app": "db"}),
        LabelSelector(matchExpressions=[Expression("app", "In", ["web", "db"])]),
        LabelSelector(matchExpressions=[Expression("app", "NotIn", ["web"])]),
        LabelSelector(matchExpressions=[Expression("version", "Exists")]),
        LabelSelector({"app": "web"}, [Expression("version", "DoesNotExist")]),
        LabelSelector(),
        None,
    ]
)


def often(usual: object, *others: object) -> st.SearchStrategy:
    return st.sampled_from([usual] * 4 + list(others))


@st.composite
def terms(draw: st.DrawFn):
    selector = draw(SELECTORS)
    return term(
        draw(TOPOLOGIES),
        selector,
        namespaces=draw(often(None, ["team"], ["default", "team"])),
        namespaceSelector=draw(often(None, LabelSelector(), LabelSelector({"kind": "shared"}))),
        matchLabelKeys=draw(often(None, ["version"])) if selector is not None else None,
        mismatchLabelKeys=draw(often(None, ["tier"])) if selector is not None else None,
    )


@st.composite
def constraints(draw: st.DrawFn):
    selector, when = draw(SELECTORS), draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]))
    return spread(
        draw(st.sampled_from([1, 1, 2])),
        draw(TOPOLOGIES),
        selector,
        whenUnsatisfiable=when,
        minDomains=draw(often(None, 2, 4)) if when == "DoNotSchedule" else None,
        nodeAffinityPolicy=draw(often(None, "Ignore", "Honor")),
        nodeTaintsPolicy=draw(often(None, "Honor", "Ignore")),
        matchLabelKeys=draw(often(None, ["version"])) if selector is not None else None,
    )


def ports() -> st.SearchStrategy[list[ContainerPort]]:
    one = st.builds(
        ContainerPort,
        hostPort=st.sampled_from([0, 80, 81]),
        hostIP=st.sampled_from([None, "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
        protocol=st.sampled_from([None, "TCP", "UDP"]),
    )
    return st.lists(one, max_size=2)


@st.composite
def pods(draw: st.DrawFn, name: str | None = None, on: st.SearchStrategy[str] | None = None) -> Pod:
    few = st.sampled_from([0, 0, 0, 1, 1, 2])
    return labelled(
        name or draw(st.sampled_from(PODS)),
        draw(APPS),
        on=draw(on) if on is not None else None,
        namespace=draw(NAMESPACES),
        labels=draw(often({}, {"version": "1"}, {"version": "2", "tier": "a"}, {"tier": "b"})),
        near=[draw(terms()) for _ in range(draw(few))],
        far=[draw(terms()) for _ in range(draw(few))],
        likes=[wish(draw(st.sampled_from([1, 10, 100])), draw(terms())) for _ in range(draw(few))],
        dislikes=[wish(draw(st.sampled_from([1, 10])), draw(terms())) for _ in range(draw(few))],
        spread=[draw(constraints()) for _ in range(draw(few))],
        ports=draw(ports()) if draw(few) else [],
        selector=draw(often(None, {ZONE: "a"})),
        tolerations=draw(often(None, [Toleration("gpu", "Exists")])),
        leaving=draw(often(False, True)),
    )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    labels = {"rack": draw(st.sampled_from("xy"))} if draw(st.booleans()) else {}
    taints = draw(often(None, [Taint("gpu", "NoSchedule")]))
    return zoned(draw(st.sampled_from(NODES)), draw(st.sampled_from(["a", "b", "c", None])), taints=taints, **labels)


class PodsNearPods(RuleBasedStateMachine):
    """One long-lived session, beside plain lists of what should be the case."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(default_vendors())
        self.session = Session(self.cluster, [NodeSelection(), Predicates()])
        self.world = World({}, [], {})
        self.reserved: set[str] = set()
        self.probes: list[Pod] = []

    @initialize(probes=st.lists(pods("probe"), min_size=3, max_size=4), first=st.lists(nodes(), min_size=3, max_size=5))
    def begin(self, probes: list[Pod], first: list[Node]) -> None:
        self.probes = probes
        for node in first:
            self.upsert_node(node)

    @rule(node=nodes())
    def upsert_node(self, node: Node) -> None:
        self.world.nodes[node.name] = node
        self.cluster.upsert_node(node)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.world.nodes.pop(name, None)
        self.cluster.remove_node(name)

    @rule(pod=pods(on=st.sampled_from([*NODES, "elsewhere"])))
    def upsert_running_pod(self, pod: Pod) -> None:
        self.cluster.upsert_pod(pod)
        self._forget(pod.key)
        self.world.pods.append((pod, pod.spec.nodeName or ""))

    @rule(name=st.sampled_from(PODS), namespace=NAMESPACES)
    def remove_pod(self, name: str, namespace: str) -> None:
        self.cluster.remove_pod(f"{namespace}/{name}")
        self._forget(f"{namespace}/{name}")

    @rule(pod=pods())
    def place(self, pod: Pod) -> None:
        self._forget(pod.key)
        self.cluster.remove_pod(pod.key)
        node = self.session.place(make_task(pod, self.cluster.vendors)).node
        if node is not None:
            self.reserved.add(pod.key)
            self.world.pods.append((pod, node))

    @rule(name=st.sampled_from(PODS), namespace=NAMESPACES)
    def unplace(self, name: str, namespace: str) -> None:
        key = f"{namespace}/{name}"
        self.session.unplace(key)
        if key in self.reserved:
            self._forget(key)

    @rule(name=NAMESPACES, labels=st.sampled_from([{}, {"kind": "shared"}]), known=st.booleans())
    def change_namespace(self, name: str, labels: dict[str, str], known: bool) -> None:
        namespace = Namespace(ObjectMeta(name, labels=labels))
        if known:
            self.world.namespaces[name] = labels
            self.cluster.upsert_surrounding(namespace)
        else:
            self.world.namespaces.pop(name, None)
            self.cluster.remove_surrounding(namespace)

    def _forget(self, key: str) -> None:
        self.reserved.discard(key)
        self.world.pods[:] = [(pod, node) for pod, node in self.world.pods if pod.key != key]

    @invariant()
    def decisions_equal_the_recount(self) -> None:
        for probe in self.probes:
            task = make_task(probe, self.cluster.vendors)
            expected, fits = Counter[str](), []
            for name, node in sorted(self.world.nodes.items()):
                if not is_selected(probe, node):
                    expected["NodeAffinityMismatch"] += 1
                elif not is_tolerated(probe, node):
                    expected["UntoleratedTaint"] += 1
                elif why := reason(self.world, probe, node):
                    expected[why] += 1
                else:
                    fits.append(name)
            decision = self.session.decide(task)
            assert Counter({r.reason: r.count for r in decision.rejected}) == expected, probe
            assert sorted(decision.scores) == fits
            self._compare_scores(task, probe, fits)

    def _compare_scores(self, task, probe: Pod, fits: list[str]) -> None:
        mask = np.array([state.name in fits for state in self.cluster.states], np.bool_)
        for part, recount in (
            (PodAffinityScore(self.cluster), affinity_scores),
            (SpreadScore(self.cluster), spread_scores),
        ):
            expected = recount(self.world, probe, fits)
            scores = part.scores(task, mask) if part.applies(task) else np.zeros(len(mask))
            if part.applies(task):
                found = {s.name: scores[s.row] for s in self.cluster.states if s.name in fits}
                assert found == expected, (probe, part)
            else:
                assert len(set(expected.values())) <= 1


TestPodsNearPods = PodsNearPods.TestCase
TestPodsNearPods.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None, phases=phases())
