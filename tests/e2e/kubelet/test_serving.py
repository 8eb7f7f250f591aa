"""`tonnage agent` on a real kubelet with containerd: what it offers, what containers get, and what is refused."""

import time

import pytest

from tests.agent.nvml.fakelibrary import needs_cc, uuid
from tests.e2e.kubelet.realnode import RESOURCE, GpuNode, container
from tests.e2e.kubelet.rival import rival
from tests.waiting import until
from tonnage.model.annotations import AGENT

pytestmark = [pytest.mark.kubelet, needs_cc]


def test_cards_are_offered_and_registered_in_their_order_and_written_once(node: GpuNode) -> None:
    with node.agent() as agent:
        until(lambda: len(node.registered()) == 8, "the cards are not registered", agent.log)
        assert [card.uuid for card in node.registered()] == [uuid(index) for index in range(8)]
        assert node.annotations()[AGENT].startswith("0.")
        assert node.kubelet.node()["status"]["capacity"]["nvidia.com/gpu"] == "80"
        written = agent.requests("PATCH /api/v1/nodes/")
        time.sleep(1.5)
        assert agent.requests("PATCH /api/v1/nodes/") == written
        assert len(written) == 1


def test_a_container_gets_what_was_decided_value_by_value(node: GpuNode) -> None:
    with node.agent():
        made = node.bind("train", container("main", [(3, 4096, 30)]))
        node.until_running("train")
        said = node.said("train")
        given = {
            name: value for name, value in said["env"].items() if name.startswith(("CUDA", "NVIDIA", "LIBCUDA", "GPU"))
        }
        cache = given.pop("CUDA_DEVICE_MEMORY_SHARED_CACHE")
        assert cache.startswith("/usr/local/vgpu/")
        assert cache.endswith(".cache")
        assert given == {
            "NVIDIA_VISIBLE_DEVICES": uuid(3),
            "CUDA_DEVICE_MEMORY_LIMIT_0": "4096m",
            "CUDA_DEVICE_SM_LIMIT": "30",
            "LIBCUDA_LOG_LEVEL": "1",
        }
        own = f"{made['metadata']['uid']}_main"
        mounts = {one["place"]: one for one in said["mounts"]}
        places = {
            "/usr/local/vgpu/libvgpu.so": ("usr/local/vgpu/libvgpu.so.1", "ro", "-"),
            "/usr/local/vgpu": (f"usr/local/vgpu/containers/{own}", "rw", "drwxrwxrwx"),
            "/tmp/vgpulock": ("tmp/vgpulock", "rw", "drwxrwxrwx"),
            "/etc/ld.so.preload": ("usr/local/vgpu/ld.so.preload", "ro", "-"),
        }
        for place, (host, mode, kind) in places.items():
            assert mounts[place]["root"].endswith(f"/host/{host}"), mounts[place]
            assert mounts[place]["mode"] == mode
            assert mounts[place]["kind"].startswith(kind)
        until(lambda: node.turn("train") == "success", "the turn is not closed")
        left = node.pod("train")["metadata"]["annotations"]["hami.io/vgpu-devices-to-allocate"]
        assert left == ";"


def test_forty_pods_bound_at_once_each_get_their_own_with_one_patch_each(node: GpuNode) -> None:
    names = [f"p{number}" for number in range(40)]
    with node.agent() as agent:
        agent.slow(0.05)
        before = len(agent.requests())
        node.bind_at_once(
            [lambda n=n: node.bind(f"p{n}", container("main", [(n % 8, 100 + n, 1)])) for n in range(40)]  # type: ignore[misc]
        )
        node.until_running(*names)
        assert {name: node.limit(name) for name in names} == {f"p{n}": f"{100 + n}m" for n in range(40)}
        until(lambda: all(node.turn(name) == "success" for name in names), "turns are not closed")
        asked = agent.requests()[before:]
        assert [line.split("?")[0].split(" ")[0] for line in asked] == ["PATCH"] * 40
        assert len(set(asked)) == 40
        assert not agent.answers("refused")


