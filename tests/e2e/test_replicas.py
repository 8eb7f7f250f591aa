"""Two replicas of `tonnage extender`: one leads, the other hands on and takes over, and nothing is placed twice."""

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.checker import findings
from tests.e2e.extending import Extender, wanted
from tests.e2e.replicating import Holder, Replica, bind_by_hand, holding, logs, pair, until_leading
from tests.scenario import node
from tests.waiting import PATIENCE, until
from tonnage.lab.api import ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.player import playing


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


@pytest.fixture(scope="module")
def replicas(control_plane: ControlPlane) -> Iterator[tuple[Replica, Replica, Holder]]:
    """Two extenders, and somebody who plays their kube-schedulers' lease."""
    with pair(control_plane) as (first, second), holding(control_plane) as holder:
        yield first, second, holder


def filtered(extender: Extender, plane: ControlPlane, name: str, *nodes: str) -> Any:
    pod = plane.api.get(f"{pods_path()}/{name}")
    return extender.post("/filter", {"Pod": pod, "NodeNames": list(nodes)})


def bound(extender: Extender, plane: ControlPlane, name: str, on: str) -> str:
    uid = plane.api.get(f"{pods_path()}/{name}")["metadata"]["uid"]
    asked = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": on}
    return str(extender.post("/bind", asked)["Error"])


def is_bound(plane: ControlPlane, name: str) -> bool:
    return "nodeName" in plane.api.get(f"{pods_path()}/{name}")["spec"]


def test_a_leader_that_is_killed_is_replaced_and_nothing_is_lost_or_placed_twice(
    fresh_control_plane: ControlPlane,
) -> None:
    plane = fresh_control_plane
    plane.api.create_nodes(node(f"n{number}", gpus=2, nvidia__com__gpu=20) for number in range(3))
    with pair(plane) as (first, second), playing(plane, delay=0.02) as player:
        first.run_scheduler()
        until_leading(first)
        second.run_scheduler()
        names = [f"p{number:02}" for number in range(24)]
        plane.api.create_pods(wanted(name, 1, memory=2000) for name in names)
        until(lambda: len(player.started) >= 6, "nothing runs", lambda: logs((first, second)))
        first.kill()
        before = len(player.started)
        until(lambda: len(player.started) > before + 2, "nobody takes over", lambda: logs((first, second)))
        until(lambda: len(player.started) == len(names), "pods do not run", lambda: logs((first, second)))
        assert second.role == "leader"
        assert first.role == "follower"
        assert findings(plane.api) == []
        assert player.mixed_up == []


def test_one_that_does_not_lead_hands_questions_on(
    plane: ControlPlane, replicas: tuple[Replica, Replica, Holder]
) -> None:
    first, second, holder = replicas
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    plane.api.create_pods([wanted("p", 1, memory=5000), wanted("q", 1, memory=5000)])
    holder.give_to(first.host)
    until_leading(first)
    assert second.role == "follower"
    assert filtered(second.extender, plane, "p", "a")["NodeNames"] == ["a"]
    # The place is kept by the leader, whoever was asked.
    assert filtered(first.extender, plane, "q", "a")["FailedNodes"] == {"a": "CardInsufficientMemory"}
    pod = plane.api.get(f"{pods_path()}/q")
    assert second.extender.post("/prioritize", {"Pod": pod, "NodeNames": ["a"]}) == [{"Host": "a", "Score": 0}]
    victims = {"Pod": pod, "NodeNameToMetaVictims": {"a": {"Pods": []}}}
    assert second.extender.post("/preempt", victims) == {"NodeNameToMetaVictims": {}}
    assert bound(second.extender, plane, "p", "a") == ""
    assert is_bound(plane, "p")
    assert findings(plane.api) == []
    # Every replica admits pods.
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": pod},
    }
    for replica in (first, second):
        assert replica.extender.post("/webhook", review)["response"]["allowed"]
        assert replica.extender.get("/readyz") == "ok"


def test_a_leader_that_stood_still_while_another_took_over_binds_nothing_when_it_wakes(
    plane: ControlPlane, replicas: tuple[Replica, Replica, Holder]
) -> None:
    first, second, holder = replicas
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    plane.api.create_pods([wanted("p", 1, memory=5000), wanted("q", 1, memory=5000)])
    holder.give_to(first.host)
    until_leading(first)
    until(lambda: filtered(first.extender, plane, "p", "a")["NodeNames"] == ["a"], "p has no place")
    first.extender.process.send_signal(signal.SIGSTOP)
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(bound(first.extender, plane, "p", "a")))
    try:
        asking.start()
        holder.give_to(second.host)
        until_leading(second)
        assert filtered(second.extender, plane, "q", "a")["NodeNames"] == ["a"]
        assert bound(second.extender, plane, "q", "a") == ""
    finally:
        first.extender.process.send_signal(signal.SIGCONT)
    asking.join(PATIENCE)
    assert len(answers) == 1
    assert "CardInsufficientMemory" in answers[0]
    assert not is_bound(plane, "p")
    until(lambda: first.role == "follower", "the one that stood still still says that it leads")
    assert findings(plane.api) == []


