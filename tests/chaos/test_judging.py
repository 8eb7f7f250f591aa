"""The judge of faults itself: it finds what is wrong, and nothing where nothing is."""

import random

import pytest

from tests.chaos.front import Rule
from tests.chaos.scheduler.history import EVICTED, QUEUE, History, beneficiaries
from tests.chaos.traffic import Traffic, sharing
from tests.e2e.checker import findings, half_bound, overfull, overlooked, startable
from tests.e2e.extending import SCHEDULER
from tests.scenario import node, plain, pod, running
from tonnage.lab.api import node_manifest, pod_manifest


class Shown:
    """An API server with these objects."""

    def __init__(self, *pods, nodes=("a",)):
        made = [node(name, gpus=2, gpu_memory=8000, slots=2) for name in nodes]
        self.objects = {"/api/v1/nodes": made, "/api/v1/pods": pods}

    def get(self, path):
        served = node_manifest if path.endswith("nodes") else _pod
        return {"items": [served(one) for one in self.objects[path]]}


def _pod(pod):
    served = pod_manifest(pod)
    for container in served["spec"]["containers"]:
        limits = container["resources"]["limits"]
        container["resources"]["limits"] = {name: str(amount) for name, amount in limits.items()}
    return served


def test_what_fits_is_no_finding():
    assert findings(Shown(running("p", on="a", memory=5000), running("q", on="a", memory=3000))) == []


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ([running("p", on="a", memory=5000), running("q", on="a", memory=3001)], "8001 of 8000 memory"),
        ([running(name, on="a", memory=1) for name in "pqr"], "3 of 2 slots"),
        ([running(name, on="a", memory=1, cores=60) for name in "pq"], "120 of 100 cores"),
        ([running("p", on="b", memory=1)], "is no card of b"),
    ],
)
def test_what_must_never_be_is_found(pods, said):
    assert any(said in one for one in findings(Shown(*pods)))


def test_a_waiting_pod_is_overlooked_only_if_its_cards_are_free_on_one_node():
    full = running("p", on="a", gpu=0, memory=6000)
    assert overlooked(Shown(full, sharing("q", 1, 3000, 5)), SCHEDULER) == ["q waits and would fit on a: a/1"]
    assert overlooked(Shown(full, sharing("q", 2, 3000, 5)), SCHEDULER) == []
    assert overlooked(Shown(full, sharing("q", 2, 2000, 5)), SCHEDULER) != []
    assert overlooked(Shown(full, sharing("q", 1, 3000, 5, "another-scheduler")), SCHEDULER) == []


def test_a_pod_that_should_be_there_and_is_not_is_lost():
    class Arena:
        nodes, cards = 1, 1
        there = ()

        def pods(self):
            return {name: {} for name in self.there}

        class api:  # noqa: N801
            create_pods = staticmethod(list)

    made = Arena()
    traffic = Traffic(made, random.Random(0))
    traffic.arrive("p")
    traffic.arrive("q")
    made.there = ("q",)
    assert traffic.settle() == ["p is lost"]
    assert traffic.settle() == []


# -- of batch schedulers

GROUP = {"metadata": {"name": "gang"}, "spec": {"minMember": 2}}


