"""Attacks on a shared cluster, each by somebody who may edit one namespace, or who only reaches a port.

The honest tenant's pods get their cards soon, keep them and are not stopped, and the server lives.
"""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from tests.chaos.vigil import resident
from tests.e2e.addresses import own_address
from tests.e2e.extending import Extender
from tests.scenario import ALLOCATED, pod
from tests.tenants.ground import EXTENDER, SCHEDULER, Ground, Scene, cleared, ground
from tests.tenants.kubelets import ASSIGNED, NOWHERE
from tests.tenants.ledger import HONEST, HOSTILE, JOB
from tests.waiting import until
from tonnage.lab.api import Api, ApiError, pod_manifest, pods_path
from tonnage.lab.player import PHASE
from tonnage.lab.program import free_ports

SOON = 120.0
"""Seconds within which an honest pod has its node; a bind that gives up on a plugin takes longer."""
NODES = 3
CARDS = 4 * NODES
KAI = "/apis/scheduling.run.ai/v2alpha2"


class Field:
    """A cluster with both tenants, and words for tests."""

    def __init__(self, made: Ground, scene: Scene) -> None:
        self.ground, self.scene = made, scene
        self.plane, self.api, self.ledger = made.plane, made.api, scene.ledger
        self.honest, self.hostile = Api(*made.tenant(HONEST)), Api(*made.tenant(HOSTILE))
        self.hostile_path = pods_path(HOSTILE)
        made.restrict(HOSTILE)

    # -- what tenants do

    def wants(self, name: str, gpus: int = 1, **asks: Any) -> None:
        """An honest pod comes."""
        self.honest.create(pods_path(HONEST), self._made(name, gpus, HONEST, labels={JOB: name}, **asks))

    def attacks(self, name: str, gpus: int | None = None, *, on: str = "", pending: bool = False, **more: Any) -> str:
        """A hostile pod comes; its path."""
        made = self._made(name, gpus, HOSTILE, **more)
        if on:
            made["spec"]["nodeName"] = on
        if pending:
            made["spec"]["containers"][0]["image"] = NOWHERE
        self.hostile.create(self.hostile_path, made)
        return f"{self.hostile_path}/{name}"

    def annotates(self, path: str, **annotations: str) -> None:
        self.hostile.patch(path, {"metadata": {"annotations": annotations}})

    def _made(self, name: str, gpus: int | None, namespace: str, **more: Any) -> dict[str, Any]:
        notes = {"tonnage.io/queue": namespace, **more.pop("annotations", {})}
        scheduler = more.pop("scheduler", self.ground.scheduler_name)
        priority = more.pop("priority_class", "")
        made = pod_manifest(pod(name, gpus, namespace=namespace, annotations=notes, **more))
        made["spec"] |= {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
        if priority:
            made["spec"]["priorityClassName"] = priority
        return made

    # -- what became of it

    def pod(self, name: str, namespace: str = HONEST) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{pods_path(namespace)}/{name}")
        return found

    def runs(self, name: str, namespace: str = HONEST) -> bool:
        return bool(self.pod(name, namespace)["status"].get("phase") == "Running")

    def soon_run(self, *names: str) -> None:
        started = time.monotonic()
        until(lambda: time.monotonic() > started + SOON or all(map(self.runs, names)), "time stands still")
        late = [name for name in names if not self.runs(name)]
        assert not late, f"{late} do not run after {SOON:g} s\n{self.log()}"

    def log(self) -> str:
        return self.scene.vigil.command.log.read_text()[-3000:]

    def check(self) -> None:
        assert self.ledger.wrong == []
        assert self.scene.vigil.failures == []

    def restart(self) -> None:
        """The server ends and comes again, as at an update."""
        self.scene.vigil.stop()
        self.scene.vigil.command.stop()
        self.scene.vigil.command.start()
        self.scene.watch(self.scene.vigil.command)

    def clear(self) -> None:
        for one in self.api.get(pods_path(HONEST))["items"]:
            self.ledger.leaving(one["metadata"]["name"])
        cleared(self.ground, HONEST, HOSTILE)
        self.ledger.wrong.clear()
        self.scene.vigil.failures.clear()


@pytest.fixture(scope="module", params=[EXTENDER, SCHEDULER])
def fields(request: pytest.FixtureRequest) -> Iterator[Field]:
    with ground(request.param, NODES, is_sharing=True) as (made, command):
        scene = Scene(made, command)
        field = Field(made, scene)
        try:
            yield field
        finally:
            scene.stop()
            field.honest.close()
            field.hostile.close()


@pytest.fixture
def field(fields: Field) -> Iterator[Field]:
    fields.ledger.wrong.clear()
    yield fields
    fields.clear()


def claim(card: str, memory: int = 8000) -> dict[str, str]:
    """What a device plugin would write on a pod that holds a card."""
    return {ALLOCATED: f"{card},NVIDIA,{memory},100:;"}


def allocating(node: str) -> dict[str, str]:
    """What a pod has between its Binding and its device plugin's answer."""
    return {PHASE: "allocating", "hami.io/bind-time": "1", ASSIGNED: node}


# -- allocation state that a tenant writes


def test_a_pod_without_devices_that_says_it_is_being_allocated_keeps_nobody_waiting(field: Field) -> None:
    for node in field.ground.names:
        field.attacks(f"stuck-{node}", on=node, pending=True, annotations=allocating(node))
    names = [f"p{number}" for number in range(6)]
    for name in names:
        field.wants(name, memory=8000)
    field.soon_run(*names)
    field.check()


def test_cards_that_a_pod_without_devices_claims_are_free(field: Field) -> None:
    for node in field.ground.names:
        every = "".join(f"{node}/{number},NVIDIA,8000,100:" for number in range(4)) + ";"
        field.attacks(f"claims-{node}", on=node, annotations={ALLOCATED: every})
    names = [f"p{number}" for number in range(CARDS)]
    for name in names:
        field.wants(name)
    field.soon_run(*names)
    field.check()


def test_invented_cards_make_no_metrics(field: Field) -> None:
    before = len(field.ground.metrics().splitlines())
    invented = "".join(f"g{number:x},N,1,1:" for number in range(20_000)) + ";"
    for node in field.ground.names:
        field.attacks(f"invents-{node}", on=node, annotations={ALLOCATED: invented})
    field.wants("p", memory=1000)
    field.soon_run("p")
    until(lambda: field.runs(f"invents-{field.ground.names[0]}", HOSTILE), "the hostile pod does not run")
    assert len(field.ground.metrics().splitlines()) < before + 500
    field.check()


@pytest.mark.parametrize("gpus", [None, 1])
def test_who_claims_the_card_of_a_running_pod_does_not_get_that_pod_stopped(field: Field, gpus: int | None) -> None:
    field.wants("victim")
    field.soon_run("victim")
    card = field.pod("victim")["metadata"]["annotations"][ALLOCATED].split(",")[0]
    node = field.pod("victim")["spec"]["nodeName"]
    try:
        field.attacks("claims", gpus, on=node, pending=True, annotations=claim(card))
    except ApiError as error:
        # The webhook, or a policy, admits no pod that asks for devices and has a node.
        assert (gpus, error.status) == (1, 403)  # noqa: PT017
        return
    field.wants("next", memory=1000)
    field.soon_run("next")
    field.restart()
    field.wants("last", memory=1000)
    field.soon_run("last")
    time.sleep(3.0)  # the overlap guard takes 1.5 s to find a pod guilty
    assert field.runs("victim")
    field.check()


def test_claims_that_come_and_go_while_pods_are_bound_get_none_of_them_stopped(field: Field) -> None:
    paths = [field.attacks(f"claims-{node}", on=node, pending=True) for node in field.ground.names]
    stopped = threading.Event()

    def flicker() -> None:
        claims = True
        while not stopped.wait(0.3):
            for path, node in zip(paths, field.ground.names, strict=True):
                every = "".join(f"{node}/{number},NVIDIA,8000,100:" for number in range(4)) + ";"
                # A hostile pod that was found guilty is gone.
                with suppress(ApiError):
                    field.annotates(path, **{ALLOCATED: every if claims else ""})
            claims = not claims

    thread = threading.Thread(target=flicker, daemon=True)
    thread.start()
    try:
        names = [f"p{number}" for number in range(CARDS)]
        for name in names:
            field.wants(name)
            time.sleep(0.2)
        field.soon_run(*names)
    finally:
        stopped.set()
        thread.join(60)
    time.sleep(3.0)  # the overlap guard takes 1.5 s to find a pod guilty
    field.check()


@pytest.mark.parametrize("rewritten", ["another card", "nothing", "half of it"])
def test_a_card_is_not_given_again_when_its_pod_rewrites_what_it_holds(field: Field, rewritten: str) -> None:
    path = field.attacks("holds", 1)
    until(lambda: field.runs("holds", HOSTILE), "the hostile pod does not run", field.log)
    placed = field.pod("holds", HOSTILE)
    card, node = placed["metadata"]["annotations"][ALLOCATED].split(",")[0], placed["spec"]["nodeName"]
    others = [f"{node}/{number}" for number in range(4) if f"{node}/{number}" != card]
    field.annotates(
        path,
        **{
            "another card": claim(others[0]),
            "nothing": {ALLOCATED: ""},
            "half of it": claim(card, 4000),
        }[rewritten],
    )
    names = [f"p{number}" for number in range(CARDS)]
    for name in names:
        field.wants(name)
    started = time.monotonic()
    until(lambda: sum(map(field.runs, names)) == CARDS - 1 or time.monotonic() > started + SOON, "no end")
    field.check()
    # Where the last card is, is not certain any more; that it is not given twice is.
    assert CARDS - 2 <= sum(map(field.runs, names)) <= CARDS - 1


# -- values that cannot be read


def test_a_number_of_5000_digits_on_a_running_pod_does_not_free_its_card(field: Field) -> None:
    path = field.attacks("holds", 1)
    until(lambda: field.runs("holds", HOSTILE), "the hostile pod does not run", field.log)
    for key in ("tonnage/min-members", "tonnage.io/min-members"):
        field.annotates(path, **{key: "000000000001" + "9" * 4988})
    names = [f"p{number}" for number in range(CARDS)]
    for name in names:
        field.wants(name)
    until(lambda: sum(map(field.runs, names)) >= CARDS - 1, "free cards are not given", field.log)
    field.check()
    assert sum(map(field.runs, names)) == CARDS - 1


def test_a_fraction_of_200000_digits_does_not_hold_the_server_up(field: Field) -> None:
    vigil = field.scene.vigil
    vigil.slowest = 0.0
    path = field.attacks("slow", annotations={"gpu-fraction": "0." + "3" * 200_000})
    for number in range(5):
        field.annotates(path, **{"gpu-fraction": f"0.{number}" + "7" * 200_000})
    field.wants("p", memory=1000)
    field.soon_run("p")
    assert vigil.slowest < 1.0
    field.check()


@pytest.mark.parametrize(
    "annotations",
    [
        {"kai.scheduler/stale-podgroup-timestamp": "9999-12-31T23:59:59.9999999Z"},
        {"kai.scheduler/stale-podgroup-timestamp": "0001-01-01T00:00:00+14:00"},
        {"kai.scheduler/last-start-timestamp": "9999-12-31T23:59:59.9999999Z"},
    ],
)
def test_a_group_with_an_impossible_time_costs_only_itself(field: Field, annotations: dict[str, str]) -> None:
    groups = f"{KAI}/namespaces/{HOSTILE}/podgroups"
    spec = {"minMember": 2, "queue": HOSTILE, "stalenessGracePeriod": "30s"}
    body = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "gang"}, "spec": spec}
    field.hostile.create(groups, body)
    try:
        path = field.attacks("gang-0", 1, annotations={"pod-group-name": "gang"}, memory=1000)
        field.attacks("gang-1", 1, annotations={"pod-group-name": "gang"}, memory=1000)
        until(lambda: field.runs("gang-0", HOSTILE) and field.runs("gang-1", HOSTILE), "the gang waits", field.log)
        # What is left of it is stale from now on, and since when is what the annotation says.
        field.hostile.delete(path)
        for number in range(3):
            field.hostile.patch(f"{groups}/gang", {"metadata": {"annotations": annotations}})
            field.wants(f"p{number}", memory=1000)
            field.soon_run(f"p{number}")
        field.check()
    finally:
        field.hostile.delete(f"{groups}/gang")


