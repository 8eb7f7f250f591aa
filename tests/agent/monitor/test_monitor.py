"""The monitor of a node: metrics of both generations, feedback, clean-up; hostile containers beside honest ones."""

import asyncio
import os
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.agent.monitor.regionfiles import V1, Process, region_bytes, words, write_region
from tests.agent.scenes import NODE, VENDOR, card, no_registration, pod, use, uuid
from tonnage.agent.core.agentcore import AgentCore
from tonnage.agent.core.cards import CardLoad
from tonnage.agent.monitor import hamimetrics
from tonnage.agent.monitor.agentmetrics import AgentCounts
from tonnage.agent.monitor.layouts import LAYOUTS
from tonnage.agent.monitor.monitor import Monitor, MonitorSettings

NOW = 1_800_000_000.0
MIB = 2**20

Samples = dict[str, list[tuple[dict[str, str], float]]]


class Scene:
    """A node with two cards, and what its monitor says."""

    def __init__(self, containers: Path, legacy: bool = False) -> None:
        self.containers = containers
        self.core = AgentCore(VENDOR, no_registration)
        self.core.cards_seen([card(0), card(1)])
        self.counts = AgentCounts()
        self.now = 0.0
        self.monitor = Monitor(
            self.core,
            containers,
            self.counts,
            node=NODE,
            unready=lambda: "",
            settings=MonitorSettings(legacy=legacy),
            clock=lambda: NOW,
            steady=lambda: self.now,
        )

    def runs(self, name: str, *cards: int, **region: Any) -> Path:
        """A running pod with a region of the present HAMi-core."""
        self.core.pod_seen(pod(name, [use(index) for index in cards], phase="Running"))
        content = region_bytes(V1, [uuid(index) for index in cards], **region)
        return write_region(self.containers, f"uid-{name}_c0", content)

    async def scraped(self) -> Samples:
        page = await self.monitor.scrape()
        return {
            family.name: [(dict(one.labels), one.value) for one in family.samples]
            for family in text_string_to_metric_families(page.content.decode())
        }


def played(scene: Callable[[Scene], Coroutine[Any, Any, None]], folder: Path, legacy: bool = False) -> None:
    asyncio.run(scene(Scene(folder / "containers", legacy)))


def of(name: str, index: int = 0) -> dict[str, str]:
    names = {"namespace": "team", "pod": name, "container": "c0", "vdevice_index": "0", "device_uuid": uuid(index)}
    return {**names, "zone": "vGPU"}


def test_what_containers_use_is_told_by_pod_and_device(tmp_path: Path) -> None:
    async def scene(node: Scene) -> None:
        processes = [Process([(1, 2, 3, 4, 5 * MIB)], (40,)), Process([(1, 2, 3, 4, 6 * MIB)], (2,))]
        node.runs("a", 0, limits=[4096 * MIB], processes=processes, last_kernel=int(NOW) - 7)
        found = await node.scraped()
        for name, value in {
            "hami_vgpu_memory_used_bytes": 11 * MIB,
            "hami_container_device_memory_bytes": 11 * MIB,
            "hami_vgpu_memory_limit_bytes": 4096 * MIB,
            "hami_vgpu_memory_context_bytes": 2,
            "hami_vgpu_memory_module_bytes": 4,
            "hami_vgpu_memory_buffer_bytes": 6,
            "hami_container_device_utilization_ratio": 42,
            "hami_container_last_kernel_elapsed_seconds": 7,
        }.items():
            assert found[name] == [(of("a"), value)], name
        assert "vGPU_device_memory_usage_in_bytes" not in found

    played(scene, tmp_path)


def test_what_cards_do_is_told_as_their_driver_says(tmp_path: Path) -> None:
    async def scene(node: Scene) -> None:
        node.core.cards_seen([msgspec.structs.replace(card(index), model="NVIDIA A100") for index in (0, 1)])
        node.monitor.loads = {uuid(0): CardLoad(5 * MIB, 30, 12), uuid(1): CardLoad(None, None, None)}
        found = await node.scraped()
        labels = {"device_index": "0", "device_uuid": uuid(0), "device_type": "NVIDIA-NVIDIA A100", "zone": "vGPU"}
        assert found["hami_host_gpu_memory_used_bytes"] == [({"node": NODE, **labels}, 5 * MIB)]
        assert found["hami_host_gpu_utilization_ratio"] == [({"node": NODE, **labels}, 30)]
        assert found["hami_host_gpu_memory_controller_utilization_ratio"] == [(labels, 12)]

    played(scene, tmp_path)


