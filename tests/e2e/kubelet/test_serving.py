"""`tonnage agent` on a real kubelet with containerd: what it offers, what containers get, and what is refused."""

import time

import pytest

from tests.agent.nvml.fakelibrary import needs_cc, uuid
from tests.e2e.kubelet.realnode import GpuNode, container
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