def test_a_bind_that_waits_for_its_turn_is_refused_if_another_leads_when_it_comes(
    plane: ControlPlane, replicas: tuple[Replica, Replica, Holder]
) -> None:
    first, second, holder = replicas
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    plane.api.create_pods([wanted("x", 1, memory=1000), wanted("p", 1, memory=5000), wanted("q", 1, memory=5000)])
    holder.give_to(first.host)
    until_leading(first)
    until(lambda: filtered(first.extender, plane, "x", "a")["NodeNames"] == ["a"], "x has no place")
    assert bound(first.extender, plane, "x", "a") == ""
    assert filtered(first.extender, plane, "p", "a")["NodeNames"] == ["a"]
    answers: list[str] = []
    # Nobody hands out the devices of x, so that this waits.
    asking = threading.Thread(target=lambda: answers.append(bound(first.extender, plane, "p", "a")))
    asking.start()
    time.sleep(0.3)
    first.extender.process.send_signal(signal.SIGSTOP)
    try:
        holder.give_to(second.host)
        until_leading(second)
        done = {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}}
        plane.api.patch(f"{pods_path()}/x", done)
        assert filtered(second.extender, plane, "q", "a")["NodeNames"] == ["a"]
        assert bound(second.extender, plane, "q", "a") == ""
        plane.api.patch(f"{pods_path()}/q", done)
    finally:
        first.extender.process.send_signal(signal.SIGCONT)
    asking.join(PATIENCE)
    assert len(answers) == 1
    assert answers[0] != ""
    assert not is_bound(plane, "p")
    assert findings(plane.api) == []


def test_a_lease_that_flaps_places_nothing_twice(
    plane: ControlPlane, replicas: tuple[Replica, Replica, Holder]
) -> None:
    first, second, holder = replicas
    plane.api.create_nodes(node(f"n{number}", gpus=2, nvidia__com__gpu=20) for number in range(2))
    nodes = [f"n{number}" for number in range(2)]
    names = [f"p{number:02}" for number in range(34)]
    plane.api.create_pods(wanted(name, 1, memory=1000) for name in names)
    ended, led = threading.Event(), set()

    def flap() -> None:
        for turn in range(1000):
            holder.give_to((first, second)[turn % 2].host)
            if ended.wait((0.1, 1.2, 0.4, 0.8, 0.2, 2.4)[turn % 6]):
                return
            led.update(replica.host for replica in (first, second) if replica.role == "leader")

    def schedule(extender: Extender, mine: list[str]) -> None:
        """As a kube-scheduler does that is asked to place its pods."""
        while mine and not ended.is_set():
            name = mine.pop(0)
            ended.wait(0.2)
            try:
                found = filtered(extender, plane, name, *nodes)["NodeNames"]
                if found and bound(extender, plane, name, found[0]) == "":
                    continue
            except (OSError, ApiError):
                pass
            if not is_bound(plane, name):
                mine.append(name)

    flapping = threading.Thread(target=flap)
    with playing(plane):
        flapping.start()
        asking = [
            threading.Thread(target=schedule, args=(replica.extender, names[number::2]))
            for number, replica in enumerate((first, second))
        ]
        for thread in asking:
            thread.start()
        try:
            # 32 of the 34 fit.
            until(
                lambda: sum(is_bound(plane, name) for name in names) == 32 and led == {first.host, second.host},
                "not all are placed, or one never led",
                lambda: logs((first, second)),
            )
        finally:
            ended.set()
            for thread in (flapping, *asking):
                thread.join(PATIENCE)
    assert findings(plane.api) == []


def test_a_pod_that_was_bound_over_another_one_is_evicted_and_told_why(
    plane: ControlPlane, replicas: tuple[Replica, Replica, Holder]
) -> None:
    first, _, holder = replicas
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    holder.give_to(first.host)
    until_leading(first)
    plane.api.create_pods([wanted("p", 1, memory=5000), wanted("q", 1, memory=5000), wanted("r", 1, memory=3000)])
    for name, memory in (("p", 5000), ("q", 5000), ("r", 3000)):
        bind_by_hand(plane.api, name, memory)

    def is_leaving(name: str) -> bool:
        found = plane.api.get(pods_path())["items"]
        return all("deletionTimestamp" in one["metadata"] for one in found if one["metadata"]["name"] == name)

    until(lambda: is_leaving("q"), "the later pod is not evicted", first.extender.log.read_text)
    assert not is_leaving("p")
    assert not is_leaving("r")

    def told() -> list[str]:
        events = plane.api.get("/api/v1/namespaces/default/events")["items"]
        return [e["message"] for e in events if e["reason"] == "DeviceOverlap" and e["involvedObject"]["name"] == "q"]

    until(lambda: bool(told()), "nothing is told")
    why = "evicted: holds 2000 memory too many (10000 of 8000 in use) of NVIDIA card a/0 of a"
    assert told() == [f"{why}, which default/p held before"]
    plane.api.delete(f"{pods_path()}/q")
    assert findings(plane.api) == []
