"""Scenes on one node: pods as the API server shows them, a kubelet that asks about one container after another."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tonnage.agent.core.agentcore import AgentCore
from tonnage.agent.core.cards import Card
from tonnage.agent.core.instructions import GiveDevices, Instruction, LookAtKubelet, Prefer, Refuse
from tonnage.agent.core.watchedpod import WatchedPod
from tonnage.devices.base import Device, DeviceUse
from tonnage.devices.codec import encode_pod
from tonnage.devices.nvidia import Nvidia
from tonnage.model.annotations import BIND_PHASE

VENDOR = Nvidia()
NODE = "gpu-1"


def uuid(index: int) -> str:
    return f"GPU-0000000{index}-0000-0000-0000-000000000000"


def card(index: int, memory: int = 40960, split: int = 10, cores: int = 100) -> Card:
    device = Device(uuid(index), index, split, memory, cores, "NVIDIA-A100", mode="hami-core")
    return Card(device, minor=index)


def use(index: int, memory: int = 4096, cores: int = 30) -> DeviceUse:
    return DeviceUse(uuid(index), memory, cores)


def pod(
    name: str,
    *containers: Sequence[DeviceUse],
    init: Sequence[Sequence[DeviceUse]] = (),
    sidecars: Sequence[Sequence[DeviceUse]] = (),
    record: str | None = None,
    annotations: dict[str, str] | None = None,
    phase: str = "Pending",
    reason: str | None = None,
    counts: dict[str, int] | None = None,
) -> WatchedPod:
    """A pod that a scheduler has placed: a container for each list of devices, called c0, c1 and so on."""

    def container(called: str, uses: Sequence[DeviceUse], **more: Any) -> dict[str, Any]:
        count = (counts or {}).get(called, len(uses))
        limits = {"nvidia.com/gpu": str(count)} if count else {}
        return {"name": called, "resources": {"limits": limits}, **more}

    first = [container(f"i{n}", uses) for n, uses in enumerate(init)]
    first += [container(f"s{n}", uses, restartPolicy="Always") for n, uses in enumerate(sidecars)]
    text = encode_pod(tuple(map(tuple, (*init, *sidecars, *containers))), "NVIDIA") if record is None else record
    notes = {BIND_PHASE: "allocating", VENDOR.allocated: text, VENDOR.to_allocate: text} if text else {}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": f"uid-{name}",
                "annotations": notes if annotations is None else annotations,
            },
            "spec": {
                "nodeName": NODE,
                "initContainers": first,
                "containers": [container(f"c{n}", uses) for n, uses in enumerate(containers)],
            },
            "status": {"phase": phase, "reason": reason},
        },
        WatchedPod,
    )


def no_registration(*_: object) -> dict[str, str | None]:
    return {}


class Kubelet:
    """Admits pods one after another, as the real one does, and keeps a checkpoint."""

    def __init__(self, core: AgentCore, prefers: bool = False) -> None:
        self.core = core
        self.prefers = prefers
        """Whether it asks which ids are best before it asks about a container."""
        self.listed: list[str] = []
        self.checkpoint: dict[tuple[str, str], frozenset[str]] = {}
        self.asked = 0
        self.now = 0.0
        self.told: list[Instruction] = []

    def ask(self, count: int) -> list[Instruction]:
        """Ask about a container that wants so many devices, and answer the agent's own questions."""
        self.asked += 1
        ids = [f"id-{self.asked}-{number}" for number in range(count)]
        if self.prefers:
            self.core.preference_asked(-self.asked, ids, (), count, self.now)
            self.told += self.core.kubelet_seen(-self.asked, self.listed, dict(self.checkpoint))
        said = self.core.asked(self.asked, ids, self.now)
        if said == [LookAtKubelet(self.asked)]:
            said = self.core.kubelet_seen(self.asked, self.listed, dict(self.checkpoint))
        for one in said:
            if isinstance(one, GiveDevices):
                self.checkpoint[one.pod.uid, one.container.name] = frozenset(ids)
        self.told += said
        return said

    def admit(self, watched: WatchedPod, is_seen: bool = True) -> list[GiveDevices | Refuse]:
        """Admit a pod: ask about its containers in turn; the answers."""
        if is_seen:
            self.told += self.core.pod_seen(watched)
        self.listed.append(f"team/{watched.metadata.name}")
        answers: list[GiveDevices | Refuse] = []
        for one in [*(watched.spec.initContainers or []), *watched.spec.containers]:
            count = int((one.resources.limits or {}).get("nvidia.com/gpu", 0))
            if not count:
                continue
            answers += [said for said in self.ask(count) if isinstance(said, GiveDevices | Refuse)]
            if isinstance(answers[-1], Refuse):
                self.listed.pop()
                break
        return answers


def prefer(core: AgentCore, kubelet: Kubelet, available: Sequence[str], must: Sequence[str], size: int) -> Prefer:
    """What the core prefers for the container that is about to ask."""
    core.preference_asked(0, available, must, size, 0.0)
    [said] = core.kubelet_seen(0, kubelet.listed, dict(kubelet.checkpoint))
    assert isinstance(said, Prefer)
    return said
