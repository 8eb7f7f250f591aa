"""Updates that raise at any line: the cluster state is whole, no card of a running pod counts as free, and the same
update without the fault leads to where it leads without any.

The lines of the engine that an update runs raise in turn; one that runs several times also at the last of them.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import msgspec
import pytest

import tonnage
from tests.groups import group, kai_group, member, priority_class, queue
from tests.neighbours import HOST, term
from tests.scenario import node, part, plain, pod, running
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.handlers import HANDLERS, ObjectHandler, pods_of
from tonnage.cluster.holding import CardUse, Holding, VendorUse
from tonnage.cluster.podindex import SelectedPods
from tonnage.cluster.task import make_task
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.model.hypernode import HyperNode
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.podselector import PodSelector
from tonnage.model.quota import QuotaSpec, ResourceQuota
from tonnage.model.selection import Affinity, PodAffinity
from tonnage.model.storage import Namespace
from tonnage.model.wire import convert
from tonnage.plugins.defaults import default_plugins

VENDORS = default_vendors()
ENGINE = tuple(str(Path(tonnage.__file__).parent / part) for part in ("cluster", "devices", "model"))
GUARDS = ("/handlers.py", "/recovery.py")
"""The modules that catch what raises; what they do themselves is not made to fail."""
OURS = pods_of(lambda pod: pod.spec.schedulerName != "other")
ALONE = Affinity(podAntiAffinity=PodAffinity([term(HOST, "web")]))


SAMPLED = 3
"""Every third line of an update raises in `make test`, all of them in `make e2e`."""


class InjectedError(Exception):
    """The fault of a line."""


# -- the world


def worker(name: str, of: str, *, on: str | None = None, **more: Any) -> Pod:
    """A pod of a gang without an object, with labels and rules about other pods."""
    notes = {"tonnage.io/min-members": "2", **more.pop("annotations", {})}
    return pod(name, 1, on=on, annotations=notes, labels={"app": "web", "of": of}, affinity=ALONE, **more)


def quota(limit: str) -> ResourceQuota:
    return ResourceQuota(ObjectMeta("cards", "default"), QuotaSpec({"limits.nvidia.com/gpumem": limit}))


def rack(*names: str) -> HyperNode:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]
    return convert({"metadata": {"name": "rack"}, "spec": {"tier": 1, "members": members}}, HyperNode)


def world() -> Cluster:
    """Nodes with and without registered cards; pods that run, wait, leave and have a reservation; jobs and quotas."""
    cluster = Cluster(VENDORS)
    things = [
        node("a", gpus=2, labels={HOST: "a"}),
        node("b", gpus=1, labels={HOST: "b"}),
        plain("c", 3),
        rack("a", "b"),
        Namespace(ObjectMeta("default", labels={"team": "x"})),
        queue("team"),
        priority_class("high", 7),
        group("train", 2, queue="team", priorityClassName="high", minTaskMember={"head": 1}),
        quota("9000"),
        running("x", on="a", gpu=0, memory=1000),
        pod("unnamed", 1, on="c"),
        part("half", 0.5, on="c", group="shared"),
        running("leaves", on="b", gpu=0, memory=500, terminating=True),
        running("lost", on="gone", gpu=0, memory=500),
        member("train-0", "train", on="a", role="head"),
        member("train-1", "train", role="worker"),
        member("train-2", "train", role="head", phase="Succeeded"),
        worker("web-0", "web", on="b"),
        worker("web-1", "web"),
        pod("reserved", 1, memory=700),
        pod("others", 1),
    ]
    for thing in things:
        put(cluster, thing)
    # Labels are indexed once somebody asks.
    cluster.placed.counts(SelectedPods((PodSelector(("default",), ()),)))
    task = cluster.waiting["default/reserved"]
    use = VendorUse(cluster.vendor_numbers["NVIDIA"], (CardUse("a/1", 1, 700, 0),))
    cluster.reserve_holding(task, Holding("a", task.requests, (use,), task.unstated))
    return cluster


def handler_of(thing: Any) -> ObjectHandler:
    return OURS if isinstance(thing, Pod) else HANDLERS[type(thing)]


def put(cluster: Cluster, thing: Any) -> None:
    handler_of(thing).put(cluster, thing)


class Gone(NamedTuple):
    """An object that is gone."""

    thing: Any


def take(cluster: Cluster, news: Any) -> None:
    if isinstance(news, Gone):
        key = news.thing.key if hasattr(news.thing, "key") else news.thing.metadata.name
        handler_of(news.thing).drop(cluster, key, news.thing)
    else:
        put(cluster, news)


def of_another(one: Pod) -> Pod:
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, schedulerName="other"))


UPDATES = {
    "a pod that runs comes": running("new", on="a", gpu=1, memory=2000),
    "a pod that runs without naming its cards comes": pod("new", 2, on="c"),
    "a pod that shares a card comes": part("new", 0.25, on="c", group="shared"),
    "a pod that runs comes before its node": running("new", on="later", gpu=0, memory=100),
    "a pod with rules comes": worker("web-2", "web", on="a"),
    "a waiting pod of a gang runs": worker("web-1", "web", on="a"),
    "a reserved pod runs": running("reserved", on="a", gpu=1, memory=700),
    "a reserved pod changes": pod("reserved", 1, memory=700, labels={"a": "b"}),
    "a pod that runs gets another card": running("x", on="a", gpu=1, memory=1000),
    "a pod that runs is called otherwise": worker("web-0", "web", on="b", annotations={"tonnage.io/min-members": "3"}),
    "a pod that runs names another job": member("train-0", "other", on="a"),
    "a pod that runs leaves": running("x", on="a", gpu=0, memory=1000, terminating=True),
    "a pod of a group leaves": member("train-0", "train", on="a", role="head", terminating=True),
    "a pod that shares a card names one": running("half", on="c", gpu="c/0", memory=100),
    "a pod succeeds": member("train-0", "train", on="a", role="head", phase="Succeeded"),
    "a pod fails": running("x", on="a", gpu=0, memory=1000, phase="Failed"),
    "a pod is gone": Gone(running("x", on="a", gpu=0, memory=1000)),
    "a pod without named cards is gone": Gone(pod("unnamed", 1, on="c")),
    "a pod with rules is gone": Gone(worker("web-0", "web", on="b")),
    "a pod of an unknown node is gone": Gone(running("lost", on="gone", gpu=0, memory=500)),
    "a pod comes": worker("web-3", "web"),
    "a waiting pod changes its job": member("web-1", "train"),
    "a waiting pod is another scheduler's": of_another(member("web-1", "train")),
    "a waiting pod is gone": Gone(worker("web-1", "web")),
    "a node comes": node("d", gpus=2),
    "a node of known pods comes": node("gone", gpus=3),
    "a node offers something new": node("a", gpus=2, labels={HOST: "a"}, example__card=4),
    "a node has more cards": node("b", gpus=4, labels={HOST: "b", "zone": "z"}),
    "a node has fewer cards": node("a", gpus=1, labels={HOST: "a"}),
    "a node has fewer plain cards": plain("c", 1),
    "a node is cordoned": node("a", gpus=2, labels={HOST: "a"}, unschedulable=True),
    "a node is gone": Gone(node("a")),
    "a plain node is gone": Gone(node("c")),
    "a group changes": group("train", 3, minTaskMember={"worker": 1}),
    "a group of another scheduler comes": kai_group("web", 2),
    "a group is gone": Gone(group("train", 2)),
    "a queue comes": queue("new"),
    "a queue is gone": Gone(queue("team")),
    "a priority class changes": priority_class("high", 9),
    "a quota changes": quota("5000"),
    "a quota is gone": Gone(quota("9000")),
    "a namespace changes": Namespace(ObjectMeta("default", labels={"team": "y"})),
    "a HyperNode changes": rack("b", "c"),
}


# -- what it looks like


def columns_of(cluster: Cluster) -> dict[str, Any]:
    """Everything that the columns and quotas count, by names."""
    columns = cluster.columns
    counted: dict[str, Any] = {"foreign": columns.foreign_total, "quotas": list(cluster.quotas.all())}
    for name, state in sorted(cluster.nodes.items()):
        row = state.row
        counted[name] = {
            "amounts": {r: columns.amounts[:, at, row].tolist() for r, at in columns.resources.items() if at < 5},
            "offers": {r: columns.allocatable[at, row] for r, at in columns.resources.items() if r in state.offers},
            "free": {d.uuid: columns.card_free[:, at, row].tolist() for at, d in enumerate(state.devices)},
            "total": {d.uuid: columns.card_total[:, at, row].tolist() for at, d in enumerate(state.devices)},
            "models": [columns.models[number] for number in columns.model[:, row].tolist() if number],
            "used": columns.node_used[:, row].tolist(),
            "unknown": columns.foreign[:, row].tolist(),
            "taints": cluster.labels.taint_sets[columns.taints[row]],
            "cards": {d.uuid: cluster.rows.cards[d.uuid] for d in state.devices},
        }
    return counted


def everything_of(cluster: Cluster) -> dict[str, Any]:
    """Everything that decisions depend on, by names."""
    placed = cluster.placed
    carried = {"anti": placed.anti_affinity.carried, "near": placed.preferences.carried}
    return {
        "columns": columns_of(cluster),
        "holders": cluster.holders,
        "holdings": {key: cluster.held(key) for key in cluster.holders},
        "pods": {key: cluster.status(key) for key in cluster.pods()},
        "jobs": {key: job_of(cluster, key) for key in cluster.groups.jobs},
        "groups": cluster.groups.groups,
        "queues": cluster.groups.queues,
        "new": [job.key for job in cluster.groups.new_jobs(cluster.is_ours)],
        "unmanaged": cluster.groups.unmanaged,
        "limits": cluster.quotas.limits,
        "placed": set(placed.pods),
        "carried": {name: {t: c.by_node for t, c in terms.items()} for name, terms in carried.items()},
        "selected": placed.counts(SelectedPods((PodSelector(("default",), ()),))).by_node,
        "members": cluster.topology.membership().nodes,
        "namespaces": cluster.surroundings.namespaces,
        "problems": sorted(str(problem) for problem in cluster.problems()),
    }


def job_of(cluster: Cluster, key: str) -> dict[str, Any]:
    job = cluster.groups.jobs[key]
    return {
        "pods": {name: cluster.status(name) for name in job.tasks},
        "finished": set(job.finished),
        "group": job.group,
        "queue": job.queue,
        "priority": job.priority,
        "places": {role: job.with_place(role) for role in (None, *job.roles)},
    }


def assert_whole(cluster: Cluster) -> None:
    """The parts agree with each other."""
    assert cluster.holders.keys() == cluster.running.keys() | cluster.reserved.keys()
    assert not cluster.waiting.keys() & cluster.holders.keys()
    assert cluster.leaving <= cluster.running.keys()
    for key, where in cluster.holders.items():
        held = cluster.held(key)
        assert held is not None
        assert held.node == where
    for key, job in cluster.groups.jobs.items():
        assert all(cluster.groups.of_pod[name] is job for name in (*job.tasks, *job.finished)), key
        statuses = Counter(cluster.status(name) for name in job.tasks)
        for status, count in statuses.items():
            assert job.count(status) == count, (key, status)
    assert everything_of(cluster)


# -- faults


class Place(NamedTuple):
    """A line, at one of the times that it runs."""

    file: str
    line: int
    time: int


def guard_of(frame: FrameType) -> str:
    """The guard that called, directly or not."""
    back = frame.f_back
    while back is not None and not back.f_code.co_filename.endswith(GUARDS):
        back = back.f_back
    return "" if back is None else back.f_code.co_filename


def traced(call: Callable[[], None], on_line: Callable[[Place], None]) -> None:
    """Call something, and something else before every line of the engine outside of the guards."""
    times: Counter[tuple[str, int]] = Counter()

    def concerns(frame: FrameType) -> bool:
        name = frame.f_code.co_filename
        if not name.startswith(ENGINE) or name.endswith(GUARDS):
            return False
        # What handlers look up in an object before they begin is theirs.
        return not (name.endswith(("pod.py", "meta.py")) and not guard_of(frame).endswith("/recovery.py"))

    def in_frame(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            where = frame.f_code.co_filename, frame.f_lineno
            times[where] += 1
            on_line(Place(*where, times[where]))
        return in_frame

    def in_call(frame: FrameType, _event: str, _: object) -> Any:
        return in_frame if concerns(frame) else None

    sys.settrace(in_call)
    try:
        call()
    finally:
        sys.settrace(None)


def places_of(news: Any, prepare: Callable[[Cluster], object] = lambda cluster: None) -> list[Place]:
    """Every line that an update of a prepared cluster runs, at its first time; where state changes, at its last too."""
    found: dict[tuple[str, int], list[Place]] = {}
    # What is memoised does not run again.
    take(world(), news)
    cluster = world()
    prepare(cluster)
    traced(lambda: take(cluster, news), lambda place: found.setdefault(place[:2], []).append(place))
    return [places[0] for places in found.values()] + [
        places[-1] for places in found.values() if len(places) > 1 and places[0].file.startswith(ENGINE[0])
    ]


def fail(cluster: Cluster, news: Any, at: Place) -> None:
    """Let an update fail at a line."""

    def reached(place: Place) -> None:
        if place == at:
            sys.settrace(None)
            raise InjectedError

    with pytest.raises(InjectedError):
        traced(lambda: take(cluster, news), reached)


@pytest.mark.parametrize("every", [SAMPLED, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("what", UPDATES)
def test_an_update_that_fails_at_any_line_costs_only_its_object(what: str, every: int) -> None:
    news = UPDATES[what]
    before, after = world(), world()
    take(after, news)
    old, new, wanted = columns_of(before), columns_of(after), everything_of(after)
    # Updates share most lines, so each begins at another one.
    for place in places_of(news)[list(UPDATES).index(what) % every :: every]:
        cluster = world()
        fail(cluster, news, place)
        assert_whole(cluster)
        allowed = [new] if must_count(before, news) else [old, new]
        assert columns_of(cluster) in allowed, place
        if isinstance(news, Pod) and news.key in after.pods():
            assert news.key in cluster.pods() or news.node is None, place
        take(cluster, news)
        assert everything_of(cluster) == wanted, place


def must_count(before: Cluster, news: Any) -> bool:
    """Whether the columns must count an update even if it fails: a new pod on a node, or something that is gone."""
    if isinstance(news, Gone):
        return isinstance(news.thing, Pod | Node)
    return isinstance(news, Pod) and news.node is not None and before.holders.get(news.key) != news.node


PROBES = (
    pod("probe", 1, memory=100),
    pod("probe", 2),
    part("probe", 0.5),
    worker("probe", "web"),
    pod("probe", cpu="1"),
)
TIMES = 8
"""How many of an update's lines raise while sessions are open."""


def answers(session: Session) -> list[tuple[Any, ...]]:
    decisions = [session.decide(make_task(probe, VENDORS)) for probe in PROBES]
    return [(d.node, d.devices, d.why_not()) for d in decisions]


@pytest.mark.parametrize("what", UPDATES)
def test_open_sessions_decide_like_new_ones_after_an_update_that_failed(what: str) -> None:
    def ask(cluster: Cluster) -> None:
        with Session(cluster, default_plugins()) as session:
            answers(session)

    places = places_of(UPDATES[what], ask)
    for place in places[:: max(1, len(places) // TIMES)]:
        cluster = world()
        with Session(cluster, default_plugins()) as session:
            answers(session)
            fail(cluster, UPDATES[what], place)
            with Session(cluster, default_plugins()) as fresh:
                assert answers(session) == answers(fresh), place
            take(cluster, UPDATES[what])
            with Session(cluster, default_plugins()) as fresh:
                assert answers(session) == answers(fresh), place
