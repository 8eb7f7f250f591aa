"""Every alert fires when what it is about goes wrong at a real server, and none of them fires at healthy ones."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent.nvml.fakelibrary import VARIABLE, InventedCards, library, needs_cc
from tests.e2e import faultyplugin, test_agent
from tests.e2e.alerting import Target, evaluate
from tests.e2e.batching import create, gang, scheduling, wanted
from tests.e2e.extending import Extender, extended
from tests.e2e.extending import wanted as extender_pod
from tests.observability.rulefiles import alerts
from tests.scenario import node, plain
from tests.scheduler.poison import EVENT, poisoned
from tests.waiting import PATIENCE, until
from tonnage.lab import definitions
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports
from tonnage.model.pod import Pod

pytestmark = [pytest.mark.long, pytest.mark.promtool]

BATCH, EXTENDER, AGENT = "tonnage-scheduler", "tonnage-extender", "tonnage-agent"
AT_WORK = {
    *("TonnageConfigurationRefused", "TonnageGangsWaiting", "TonnageKubeletRefuses", "TonnageDeviceClaimsIgnored"),
    *("TonnageObjectsUnreadable", "TonnageQueueBelowDeserved", "TonnagePluginFailing", "TonnageInternalErrors"),
    "TonnageDevicesOverlap",
}
UNREAD = {"TonnageNotSynced", "TonnageWatchFailing"}
REFUSED = {"TonnageBindsFailing", "TonnageWritesFailing"}
LEADERLESS, DOWN, STRANDED = {"TonnageNoLeader"}, {"TonnageDown"}, {"TonnageGpusStranded"}
SLOW_CYCLES, SLOW_ANSWERS = {"TonnageCyclesSlow"}, {"TonnageDecisionsSlow"}
HANDED_OVER = {"TonnageDevicePluginSilent", "TonnageDevicePluginFailing"}
UNBOUND = {"TonnageReservationsExpire"}
ON_NODES = {"TonnageAgentNotRegistered", "TonnageCardsInvented"}
OF_CARDS = {"TonnageCardUnhealthy", "TonnageCardLeftOut"}
CONFIG = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: proportion
  - name: faulty
  - name: poison
"""
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
READ = ("get", "list", "watch")


@pytest.fixture(scope="module")
def defined(control_plane: ControlPlane) -> ControlPlane:
    definitions.install(control_plane.api)
    return control_plane


