"""A real kubelet with an agent on invented cards, and words for scenes on it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.agent.nvml.fakelibrary import VARIABLE, InventedCards, library, uuid
from tests.paths import ROOT
from tests.waiting import PATIENCE, until
from tonnage.devices.codec import decode_node
from tonnage.devices.nvidia import REGISTER
from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.images import WORKLOAD
from tonnage.lab.kubelet_node import KubeletNode

RESOURCE = "nvidia.com/gpu"
PHASE = "hami.io/bind-phase"
OBSERVED = Path(__file__).with_name("observed_agent.py")

Card = tuple[int, int, int]
"""Index of a card, MiB and percent."""


def container(name: str, cards: Sequence[Card] = (), *words: str, **more: Any) -> dict[str, Any]:
    """A container that was given these cards, and that runs with these arguments."""
    limits = {RESOURCE: str(len(cards))} if cards else {}
    return {
        "name": name,
        "image": WORKLOAD,
        "args": list(words),
        "resources": {"limits": limits},
        "cards": cards,
        **more,
    }


def record(containers: Sequence[dict[str, Any]]) -> str:
    """What a scheduler writes for containers: a slot each."""
    slots = ["".join(f"{uuid(i)},NVIDIA,{mib},{cores}:" for i, mib, cores in one["cards"]) for one in containers]
    return "".join(f"{slot};" for slot in slots)


def placed_pod(name: str, node: str, slots: Sequence[Sequence[tuple[str, int, int]]]) -> dict[str, Any]:
    """A pod that a scheduler has placed on a node, with a container for every list of UUIDs, MiB and percent."""
    text = "".join("".join(f"{card},NVIDIA,{mib},{cores}:" for card, mib, cores in slot) + ";" for slot in slots)
    notes = {PHASE: "allocating"} | {f"hami.io/vgpu-devices-{word}": text for word in ("allocated", "to-allocate")}
    containers = [
        {"name": f"c{number}", "image": "x", "resources": {"limits": {RESOURCE: str(len(slot))}}}
        for number, slot in enumerate(slots)
    ]
    return {"metadata": {"name": name, "annotations": notes}, "spec": {"nodeName": node, "containers": containers}}


def agent_flags(node: str, kubeconfig: Path, plugins: Path, pod_resources: Path) -> dict[str, object]:
    """The flags of an agent on a node whose kubelet is there, with the fake NVML library."""
    return {
        "node-name": node,
        "kubeconfig": kubeconfig,
        "nvml-library": library(),
        "device-plugins-folder": plugins,
        "pod-resources-socket": pod_resources,
    }


def started_agent(
    module: str, flags: Mapping[str, object], cards: InventedCards, log: IO[bytes], *more: str, **environment: str
) -> subprocess.Popen[bytes]:
    """`tonnage agent` as a process, by a module that has the command, on invented cards."""
    words = [sys.executable, "-m", module, "agent", *(f"--{name}={value}" for name, value in flags.items()), *more]
    values = {**os.environ, VARIABLE: str(cards.file), **environment}
    return subprocess.Popen(words, cwd=ROOT, env=values, stdout=log, stderr=log)


class Agent:
    """The agent as a process."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self._folder = folder

    def log(self) -> str:
        return (self._folder / "agent.log").read_text()

    def requests(self, text: str = "") -> list[str]:
        """What it has asked of the API server."""
        return [line for line in self._lines("requests") if text in line]

    def answers(self, word: str) -> list[tuple[float, str]]:
        """When it was `asked`, or a preference `wanted`, and what it has `given`, `refused` or `preferred`."""
        lines = [line.split(" ", 2) for line in self._lines("answers")]
        return [(float(when), what) for when, kind, what in lines if kind == word]

    def _lines(self, file: str) -> list[str]:
        path = self._folder / file
        return path.read_text().splitlines() if path.exists() else []

    def slow(self, seconds: float) -> None:
        (self._folder / "slow").write_text(str(seconds))

    def shift_clock(self, seconds: float) -> None:
        (self._folder / "clock").write_text(str(seconds))

    def fail_patches(self, *answers: str) -> None:
        (self._folder / "failures").write_text("".join(f"{one}\n" for one in answers))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """As Kubernetes ends a pod."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.log()


class GpuNode:
    """A node with invented cards, on which tests start agents."""

    def __init__(self, plane: ControlPlane, node: KubeletNode) -> None:
        self.plane = plane
        self.kubelet = node
        self.cards = InventedCards(node.folder / "cards")
        self._agents = 0
        self.vgpu = node.host / "usr/local/vgpu"
        self.vgpu.mkdir(parents=True)
        (self.vgpu / "libvgpu.so.1").write_bytes(b"a library")

    @property
    def api(self) -> Api:
        return self.plane.api

    # -- agents

    def start_agent(self, *more: str, kubeconfig: Path | None = None) -> Agent:
        self._agents += 1
        folder = self.kubelet.folder / f"agent-{self._agents}"
        folder.mkdir()
        user = kubeconfig or self.plane.kubeconfig()
        flags = agent_flags(self.kubelet.name, user, self.kubelet.plugins, self.kubelet.pod_resources)
        flags["host-root"] = self.kubelet.host
        with (folder / "agent.log").open("wb") as log:
            process = started_agent(
                "tests.e2e.kubelet.observed_agent", flags, self.cards, log, *more, OBSERVED=str(folder)
            )
        return Agent(process, folder)

    @contextmanager
    def agent(self, *more: str, kubeconfig: Path | None = None) -> Iterator[Agent]:
        """An agent that serves all cards, ended after the scene."""
        made = self.start_agent(*more, kubeconfig=kubeconfig)
        try:
            self.until_offered(80, made)
            yield made
        finally:
            if made.process.poll() is None:
                made.end()
            # Else the next scene takes the old number for the work of its own agent.
            self.until_offered(0)

    def offered(self) -> int | None:
        """How many devices the node offers; None while the kubelet does not know the resource."""
        amount = self.kubelet.node()["status"].get("allocatable", {}).get(RESOURCE)
        return None if amount is None else int(amount)

    def until_offered(self, count: int, agent: Agent | None = None) -> None:
        log = agent.log if agent is not None else str
        until(lambda: self.offered() == count, f"the node does not offer {count} devices", log)

    def annotations(self) -> dict[str, str]:
        found: dict[str, str] = self.kubelet.node()["metadata"].get("annotations", {})
        return found

    def registered(self) -> list[Any]:
        text = self.annotations().get(REGISTER, "")
        return list(decode_node(text)) if text else []

    # -- pods

    def bind(
        self,
        name: str,
        *containers: dict[str, Any],
        init: Sequence[dict[str, Any]] = (),
        note: str | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        """A pod that a scheduler has placed here; `note` in place of what it would write, empty for nothing."""
        text = record([*init, *containers]) if note is None else note
        notes = {PHASE: "allocating"} if text else {}
        notes |= {f"hami.io/vgpu-devices-{word}": text for word in ("allocated", "to-allocate")} if text else {}
        bare = [{key: value for key, value in one.items() if key != "cards"} for one in (*init, *containers)]
        spec = {"terminationGracePeriodSeconds": 1, "nodeName": self.kubelet.name, **spec}
        spec |= {"initContainers": bare[: len(init)], "containers": bare[len(init) :]}
        made: dict[str, Any] = self.api.create(
            pods_path(), {"metadata": {"name": name, "annotations": notes}, "spec": spec}
        )
        return made

    def bind_at_once(self, pods: Sequence[Callable[[], Any]]) -> None:
        with ThreadPoolExecutor(8) as pool:
            for made in [pool.submit(one) for one in pods]:
                made.result()

    def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{pods_path()}/{name}")
        return found

    def pods(self) -> dict[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.api.get(pods_path())["items"]}

    def phase(self, name: str) -> str:
        return str(self.pod(name)["status"]["phase"])

    def turn(self, name: str) -> str:
        """What the pod's annotation says about its devices."""
        return str(self.pod(name)["metadata"]["annotations"].get(PHASE))

    def until_running(self, *names: str) -> None:
        def all_run() -> bool:
            pods = self.pods()
            return all(pods[name]["status"]["phase"] == "Running" for name in names)

        def states() -> object:
            return {name: one["status"] for name, one in self.pods().items() if name in names}

        until(all_run, f"{', '.join(names[:5])} do not run", states)

    def until_failed(self, name: str, words: str) -> None:
        """The kubelet has rejected the pod with these words."""
        until(lambda: self.phase(name) == "Failed", f"{name} is not rejected", lambda: self.pod(name)["status"])
        message = self.pod(name)["status"].get("message", "")
        assert words in message, message

    def said(self, pod: str, name: str = "main") -> dict[str, Any]:
        """What a container has printed at its last start: its environment and mounts."""
        found = self.pod(pod)
        until(lambda: self.kubelet.logs(found, name), f"{pod} has printed nothing")
        said: dict[str, Any] = json.loads(self.kubelet.logs(found, name).splitlines()[-1])
        return said

    def limit(self, pod: str, name: str = "main") -> str:
        """The memory limit of a container's first card."""
        return str(self.said(pod, name)["env"].get("CUDA_DEVICE_MEMORY_LIMIT_0"))

    def clear(self) -> None:
        """Delete all pods and wait until the kubelet has ended them."""
        for name in self.pods():
            try:
                self.api.delete(f"{pods_path()}/{name}", grace=1)
            except ApiError as error:
                if error.status != 404:
                    raise
        until(lambda: not self.pods(), "pods stay", lambda: list(self.pods()))

    def events(self, reason: str) -> dict[str, str]:
        """Messages of Events by the pod that they are about."""
        items = self.api.get("/api/v1/namespaces/default/events")["items"]
        return {one["involvedObject"]["name"]: one["message"] for one in items if one["reason"] == reason}


def lasts(seconds: float, holds: Callable[[], object], otherwise: str) -> None:
    """Something stays so for that long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert holds(), otherwise
        time.sleep(0.1)
