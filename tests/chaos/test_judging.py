"""The judge of faults itself: it finds what is wrong, and nothing where nothing is."""

import random

import pytest

from tests.chaos.front import Rule
from tests.chaos.traffic import Traffic, sharing
from tests.cluster.checker import findings, overlooked
from tests.cluster.extending import SCHEDULER
from tests.scenario import node, running
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


def test_a_rule_is_about_as_many_requests_as_it_says():
    rule = Rule("POST", "/binding$", times=1, status=409)
    assert not rule.takes("GET", "/api/v1/pods/p/binding")
    assert not rule.takes("POST", "/api/v1/pods")
    assert rule.takes("POST", "/api/v1/pods/p/binding")
    assert not rule.takes("POST", "/api/v1/pods/p/binding")
