"""`tonnage agent` on a real kubelet when things go wrong; only `make e2e` runs these."""

import shutil

import pytest

from tests.agent.nvml.fakelibrary import needs_cc
from tests.e2e.kubelet.realnode import GpuNode, container, lasts
from tests.waiting import until

pytestmark = [pytest.mark.kubelet, pytest.mark.long, needs_cc]


def test_a_pod_too_big_for_the_node_takes_nothing_from_its_neighbours(node: GpuNode) -> None:
    with node.agent():
        huge = container("main", [(0, 500, 5)])
        huge["resources"]["requests"] = {"cpu": "500"}
        huge["resources"]["limits"]["cpu"] = "500"
        node.bind("first", container("main", [(0, 30000, 50)]))
        node.bind("huge", huge)
        node.bind("second", container("main", [(1, 2000, 50)]))
        node.until_failed("huge", "")
        assert node.pod("huge")["status"]["reason"] == "OutOfcpu"
        node.until_running("first", "second")
        assert [node.limit("first"), node.limit("second")] == ["30000m", "2000m"]


def test_every_container_of_a_pod_gets_its_own(node: GpuNode) -> None:
    with node.agent():
        first = container("prepare", [(0, 700, 7), (1, 701, 7)], "-seconds", "0")
        sidecar = container("beside", [(2, 702, 7)], restartPolicy="Always")
        node.bind("mixed", container("plain"), container("main", [(3, 703, 7)]), init=[first, sidecar])
        node.until_running("mixed")
        given = {name: node.limit("mixed", name) for name in ("prepare", "beside", "plain", "main")}
        assert given == {"prepare": "700m", "beside": "702m", "plain": "None", "main": "703m"}
        assert node.said("mixed", "prepare")["env"]["CUDA_DEVICE_MEMORY_LIMIT_1"] == "701m"


def test_patches_that_fail_are_repeated_until_the_turn_is_closed(node: GpuNode) -> None:
    with node.agent() as agent:
        agent.fail_patches("409", "500", "lost", "429", "503")
        node.bind("train", container("main", [(0, 1000, 10)]))
        node.until_running("train")
        until(lambda: node.turn("train") == "success", "the turn is not closed", agent.log)


def test_a_kubelet_without_its_checkpoint_is_answered_from_the_record(node: GpuNode) -> None:
    with node.agent() as agent:
        node.bind("train", container("main", [(5, 1234, 10)]))
        node.until_running("train")
        node.kubelet.stop_kubelet()
        (node.kubelet.plugins / "kubelet_internal_checkpoint").unlink()
        node.kubelet.start_kubelet()
        node.until_offered(80, agent)
        node.bind("next", container("main", [(5, 4321, 10)]))
        node.until_running("next", "train")
        assert node.limit("next") == "4321m"


def test_a_kubelet_that_starts_before_its_plugin_ends_pods_with_devices_in_init_containers(node: GpuNode) -> None:
    """What no plugin can prevent, said by the kubelet itself; pods without such containers run on."""
    with node.agent():
        prepare = container("prepare", [(0, 700, 7)], "-seconds", "0")
        node.bind("prepared", container("main", [(0, 701, 7)]), init=[prepare])
        node.bind("plain", container("main", [(1, 702, 7)]))
        node.until_running("prepared", "plain")
    node.kubelet.stop_kubelet()
    node.kubelet.start_kubelet()
    until(lambda: node.phase("prepared") in ("Failed", "Succeeded"), "it runs on", lambda: node.pod("prepared"))
    told = [one for one in node.api.get("/api/v1/namespaces/default/events")["items"] if "Admission" in one["reason"]]
    words = {one["involvedObject"]["name"]: one["message"] for one in told}
    assert set(words) == {"prepared"}
    assert "nvidia.com/gpu" in words["prepared"]
    assert "unregistered device" in words["prepared"] or "no healthy devices present" in words["prepared"], words
    lasts(2.0, lambda: node.phase("plain") == "Running", "a pod without devices in init containers was ended")