def made(name, gpus=1, *, on=None, group="", nominated=None, priority=0, evicted=False, **more):
    """A pod as the API server shows it."""
    notes = {"pod-group-name": group} if group else {}
    served = _pod(pod(name, gpus, on=on, annotations=notes, labels={QUEUE: "q"}, nominated=nominated, **more))
    served["metadata"]["uid"] = f"uid-{name}"
    served["spec"]["priority"] = priority
    (container,) = served["spec"]["containers"]
    container["resources"]["requests"] = container["resources"]["limits"]
    if evicted:
        served["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        served["status"]["conditions"] = [{"type": "DisruptionTarget", "reason": EVICTED}]
    return served


WHOLE = node_manifest(plain("w", 2))


def test_whole_cards_and_what_a_node_offers_are_counted():
    pods = [made("p", 1, on="w"), made("q", 1, on="w")]
    assert overfull([WHOLE], pods) == []
    assert overfull([WHOLE], [*pods, made("r", 1, on="w")]) == ["w: 3 of 2 nvidia.com/gpu in use"]
    small = node_manifest(node("s", cpu="1500m", memory="1Gi"))
    assert overfull([small], [made("p", None, on="s", cpu="1600m", memory=None)]) == ["s: 1.6 of 1.5 cpu in use"]


def test_a_gang_is_half_bound_if_some_of_its_pods_have_a_node_and_too_few():
    one, two = made("a", on="w", group="gang"), made("b", on="w", group="gang")
    assert half_bound([one, made("b", group="gang")], [GROUP]) == ["gang needs 2 pods and 1 are bound"]
    assert half_bound([one, two, made("c", group="gang")], [GROUP]) == []
    assert half_bound([made("a", group="gang")], [GROUP]) == []


def test_a_gang_could_start_only_if_there_is_room_for_as_many_as_it_needs():
    gang = [made("a", group="gang"), made("b", group="gang")]
    assert startable([WHOLE], gang, [GROUP]) == ["gang waits and would fit on w, w"]
    assert startable([WHOLE], [*gang, made("p", on="w")], [GROUP]) == []
    assert startable([WHOLE], [made("a", on="w", group="gang"), gang[1]], [GROUP]) == ["gang waits and would fit on w"]
    assert startable([WHOLE], gang[:1], [GROUP]) == [], "a pod is missing"
    assert startable([WHOLE], gang, []) == [], "nobody knows what it needs"
    shared = node_manifest(node("a", gpus=1, gpu_memory=8000, slots=2))
    assert startable([shared], [made("p", memory=8000)], []) == ["p waits and would fit on a"]
    assert startable([WHOLE], [made("p", memory=8000)], []) == []


def test_a_pod_that_changes_its_node_or_has_no_room_for_a_moment_is_found():
    history = History([WHOLE])
    history.look(made("p", 2, on="w"), is_gone=False)
    history.look(made("q", 1, on="w"), is_gone=False)
    history.look(made("p", 2, on="w"), is_gone=True)
    history.look(made("q", 1, on="elsewhere"), is_gone=False)
    assert history.take_wrong() == [
        "once q was bound: w: 3 of 2 nvidia.com/gpu in use",
        "q was bound to w and then to elsewhere",
    ]
    assert history.take_wrong() == []


@pytest.mark.parametrize(
    ("bound", "is_served"),
    [
        (made("p", on="w"), True),
        (made("q", on="w"), False),
        (made("more-important", on="w", priority=5), True),
    ],
)
def test_an_eviction_serves_the_pod_that_it_was_for_or_a_more_important_one(bound, is_served):
    history, waits = History([WHOLE]), made("p", nominated="w")
    history.look(waits, is_gone=False)
    history.look(made("victim", on="w", evicted=True), is_gone=False)
    (gone,) = history.take_gone()
    assert (gone.name, gone.nominated) == ("victim", {"p"})
    history.look(bound, is_gone=False)
    assert history.was_served(waits, gone) is is_served


def test_events_say_for_whom_pods_were_evicted():
    events = [
        {"reason": "Preempted", "message": "Preempted by default/g1 on node w: why", "involvedObject": {"uid": "1"}},
        {"reason": "Evicted", "message": "its gang", "involvedObject": {"uid": "2"}},
        {"reason": "Scheduled", "message": "bound", "involvedObject": {"uid": "3"}},
    ]
    assert beneficiaries(events) == {"1": "g1", "2": ""}


def test_a_rule_is_about_what_requests_say():
    rule = Rule("PATCH", "/status$", says='"nominatedNodeName":"')
    assert not rule.takes("PATCH", "/pods/p/status", b'{"conditions":[]}')
    assert rule.takes("PATCH", "/pods/p/status", b'{"nominatedNodeName":"a"}')


def test_a_rule_is_about_as_many_requests_as_it_says():
    rule = Rule("POST", "/binding$", times=1, status=409)
    assert not rule.takes("GET", "/api/v1/pods/p/binding")
    assert not rule.takes("POST", "/api/v1/pods")
    assert rule.takes("POST", "/api/v1/pods/p/binding")
    assert not rule.takes("POST", "/api/v1/pods/p/binding")


def test_a_pod_that_could_start_is_told_with_what_the_scheduler_says_about_it() -> None:
    waits = {"type": "PodScheduled", "status": "False", "message": "DevicePluginSilent"}
    pod = {**made("p"), "status": {"conditions": [waits]}}
    assert startable([WHOLE], [pod], []) == ["p waits and would fit on w; the scheduler says: DevicePluginSilent"]