# -- priority


def test_a_group_does_not_raise_its_pods_above_those_of_others(field: Field) -> None:
    """Its pods have priority 0, whatever class their PodGroup names; the honest pods in the queue have more."""
    if field.ground.server != SCHEDULER:
        pytest.skip("the extender has no queues")
    groups = f"{KAI}/namespaces/{HOSTILE}/podgroups"
    spec = {"minMember": 1, "queue": HONEST, "priorityClassName": "system-node-critical"}
    names = [f"p{number}" for number in range(CARDS)]
    for name in names:
        field.wants(name)
    field.soon_run(*names)
    body = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "gang"}, "spec": spec}
    try:
        field.hostile.create(groups, body)
    except ApiError as error:
        assert error.status in (403, 422)  # noqa: PT017
        return
    try:
        notes = {"pod-group-name": "gang", "tonnage.io/queue": HONEST}
        field.attacks("gang-0", 1, annotations=notes)
        until(lambda: _was_looked_at(field.pod("gang-0", HOSTILE)), "nobody looks at the hostile pod", field.log)
        time.sleep(2.0)  # an eviction that was decided would be under way
        field.check()
    finally:
        field.hostile.delete(f"{groups}/gang")


def test_a_job_that_starts_in_the_year_2999_can_be_preempted(field: Field) -> None:
    if field.ground.server != SCHEDULER:
        pytest.skip("the extender has no queues")
    groups = f"{KAI}/namespaces/{HOSTILE}/podgroups"
    spec = {"minMember": CARDS, "queue": HONEST, "priorityClassName": "low"}
    body = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "gang"}, "spec": spec}
    field.hostile.create(groups, body)
    try:
        names = [f"gang-{number}" for number in range(CARDS)]
        for name in names:
            field.attacks(name, 1, annotations={"pod-group-name": "gang", "tonnage.io/queue": HONEST})
        until(lambda: all(field.runs(name, HOSTILE) for name in names), "the gang waits", field.log)
        late = {"kai.scheduler/last-start-timestamp": "2999-01-01T00:00:00Z"}
        field.hostile.patch(f"{groups}/gang", {"metadata": {"annotations": late}})
        field.wants("p", priority_class="high")
        field.soon_run("p")
        field.check()
    finally:
        field.hostile.delete(f"{groups}/gang")