@pytest.fixture
def plane(defined: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane without nodes and pods, which is left without them again."""
    yield defined
    for path in (pods_path(), "/api/v1/nodes", GROUPS, QUEUES):
        defined.api.delete(path)


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in faultyplugin.install(tmp_path / "path").items():
        monkeypatch.setenv(name, value)


def labelled(pod: Pod, **labels: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def account(plane: ControlPlane, name: str, *rules: dict[str, Any]) -> Path:
    """The kubeconfig of a service account with these rights."""
    api, group = plane.api, "rbac.authorization.k8s.io"
    api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
    api.create(f"/apis/{group}/v1/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    api.create(f"/apis/{group}/v1/clusterrolebindings", binding)
    return plane.kubeconfig_of("default", name)


@contextmanager
def unready(plane: ControlPlane, user: Path, *flags: str) -> Iterator[Callable[[], str]]:
    """A scheduler that does not become ready; its scrapes."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "tonnage.cli.main", "scheduler", "--kubeconfig", str(user)]
    with (plane.folder / "unready.log").open("ab") as log:
        process = subprocess.Popen([*command, "--http-bind", f"127.0.0.1:{port}", *flags], stdout=log, stderr=log)
    try:
        yield lambda: scraped(port)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def scraped(port: int) -> str:
    """What is at /metrics; nothing before it is served."""
    from urllib.request import urlopen

    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def until_told(scrape: Callable[[], str], *lines: str) -> str:
    """Wait until a scrape has lines that begin so; the scrape."""
    found = ""

    def is_told() -> bool:
        nonlocal found
        found = scrape()
        return all(any(one.startswith(line) for one in found.splitlines()) for line in lines)

    until(is_told, f"not told: {lines}", lambda: found[-6000:])
    return found


def test_every_alert_is_fired_by_one_of_these_scenes() -> None:
    scenes = (AT_WORK, UNREAD, REFUSED, LEADERLESS, DOWN, STRANDED, SLOW_CYCLES, SLOW_ANSWERS)
    assert set().union(*scenes, HANDED_OVER, UNBOUND, ON_NODES, OF_CARDS) == alerts().keys()


def test_healthy_servers_fire_nothing_and_none_at_all_is_an_alert(plane: ControlPlane, tmp_path: Path) -> None:
    plane.api.create_nodes([node(name, gpus=2, nvidia__com__gpu=20) for name in ("a", "b")])
    (port,) = free_ports(1)
    metrics = f"127.0.0.1:{port}"
    with extended(plane, "--metrics-bind-address", metrics) as world, scheduling(plane, player=world.player) as batch:
        old, before = scraped(port), batch.scheduler.get("/metrics")
        plane.api.create_pods([wanted("p", 1), extender_pod("q", 1, memory=1000)])
        world.until_running("p", "q")
        told = 'tonnage_decisions_total{outcome="bound",verb="bind"} 1.0'
        new = until_told(lambda: scraped(port), told)
        after = batch.scheduler.get("/metrics")
    evaluate(tmp_path, set(), Target(EXTENDER, old, new), Target(BATCH, before, after))
    evaluate(tmp_path, DOWN, Target(EXTENDER, old, ""), Target(BATCH, before, ""))


@pytest.mark.usefixtures("faulty")
def test_what_goes_wrong_at_work(plane: ControlPlane, tmp_path: Path) -> None:
    plane.api.create_nodes([plain("a", 4, cpu="8"), node("b", gpus=1), node("c", gpus=1)])
    volcano = {"apiVersion": "scheduling.volcano.sh/v1beta1"}
    for name in ("one", "two"):
        queue = {**volcano, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 1}}
        plane.api.create(QUEUES, queue)
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)

    def in_queue(name: str, queue: str) -> Pod:
        return wanted(name, None, cpu="4", annotations={"tonnage.io/queue": queue})

    with scheduling(plane, "--config", str(config)) as world:
        before = world.scheduler.get("/metrics")
        plane.api.create_pods([in_queue("one-0", "one"), in_queue("one-1", "one")])
        world.until_bound("one-0", "one-1")
        plane.api.create_pods([in_queue("two-0", "two")])
        create(plane.api, gang("large", 8, 1))
        group = {**volcano, "kind": "PodGroup", "metadata": {"name": "negative"}, "spec": {"minMember": -3}}
        plane.api.create(GROUPS, group)
        plane.api.create_pods(
            [
                labelled(wanted("raises", 1, memory=10), **{faultyplugin.RAISES: "yes"}),
                poisoned(wanted("bites", None, cpu="1m"), EVENT),
                wanted("forged", None, on="b", annotations={"hami.io/vgpu-devices-allocated": "b/0,NVIDIA,8000,0:;"}),
            ]
        )
        for name in ("first", "later"):
            record = {"hami.io/vgpu-devices-allocated": "c/0,NVIDIA,5000,0:;", "hami.io/bind-phase": "success"}
            plane.api.create_pods([wanted(name, 1, memory=5000, on="c", annotations=record)])
        world.until_bound("raises")
        refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "no room"}
        plane.api.patch(f"{pods_path()}/raises/status", {"status": refused})
        config.write_text(CONFIG.replace("gang", "gnag"))
        after = until_told(
            lambda: world.scheduler.get("/metrics"),
            'tonnage_config_reloads_total{outcome="refused"} 1.0',
            'tonnage_kubelet_refusals_total{reason="OutOfcpu"} 1.0',
            'tonnage_plugin_failures_total{plugin="faulty"}',
            'tonnage_cycle_failures_total{action="allocate"}',
            "tonnage_pods_ignored_device_claims 1.0",
            "tonnage_informer_unreadable_objects 1.0",
            "tonnage_overlap_evictions_total 1.0",
            "tonnage_gangs_pending 1.0",
            'tonnage_queue_requested{queue="two",resource="cpu"} 4.0',
        )
    evaluate(tmp_path, AT_WORK, Target(BATCH, before, after))


def test_missing_rights(plane: ControlPlane, tmp_path: Path) -> None:
    plane.api.create_nodes([plain("a", 4)])
    with unready(plane, account(plane, "nobody")) as scrape:
        said = until_told(scrape, 'tonnage_informer_watch_failing{kind="Pod"} 1.0', "tonnage_informer_synced 0.0")
    evaluate(tmp_path, UNREAD | LEADERLESS, Target(BATCH, said, said))

    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}
    reader = account(plane, "reader", {"apiGroups": ["*"], "resources": ["*"], "verbs": READ}, leases)
    with scheduling(plane, user=reader) as world:
        before = world.scheduler.get("/metrics")
        plane.api.create_pods([wanted("p", 1)])
        told = 'tonnage_schedule_attempts_total{outcome="not_bound"}'
        after = until_told(lambda: world.scheduler.get("/metrics"), told)
    evaluate(tmp_path, REFUSED, Target(BATCH, before, after))


def test_a_lease_that_somebody_else_keeps(plane: ControlPlane, tmp_path: Path) -> None:
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    plane.api.create(leases, {"metadata": {"name": "kept"}, "spec": spec})
    with unready(plane, plane.kubeconfig(), "--leader-elect-resource-name", "kept") as scrape:
        said = until_told(scrape, "tonnage_informer_synced 1.0", "tonnage_leader 0.0")
    evaluate(tmp_path, LEADERLESS, Target(BATCH, said, said))