NEW = {
    "hami_host_gpu_memory_used_bytes": "node device_index device_uuid device_type",
    "hami_host_gpu_utilization_ratio": "node device_index device_uuid device_type",
    "hami_host_gpu_memory_controller_utilization_ratio": "device_index device_uuid device_type",
    "hami_mig_device_info": "namespace pod container vdevice_index device_uuid "
    "mig_uuid profile gpu_instance_id compute_instance_id",
    **dict.fromkeys(
        (
            "hami_vgpu_memory_used_bytes",
            "hami_vgpu_memory_limit_bytes",
            "hami_container_device_memory_bytes",
            "hami_vgpu_memory_context_bytes",
            "hami_vgpu_memory_module_bytes",
            "hami_vgpu_memory_buffer_bytes",
            "hami_container_device_utilization_ratio",
            "hami_container_last_kernel_elapsed_seconds",
        ),
        "namespace pod container vdevice_index device_uuid",
    ),
}
OLD = {
    "HostGPUMemoryUsage": "nodeid deviceidx deviceuuid devicetype",
    "HostCoreUtilization": "nodeid deviceidx deviceuuid devicetype",
    "Device_memory_desc_of_container": "podnamespace podname ctrname vdeviceid deviceuuid context module data offset",
    "MigInfo": "podnamespace podname ctrname vdeviceid deviceuuid instanceid",
    **dict.fromkeys(
        (
            "vGPU_device_memory_usage_in_bytes",
            "vGPU_device_memory_limit_in_bytes",
            "Device_utilization_desc_of_container",
            "Device_last_kernel_of_container",
        ),
        "podnamespace podname ctrname vdeviceid deviceuuid",
    ),
}


def test_names_and_labels_are_hamis_in_both_generations() -> None:
    for families, expected in ((hamimetrics.NEW, NEW), (hamimetrics.OLD, OLD)):
        found = {family.name: set(family.labels) for family in families}
        assert found == {name: {*labels.split(), "zone"} for name, labels in expected.items()}
        assert len(found) == len(families)


def test_old_names_are_there_on_request_with_the_same_values(tmp_path: Path) -> None:
    async def scene(node: Scene) -> None:
        node.runs("a", 0, limits=[9], processes=[Process([(1, 2, 3, 4, 10)], (50,))], last_kernel=int(NOW) - 3)
        node.monitor.loads = {uuid(0): CardLoad(1, 2, 3)}
        found = await node.scraped()
        old = {"podnamespace": "team", "podname": "a", "ctrname": "c0", "vdeviceid": "0", "deviceuuid": uuid(0)}
        old["zone"] = "vGPU"
        parts = {"context": "1", "module": "2", "data": "3", "offset": "4"}
        assert found["vGPU_device_memory_usage_in_bytes"] == [(old, 10)]
        assert found["vGPU_device_memory_limit_in_bytes"] == [(old, 9)]
        assert found["Device_memory_desc_of_container"] == [({**old, **parts}, 10)]
        assert found["Device_utilization_desc_of_container"] == [(old, 50)]
        assert found["Device_last_kernel_of_container"] == [(old, 3)]
        assert found["HostGPUMemoryUsage"][0][1] == 1
        assert found["HostCoreUtilization"][0][1] == 2
        assert set(NEW) | set(OLD) <= set(found)

    played(scene, tmp_path, legacy=True)


def test_hostile_containers_are_left_out_and_counted_and_the_others_told(tmp_path: Path) -> None:
    async def scene(node: Scene) -> None:
        outside = write_region(tmp_path, "outside", region_bytes(V1, [uuid(0)]))
        before = outside.read_bytes()
        for number, layout in enumerate(LAYOUTS):
            node.core.pod_seen(pod(f"good{number}", [use(0)]))
            content = region_bytes(layout, [uuid(0)], processes=[Process([(0, 0, 0, 0, 7)])], recent=2, switch=0)
            write_region(node.containers, f"uid-good{number}_c0", content)
        os.truncate(node.runs("cut", 0), 5000)
        node.runs("random", 0).write_bytes(os.urandom(V1.file_size))
        link = node.runs("link", 0)
        link.unlink()
        link.symlink_to(outside)
        pipe = node.runs("pipe", 0)
        pipe.unlink()
        os.mkfifo(pipe)
        node.runs("liar", 0).write_bytes(region_bytes(V1, [uuid(1)], priority=0, recent=2))
        node.core.pod_seen(pod("quiet", [use(0)]))
        await node.monitor.give_feedback()
        found = await node.scraped()
        used = found["hami_vgpu_memory_used_bytes"]
        assert {labels["pod"]: value for labels, value in used} == dict.fromkeys(
            ("good0", "good1", "good2", "good3"), 7
        )
        states = {labels["state"]: value for labels, value in found["tonnage_agent_regions"]}
        assert states == {"read": 4, "none_yet": 1, "wrong_size": 1, "no_file": 2, "foreign": 2}
        notes = {labels["event"]: value for labels, value in found["tonnage_agent_notes"]}
        assert notes == {"region_left_out": 5}
        assert outside.read_bytes() == before
        await node.monitor.give_feedback()
        assert node.counts.notes["region_left_out"] == 5

    played(scene, tmp_path)