def test_pods_that_no_scheduler_placed_or_that_forge_their_record_are_refused_with_a_sentence(node: GpuNode) -> None:
    with node.agent() as agent:
        node.bind("honest", container("main", [(0, 30000, 50)]))
        node.until_running("honest")
        node.bind("direct", container("main", [(0, 1, 1)]), note="")
        node.bind("stranger", container("main", [(0, 1, 1)]), note="GPU-1,NVIDIA,1,1:;")
        node.bind("giant", container("main", [(1, 99999, 1)]))
        node.bind("greedy", container("main", [(0, 20000, 1)]))
        node.bind("garbled", container("main", [(0, 1, 1)]), note="nonsense")
        node.until_failed("direct", "default/direct was not placed by a scheduler")
        node.until_failed("stranger", "names GPU-1, which this node does not have")
        node.until_failed("giant", "would get 99999 MiB")
        node.until_failed("greedy", "held by default/honest")
        node.until_failed("garbled", "has a record that")
        assert node.pod("direct")["status"]["reason"] == "UnexpectedAdmissionError"
        until(lambda: len(node.events("DevicesRefused")) == 5, "not every refused pod has an Event", agent.log)
        assert node.phase("honest") == "Running"
        node.bind("next", container("main", [(0, 1000, 1)]))
        node.until_running("next")
        assert node.limit("next") == "1000m"


def test_a_rival_plugin_that_leaves_does_not_take_the_cards_with_it(node: GpuNode) -> None:
    with node.agent() as agent:
        with rival(node.kubelet.plugins, RESOURCE, 3):
            node.until_offered(3)
        node.until_offered(80, agent)
        assert "another plugin" in agent.log()
        node.bind("after", container("main", [(2, 2000, 20)]))
        node.until_running("after")
        assert node.limit("after") == "2000m"


def test_a_card_with_an_error_is_offered_no_more_and_running_pods_stay(node: GpuNode) -> None:
    with node.agent() as agent:
        node.bind("running", container("main", [(3, 2000, 20)]))
        node.until_running("running")
        node.cards.strike(2, 31)
        node.cards.strike(3, 79)
        node.until_offered(70, agent)
        until(lambda: [card.index for card in node.registered() if not card.healthy] == [3], "health is not registered")
        assert node.phase("running") == "Running"
        assert "XID 79" in agent.log()
    with node.agent():
        until(lambda: all(card.healthy for card in node.registered()), "a new process starts afresh")


def test_a_restarted_kubelet_gets_the_cards_again_and_pods_keep_theirs(node: GpuNode) -> None:
    with node.agent() as agent:
        node.bind("before", container("main", [(0, 30000, 50)]))
        node.until_running("before")
        node.kubelet.stop_kubelet()
        node.kubelet.start_kubelet()
        until(lambda: agent.log().count("registered nvidia.com/gpu") == 2, "it is not registered again", agent.log)
        node.until_offered(80, agent)
        node.bind("greedy", container("main", [(0, 20000, 1)]))
        node.until_failed("greedy", "held by default/before")
        node.bind("after", container("main", [(1, 3000, 20)]))
        node.until_running("after", "before")
        assert node.limit("after") == "3000m"
        assert node.limit("before") == "30000m"


def test_a_new_agent_takes_over_from_the_old_one_while_both_run(node: GpuNode) -> None:
    with node.agent() as old:
        node.bind("before", container("main", [(0, 30000, 50)]))
        node.until_running("before")
        with node.agent() as new:
            until(lambda: "registered nvidia.com/gpu" in new.log(), "the new one does not register", new.log)
            old.end()
            # Kubelets before 1.37 hang up on the new one when the old one ends.
            until(lambda: new.log().count("registered nvidia.com/gpu") == 2, "it does not register again", new.log)
            node.until_offered(80, new)
            node.bind("after", container("main", [(1, 3000, 20)]))
            node.until_running("after", "before")
            assert node.limit("after") == "3000m"
            node.bind("greedy", container("main", [(0, 20000, 1)]))
            node.until_failed("greedy", "held by default/before")
            assert len(new.answers("given")) == 1


def test_pods_that_were_seen_are_served_while_the_api_server_is_away(node: GpuNode) -> None:
    with node.agent() as agent:
        agent.slow(1.0)
        node.bind_at_once([lambda n=n: node.bind(f"p{n}", container("main", [(n, 100 + n, 1)])) for n in range(3)])  # type: ignore[misc]
        until(lambda: agent.answers("asked"), "the kubelet does not ask")
        node.plane.api_server.stop()
        node.plane.running.remove(node.plane.api_server)
        until(lambda: len(agent.answers("given")) == 3, "pods that were seen are not served", agent.log)
        node.plane.start_server()
        node.until_running("p0", "p1", "p2")
        assert [node.limit(f"p{n}") for n in range(3)] == ["100m", "101m", "102m"]
        until(lambda: all(node.turn(f"p{n}") == "success" for n in range(3)), "turns are not closed", agent.log)