def _was_looked_at(pod: dict[str, Any]) -> bool:
    return "nodeName" in pod["spec"] or any(
        one["type"] == "PodScheduled" for one in pod["status"].get("conditions", ())
    )


# -- by the port alone


@pytest.fixture(scope="module")
def door(fields: Field) -> Iterator[Extender]:
    """An extender that listens on all addresses."""
    if fields.ground.server != EXTENDER:
        pytest.skip("the batch scheduler has no such port")
    (metrics,) = free_ports(1)
    flags = (f"--scheduler-name={fields.ground.scheduler_name}", f"--metrics-bind-address=127.0.0.1:{metrics}")
    log = fields.plane.folder / "door.log"
    extender = Extender(fields.plane.kubeconfig(), log, *flags, host="0.0.0.0")
    try:
        yield extender
    finally:
        extender.stop()


def bind(door: Extender, name: str, node: str, uid: str = "", namespace: str = HONEST) -> str:
    """The error with which a bind is refused."""
    asked = {"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node}
    try:
        return str(door.post("/bind", asked).get("Error", ""))
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"


def test_a_pod_of_another_scheduler_is_not_bound(field: Field, door: Extender) -> None:
    made = field._made("theirs", 1, HONEST, scheduler="another-scheduler")
    uid = field.honest.create(pods_path(HONEST), made)["metadata"]["uid"]
    assert bind(door, "theirs", "n00", uid)
    assert "nodeName" not in field.pod("theirs")["spec"]


def test_a_pod_is_not_bound_to_a_cordoned_node_nor_without_its_uid(field: Field, door: Extender) -> None:
    field.api.patch("/api/v1/nodes/n00", {"spec": {"unschedulable": True}})
    try:
        made = field._made("gated", 1, HONEST, memory=1000)
        made["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
        uid = field.honest.create(pods_path(HONEST), made)["metadata"]["uid"]
        assert bind(door, "gated", "n01", uid), "a gated pod"
        made = field._made("cordoned", 1, HONEST, memory=1000, selector={"nobody": "here"})
        uid = field.honest.create(pods_path(HONEST), made)["metadata"]["uid"]
        assert bind(door, "cordoned", "n00", uid), "a cordoned node"
        assert bind(door, "cordoned", "no-such-node", uid), "a node that nobody knows"
        assert bind(door, "cordoned", "n01", "11111111-1111-1111-1111-111111111111"), "another UID"
        assert bind(door, "cordoned", "n01"), "no UID"
        assert not [name for name in ("gated", "cordoned") if "nodeName" in field.pod(name)["spec"]]
    finally:
        field.api.patch("/api/v1/nodes/n00", {"spec": {"unschedulable": None}})


def test_places_for_pods_that_the_watch_does_not_show_are_few_and_do_not_last(field: Field) -> None:
    """Only kube-scheduler may ask at all; what it asks about and nobody has created costs little."""
    if field.ground.server != EXTENDER:
        pytest.skip("the batch scheduler takes no pods from others")
    extender = field.scene.vigil.command
    assert isinstance(extender, Extender)
    for number in range(300):
        made = field._made(f"x{number}", 1, HOSTILE, memory=8000)
        made["metadata"] |= {"uid": str(uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z"}
        extender.post("/filter", {"Pod": made, "NodeNames": field.ground.names})
    names = [f"p{number}" for number in range(CARDS)]
    for name in names:
        field.wants(name)
    field.soon_run(*names)
    field.check()


@pytest.mark.parametrize("name", ["../../../pods?x=", "a/binding", "a%2fb", "", "A", "a" * 254, "a\r\nHost: b", "é"])
def test_a_name_that_is_none_is_refused_and_goes_nowhere(field: Field, door: Extender, name: str) -> None:
    assert bind(door, name, "n00", "11111111-1111-1111-1111-111111111111")
    assert bind(door, "p", name, "11111111-1111-1111-1111-111111111111")
    assert bind(door, "p", "n00", "11111111-1111-1111-1111-111111111111", namespace=name or "..")
    assert "../" not in field.ground.metrics()
    assert "../" not in (field.plane.folder / "kube-apiserver.log").read_text(errors="replace")


@pytest.mark.skipif(not own_address(), reason="this machine has only loopback addresses")
@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
def test_who_only_reaches_the_port_gets_403_for_privileged_verbs(field: Field, door: Extender, verb: str) -> None:
    invented = {"metadata": {"name": "x", "namespace": "x", "uid": "x"}, "spec": {"containers": []}}
    asked = {"Pod": invented, "NodeNames": field.ground.names, "PodName": "x", "PodNamespace": "x", "Node": "n00"}
    request = urllib.request.Request(f"http://{own_address()}:{door.port}/{verb}", json.dumps(asked).encode())
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=30)
    assert refused.value.code == 403
    assert "loopback" in refused.value.read().decode()


def test_38_mb_of_headers_are_not_taken(door: Extender) -> None:
    before = resident(door.process.pid)
    with socket.create_connection(("127.0.0.1", door.port), timeout=60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")

        def is_refused() -> bool:
            try:
                for _ in range(38):
                    connection.sendall(b"X-Long: " + b"x" * 1_000_000 + b"\r\n")
                return False
            except OSError:
                return True

        assert is_refused()
    assert resident(door.process.pid) < before + 20
    assert _health(door) < 1.0


@pytest.mark.skipif(not own_address(), reason="this machine has only loopback addresses")
def test_500_connections_that_say_nothing_are_closed_and_hold_nobody_up(door: Extender) -> None:
    silent = [socket.create_connection((own_address(), door.port), timeout=60) for _ in range(500)]
    try:
        assert _health(door) < 1.0
        assert all(_closed_within(one, 60.0) for one in silent), "a connection that says nothing stays open"
        assert _health(door) < 1.0
    finally:
        for one in silent:
            one.close()


def _closed_within(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def _health(door: Extender) -> float:
    started = time.monotonic()
    assert door.get("/healthz")
    return time.monotonic() - started
