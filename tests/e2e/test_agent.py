"""`tonnage agent` on a real API server and real gRPC sockets, with a kubelet that is played."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.agent.nvml.fakelibrary import VARIABLE, InventedCards, library, needs_cc
from tests.agent.played_kubelet import AdmissionError, PlayedKubelet
from tests.cli.command import COMMAND
from tests.waiting import PATIENCE
from tonnage.devices.codec import decode_node
from tonnage.devices.nvidia import REGISTER
from tonnage.lab.api import pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.model.annotations import AGENT, INVENTED_CARDS

NODE = "gpu-1"
CARDS = "cards:\n- {name: NVIDIA A100-SXM4-40GB, memory: 40960, count: 8}\n"


@contextmanager
def running(
    plane: ControlPlane, folder: Path, *more: str, kubeconfig: Path | None = None, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The agent as a process, on files under a folder; its cards are invented by it or by a library."""
    (folder / "cards.yaml").write_text(CARDS)
    core_library = folder / "root/usr/local/vgpu/libvgpu.so.1"
    core_library.parent.mkdir(parents=True, exist_ok=True)
    core_library.write_bytes(b"a library")
    flags = ("--node-name", NODE, "--kubeconfig", kubeconfig or plane.kubeconfig())
    flags += () if "--nvml-library" in more else ("--fake", folder / "cards.yaml")
    flags += ("--device-plugins-folder", folder / "device-plugins", "--host-root", folder / "root")
    flags += ("--pod-resources-socket", folder / "pod-resources.sock")
    with (folder / "agent.log").open("ab") as log:
        command = [*COMMAND, "agent", *map(str, flags), *more]
        process = subprocess.Popen(command, stderr=log, stdout=log, env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0, (folder / "agent.log").read_text()


@asynccontextmanager
async def kubelet_in(folder: Path) -> AsyncIterator[PlayedKubelet]:
    kubelet = PlayedKubelet(folder)
    await kubelet.start()
    try:
        yield kubelet
    finally:
        await kubelet.stop()


async def eventually(is_so: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.02)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: that of a socket has about a hundred characters at most."""
    with TemporaryDirectory(prefix="agent-") as made:
        yield Path(made)


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with one node, which is left without nodes and pods."""
    node = {"metadata": {"name": NODE}, "status": {"capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"}}}
    control_plane.api.create("/api/v1/nodes", node)
    yield control_plane
    for path in (pods_path(), "/api/v1/nodes"):
        control_plane.api.delete(path)


def cards_of(plane: ControlPlane) -> list[str]:
    """The cards that the node registers, in their order."""
    text = plane.api.get(f"/api/v1/nodes/{NODE}")["metadata"].get("annotations", {}).get(REGISTER, "")
    return [device.uuid for device in decode_node(text)] if text else []


def bind(plane: ControlPlane, name: str, record: str, count: int = 1) -> dict[str, Any]:
    """A pod on the node, with what a scheduler wrote."""
    notes = {"hami.io/bind-phase": "allocating"}
    notes |= {f"hami.io/vgpu-devices-{word}": record for word in ("allocated", "to-allocate")} if record else {}
    container = {"name": "c0", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(count)}}}
    made: dict[str, Any] = plane.api.create(
        pods_path(),
        {"metadata": {"name": name, "annotations": notes}, "spec": {"nodeName": NODE, "containers": [container]}},
    )
    return made


def phase(plane: ControlPlane, name: str) -> str:
    notes = plane.api.get(f"{pods_path()}/{name}")["metadata"]["annotations"]
    return str(notes["hami.io/bind-phase"])


def refused_pods(plane: ControlPlane) -> set[str]:
    events = plane.api.get("/api/v1/namespaces/default/events")["items"]
    return {str(one["involvedObject"]["name"]) for one in events if one["reason"] == "DevicesRefused"}