def test_after_a_minute_without_the_api_server_every_turn_is_closed_once(node: GpuNode) -> None:
    with node.agent() as agent:
        agent.slow(1.0)
        node.bind_at_once([lambda n=n: node.bind(f"p{n}", container("main", [(n, 100 + n, 1)])) for n in range(3)])  # type: ignore[misc]
        until(lambda: agent.answers("asked"), "the kubelet does not ask")
        node.plane.api_server.stop()
        node.plane.running.remove(node.plane.api_server)
        until(lambda: len(agent.answers("given")) == 3, "pods that were seen are not served", agent.log)
        lasts(60.0, lambda: agent.process.poll() is None, "the agent ended")
        node.plane.start_server()
        until(lambda: all(node.turn(f"p{n}") == "success" for n in range(3)), "turns are not closed", agent.log)
        node.until_running("p0", "p1", "p2")
        assert [node.limit(f"p{n}") for n in range(3)] == ["100m", "101m", "102m"]
        assert len(agent.answers("given")) == 3


def test_after_a_reboot_the_host_files_are_there_before_containers_start(node: GpuNode) -> None:
    agent = node.start_agent()
    node.until_offered(80, agent)
    node.bind("train", container("main", [(0, 1000, 10)]))
    node.until_running("train")
    agent.end()
    node.until_offered(0)
    node.kubelet.stop_kubelet()
    shutil.rmtree(node.kubelet.host / "tmp/vgpulock")
    shutil.rmtree(node.vgpu / "containers")
    (node.vgpu / "ld.so.preload").unlink()
    again = node.start_agent()
    node.kubelet.start_kubelet()
    node.until_offered(80, again)
    own = node.vgpu / "containers" / f"{node.pod('train')['metadata']['uid']}_main"
    assert own.stat().st_mode & 0o777 == 0o777
    assert (node.kubelet.host / "tmp/vgpulock").stat().st_mode & 0o777 == 0o777
    assert (node.vgpu / "ld.so.preload").is_file()
    again.end()
    node.until_offered(0)


def test_a_card_that_fails_is_left_out_and_one_without_a_size_has_the_configured_one(node: GpuNode) -> None:
    config = node.kubelet.folder / "nodes.json"
    config.write_text(f'{{"nodeconfig": [{{"name": "{node.kubelet.name}", "preconfigureddevicememory": 777}}]}}')
    node.cards.fail("nvmlDeviceGetMemoryInfo", 999, 2)
    node.cards.change(7, memory=-1)
    agent = node.start_agent("--node-config-file", str(config))
    try:
        node.until_offered(70, agent)
        assert "card 2 is left out" in agent.log()
        until(lambda: [one.memory for one in node.registered()] == [40960] * 6 + [777], "sizes", agent.log)
    finally:
        agent.end()
        node.cards.mend()
        node.cards.change(7)
    node.until_offered(0)


def test_a_lock_of_a_pod_that_is_gone_holds_nobody_up(node: GpuNode) -> None:
    path, lock = f"/api/v1/nodes/{node.kubelet.name}", "hami.io/mutex.lock"
    with node.agent() as agent:
        node.api.patch(path, {"metadata": {"annotations": {lock: "2026-01-01T00:00:00Z,default,gone"}}})
        node.bind("train", container("main", [(0, 1000, 10)]))
        node.until_running("train")
        until(lambda: lock not in node.annotations(), "the lock stays", agent.log)


def test_locks_of_hamis_scheduler_are_freed_pod_by_pod(node: GpuNode) -> None:
    path, lock = f"/api/v1/nodes/{node.kubelet.name}", "hami.io/mutex.lock"
    with node.agent() as agent:
        for number in range(10):
            node.api.patch(path, {"metadata": {"annotations": {lock: f"2026-01-01T00:00:00Z,default,h{number}"}}})
            node.bind(f"h{number}", container("main", [(number % 8, 100 + number, 1)]))
            until(lambda: lock not in node.annotations(), "the lock is not freed", agent.log)
        node.until_running(*(f"h{number}" for number in range(10)))
        assert [node.limit(f"h{number}") for number in range(10)] == [f"{100 + number}m" for number in range(10)]