def test_a_container_cannot_hold_up_others_through_cards_that_it_was_not_given(tmp_path: Path) -> None:
    async def scene(node: Scene) -> None:
        victim = node.runs("victim", 1, recent=2, priority=1)
        node.runs("attacker", 0).write_bytes(region_bytes(V1, [uuid(1)], priority=0, recent=2))
        await node.monitor.give_feedback()
        assert words(victim, V1) == (1, 0)

    played(scene, tmp_path)


@pytest.mark.parametrize("marked", [True, False], ids=["before March 2026", "since March 2026"])
def test_feedback_is_written_into_regions(marked: bool, tmp_path: Path) -> None:
    async def scene(node: Scene) -> None:
        launched = {"recent": 2} if marked else {"recent": 0, "last_kernel": int(NOW) - 1}
        first = node.runs("first", 0, switch=0, **launched)
        second = node.runs("second", 0, recent=2)
        low = node.runs("low", 0, 1, priority=2, recent=2)
        alone = node.runs("alone", 1, **launched)
        await node.monitor.give_feedback()
        assert words(first, V1)[1] == words(second, V1)[1] == 1
        assert words(low, V1) == (-1, 1)
        assert words(alone, V1)[1] == 0
        assert (node.counts.limited, node.counts.blocked) == (3, 1)

    played(scene, tmp_path)


def test_folders_go_by_the_clock_and_only_they(tmp_path: Path) -> None:
    async def scene(node: Scene) -> None:
        node.runs("a", 0)
        node.runs("b", 0)
        (node.containers / "notes").mkdir()
        (node.containers / "uid-x_link").symlink_to(tmp_path)
        node.core.pod_gone("uid-a")
        for now, left in ((0.0, 4), (299.0, 4), (300.0, 3)):
            node.now = now
            await node.monitor.clean_up()
            assert len(list(node.containers.iterdir())) == left
        assert not (node.containers / "uid-a_c0").exists()
        assert node.counts.removed == 1

    played(scene, tmp_path)


def test_the_state_of_the_agent_is_told(tmp_path: Path) -> None:
    async def scene(node: Scene) -> None:
        node.core.xid_seen(uuid(0), 79, 0.0)
        node.counts.xids[uuid(0), "79"] += 1
        node.counts.left_out = {7: 'NVML does not describe it: "Unknown Error"'}
        found = await node.scraped()
        assert {labels["state"]: value for labels, value in found["tonnage_agent_cards"]} == {
            "healthy": 1,
            "unhealthy": 1,
        }
        assert found["tonnage_agent_cards_left_out"] == [({"device_index": "7", "why": node.counts.left_out[7]}, 1)]
        assert ({"device_uuid": uuid(0), "xid": "79"}, 1) in found["tonnage_agent_card_errors"]
        assert found["hami_build_info"][0][1] == 1
        for name in ("virtual_memory_bytes", "resident_memory_bytes", "start_time_seconds", "open_fds", "max_fds"):
            assert found[f"process_{name}"][0][1] > 0
        assert found["process_cpu_seconds"][0][1] > 0

    played(scene, tmp_path)


def test_a_region_whose_disk_is_full_does_not_stop_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(node: Scene) -> None:
        node.runs("a", 0, recent=2)
        second = node.runs("b", 0, recent=2, switch=0)
        real, calls = os.pwrite, iter([True])

        def full(descriptor: int, data: bytes, offset: int) -> int:
            if next(calls, False):
                raise OSError(28, "No space left on device")
            return real(descriptor, data, offset)

        monkeypatch.setattr(os, "pwrite", full)
        await node.monitor.give_feedback()
        assert words(second, V1) == (1, 1)
        assert node.counts.notes["region_left_out"] == 1

    played(scene, tmp_path)


def test_regions_of_the_right_kind_with_wild_numbers_harm_nobody(tmp_path: Path) -> None:
    async def scene(node: Scene) -> None:
        wild = node.runs("wild", 0, priority=-(2**31), recent=2**31 - 1, switch=-7, last_kernel=2**64 - 1)
        content = bytearray(wild.read_bytes())
        struct.pack_into("<i", content, V1.processes, 2**31 - 1)
        wild.write_bytes(content)
        other = node.runs("other", 1, recent=2)
        await node.monitor.give_feedback()
        assert words(other, V1) == (1, 0)
        assert (await node.scraped())["hami_vgpu_memory_used_bytes"]

    played(scene, tmp_path)