def test_cards_are_offered_registered_and_given_as_decided(plane: ControlPlane, folder: Path) -> None:
    async def scene() -> None:
        async with kubelet_in(folder) as kubelet:
            with running(plane, folder):
                await eventually(lambda: len(kubelet.devices) == 80, "the cards are not offered")
                await eventually(lambda: len(cards_of(plane)) == 8, "the cards are not registered")
                cards = cards_of(plane)
                notes = plane.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["annotations"]
                assert notes[AGENT].startswith("0.")
                labels = plane.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["labels"]
                assert labels[INVENTED_CARDS] == "true"
                assert "the cards of this node are invented" in (folder / "agent.log").read_text()
                made = bind(plane, "train", f"{cards[3]},NVIDIA,4096,30:;")
                answer = (await kubelet.admit(made))["c0"]
                assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == cards[3]
                assert answer.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"
                assert answer.envs["CUDA_DEVICE_SM_LIMIT"] == "30"
                mounts = {mount.container_path: mount for mount in answer.mounts}
                own = f"{made['metadata']['uid']}_c0"
                assert mounts["/usr/local/vgpu"].host_path == f"/usr/local/vgpu/containers/{own}"
                assert mounts["/usr/local/vgpu/libvgpu.so"].host_path == "/usr/local/vgpu/libvgpu.so.1"
                assert mounts["/etc/ld.so.preload"].read_only
                root = folder / "root"
                assert (root / "usr/local/vgpu/containers" / own).stat().st_mode & 0o777 == 0o777
                assert (root / "usr/local/vgpu/ld.so.preload").read_text() == "/usr/local/vgpu/libvgpu.so\n"
                assert (root / "tmp/vgpulock").is_dir()
                await eventually(lambda: phase(plane, "train") == "success", "the turn is not closed")

    asyncio.run(scene())


def test_pods_bound_together_get_their_own_and_forged_ones_nothing(plane: ControlPlane, folder: Path) -> None:
    async def scene() -> None:
        async with kubelet_in(folder) as kubelet:
            with running(plane, folder):
                await eventually(lambda: len(cards_of(plane)) == 8 and kubelet.devices, "the agent does not start")
                cards = cards_of(plane)
                pods = [bind(plane, f"p{n}", f"{cards[n % 8]},NVIDIA,{100 + n},1:;") for n in range(20)]
                for number, made in enumerate(pods):
                    answer = (await kubelet.admit(made))["c0"]
                    assert answer.envs["CUDA_DEVICE_MEMORY_LIMIT_0"] == f"{100 + number}m"
                with pytest.raises(AdmissionError, match="was not placed by a scheduler"):
                    await kubelet.admit(bind(plane, "direct", ""))
                with pytest.raises(AdmissionError, match="which has 40960, 3"):
                    await kubelet.admit(bind(plane, "greedy", f"{cards[0]},NVIDIA,40900,1:;"))
                with pytest.raises(AdmissionError, match="which this node does not have"):
                    await kubelet.admit(bind(plane, "unknown", "GPU-1,NVIDIA,1,1:;"))
                await eventually(lambda: phase(plane, "greedy") == "failed", "the refusal is not written")
                await eventually(lambda: "greedy" in refused_pods(plane), "the pod has no Event")

    asyncio.run(scene())


def test_it_registers_again_after_the_kubelet_and_serves_after_its_own_restart(
    plane: ControlPlane, folder: Path
) -> None:
    async def scene() -> None:
        async with kubelet_in(folder) as kubelet:
            with running(plane, folder):
                await eventually(lambda: len(cards_of(plane)) == 8 and kubelet.devices, "the agent does not start")
                cards = cards_of(plane)
                await kubelet.admit(bind(plane, "first", f"{cards[0]},NVIDIA,30000,30:;"))
                await kubelet.restart()
                await eventually(lambda: len(kubelet.devices) == 80, "it does not register again")
            with running(plane, folder):
                await eventually(lambda: kubelet.registrations == 3, "the new process does not register")
                await eventually(lambda: len(kubelet.devices) == 80, "the new process offers nothing")
                with pytest.raises(AdmissionError, match="held by default/first"):
                    await kubelet.admit(bind(plane, "second", f"{cards[0]},NVIDIA,30000,30:;"))
                answer = (await kubelet.admit(bind(plane, "third", f"{cards[1]},NVIDIA,1000,30:;")))["c0"]
                assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == cards[1]

    asyncio.run(scene())


@needs_cc
def test_without_the_library_nothing_is_offered_and_the_log_says_why(plane: ControlPlane, folder: Path) -> None:
    async def scene() -> None:
        async with kubelet_in(folder) as kubelet:
            cards = InventedCards(folder / "cards")
            flags = ("--hook-path", "/elsewhere", "--nvml-library", str(library()))
            with running(plane, folder, *flags, **{VARIABLE: str(cards.file)}):
                log = folder / "agent.log"
                await eventually(lambda: "libvgpu.so is missing" in log.read_text(), "the log does not say it")
                assert kubelet.registrations == 0

    asyncio.run(scene())


def test_the_idle_agent_writes_nothing(plane: ControlPlane, folder: Path) -> None:
    async def scene() -> None:
        async with kubelet_in(folder) as kubelet:
            with running(plane, folder):
                await eventually(lambda: len(cards_of(plane)) == 8 and kubelet.devices, "the agent does not start")
                before = plane.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["resourceVersion"]
                await asyncio.sleep(1.5)
                assert plane.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["resourceVersion"] == before

    asyncio.run(scene())