def test_cards_on_nodes_without_room_are_stranded(plane: ControlPlane, tmp_path: Path) -> None:
    plane.api.create_nodes([node("a", gpus=4, cpu="4"), node("b", gpus=8, cpu="4")])
    with scheduling(plane) as world:
        plane.api.create_pods([wanted("hog", None, cpu="4", on="b")])
        plane.api.create_pods([wanted(f"p{number}", 1, memory=8000, cores=100, cpu="1") for number in range(4)])
        world.until_bound(*[f"p{number}" for number in range(4)])
        said = until_told(lambda: world.scheduler.get("/metrics"), "tonnage_gpus_free 8.0")
    evaluate(tmp_path, STRANDED, Target(BATCH, said, said))


@pytest.mark.usefixtures("faulty")
def test_a_slow_plugin(plane: ControlPlane, tmp_path: Path) -> None:
    plane.api.create_nodes([node("a", gpus=1, nvidia__com__gpu=10)])
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    with scheduling(plane, "--config", str(config)) as world:
        before = world.scheduler.get("/metrics")
        plane.api.create_pods([labelled(wanted("p", None, cpu="64"), **{faultyplugin.SLEEPS: "6"})])
        told = 'tonnage_cycle_duration_seconds_bucket{le="+Inf"} '
        count = next(line for line in before.splitlines() if line.startswith(told))
        after = ""

        def is_over() -> bool:
            nonlocal after
            after = world.scheduler.get("/metrics")
            return count not in after.splitlines()

        until(is_over, "no cycle ends")
    evaluate(tmp_path, SLOW_CYCLES, Target(BATCH, before, after))

    (port,) = free_ports(1)
    flags = ("--config", str(config), "--metrics-bind-address", f"127.0.0.1:{port}")
    with extended(plane, *flags) as extending:
        before = scraped(port)
        plane.api.create_pods([labelled(extender_pod("q", 1, memory=1000), **{faultyplugin.SLEEPS: "3"})])
        extending.until_running("q")
        after = scraped(port)
    evaluate(tmp_path, SLOW_ANSWERS, Target(EXTENDER, before, after))


def test_devices_that_are_not_handed_over(plane: ControlPlane, tmp_path: Path) -> None:
    """Nobody plays the device plugins, so a pod that is bound waits for its devices."""
    plane.api.create_nodes([node(name, gpus=1, nvidia__com__gpu=10) for name in ("a", "b")])
    (port,) = free_ports(1)
    flags = ("--reservation-timeout", "1s", "--metrics-bind-address", f"127.0.0.1:{port}")
    extender = Extender(plane.kubeconfig(), plane.folder / "unserved.log", *flags)

    def scrape() -> str:
        return scraped(port)

    try:
        before = scrape()
        for number in range(12):
            pod = plane.api.create(pods_path(), pod_manifest(extender_pod(f"p{number}", 1, memory=10)))
            extender.post("/filter", {"Pod": pod, "NodeNames": ["a", "b"]})
        after = until_told(scrape, "tonnage_reservations_expired_total 12.0")
        evaluate(tmp_path, UNBOUND, Target(EXTENDER, before, after))

        plane.api.delete(pods_path())
        before = scrape()
        for name, on in (("silent", "a"), ("failed", "b")):
            pod = plane.api.create(pods_path(), pod_manifest(extender_pod(name, 1, memory=1000)))
            assert extender.post("/filter", {"Pod": pod, "NodeNames": [on]})["NodeNames"] == [on]
            identity = {"PodName": name, "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": on}
            assert not extender.post("/bind", identity).get("Error")
        plane.api.patch(f"{pods_path()}/failed", {"metadata": {"annotations": {"hami.io/bind-phase": "failed"}}})
        told = ("tonnage_nodes_device_plugin_silent 1.0", "tonnage_device_plugin_failures_total 1.0")
        evaluate(tmp_path, HANDED_OVER, Target(EXTENDER, before, until_told(scrape, *told)))
    finally:
        extender.stop()


@needs_cc
def test_agents_without_a_kubelet_and_cards_that_break(plane: ControlPlane, tmp_path: Path) -> None:
    plane.api.create_nodes([plain(test_agent.NODE, 0)])
    (port,) = free_ports(1)
    flags = ("--metrics-bind-address", f"127.0.0.1:{port}")
    with test_agent.running(plane, tmp_path, *flags):
        said = until_told(lambda: scraped(port), "tonnage_agent_registered 0.0", "tonnage_agent_cards_invented 1.0")
    evaluate(tmp_path, ON_NODES | DOWN, Target(AGENT, said, said))

    cards = InventedCards(tmp_path / "cards")
    cards.change(1, memory=-1)
    more = (*flags, "--nvml-library", str(library()))
    with test_agent.running(plane, tmp_path, *more, **{VARIABLE: str(cards.file)}):
        until_told(lambda: scraped(port), 'tonnage_agent_cards{state="healthy"} 7.0')
        cards.strike(0, 79)
        told = 'tonnage_agent_cards{state="unhealthy"} 1.0'
        said = until_told(lambda: scraped(port), told, 'tonnage_agent_cards_left_out{device_index="1"')
    evaluate(tmp_path, OF_CARDS | DOWN | {"TonnageAgentNotRegistered"}, Target(AGENT, said, said))
