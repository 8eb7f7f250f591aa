"""HAMi's metrics about what containers hold of cards, of both generations, from the annotations of bound pods.

Only cards that the pod's node has and that count for the pod make a series.
"""

from collections.abc import Iterator
from itertools import compress

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.devices.base import ContainerUses, Device
from tonnage.observability.cardmetrics import MIB
from tonnage.observability.exposition import ZONE, Family, label_text, samples

SLICE = 16
"""Pods looked at in one go."""

_NEW = ("namespace", "node", "pod", "container_index", "device_uuid", "zone")
_OLD = ("podnamespace", "nodename", "podname", "containeridx", "deviceuuid", "zone")
_INSTANCE = ("node", "device_uuid", "device_index", "profile", "placement_start", "placement_size", "zone")
_OLD_INSTANCE = ("nodeid", "deviceuuid", "deviceidx", "migname", "zone")

MEMORY = Family("hami_vgpu_memory_allocated_bytes", _NEW, "Memory of the card that the container was given.")
CORES = Family("hami_vgpu_core_allocated_ratio", _NEW, "Compute of the card that the container was given, in percent.")
INSTANCE = Family("hami_node_gpu_mig_instance_info", _INSTANCE, "1 for each MIG instance that a pod holds.")
OLD_MEMORY = Family("vGPUMemoryAllocated", _OLD, MEMORY.help)
OLD_CORES = Family("vGPUCoreAllocated", _OLD, CORES.help)
OLD_INSTANCE = Family("nodeGPUMigInstance", _OLD_INSTANCE, INSTANCE.help)
OLDEST_MEMORY = Family("vGPUPodsDeviceAllocated", ("deviceusedcore", *_OLD), f"{MEMORY.help} HAMi before 2.8.")
OLDEST_SHARE = Family("vGPUMemoryPercentage", _OLD, "Part of the card's memory, from 0 to 1. HAMi before 2.8.")
OLDEST_CORES = Family("vGPUCorePercentage", _OLD, f"{CORES.help} HAMi before 2.8.")
NEW = [MEMORY, CORES, INSTANCE]
OLD = [OLD_MEMORY, OLD_CORES, OLD_INSTANCE, OLDEST_MEMORY, OLDEST_SHARE, OLDEST_CORES]


class HeldShares:
    """What containers hold, side by side in lists: a tuple for each would keep the garbage collector busy."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.old_labels: list[str] = []
        self.memory: list[int] = []
        self.cores: list[int] = []
        self.card_memory: list[int] = []
        """What the card has."""
        self.memory_known: list[bool] = []
        """Whether that is known, or an assumption by which shares are counted."""
        self.instances: dict[str, int] = {}
        self.old_instances: dict[str, int] = {}
        """1 for the labels of each instance."""


def pod_text(cluster: Cluster, legacy: bool) -> Iterator[str]:
    """The lines about all bound pods, slice by slice."""
    held = HeldShares()
    tasks = list(cluster.running.values())
    for start in range(0, len(tasks), SLICE):
        for task in tasks[start : start + SLICE]:
            _look_at(cluster, task, held, legacy)
        yield ""
    labels, old, memory, cores = held.labels, held.old_labels, held.memory, held.cores
    known = held.memory_known
    yield from samples(MEMORY, compress(zip(labels, (m * MIB for m in memory), strict=True), known))
    yield from samples(CORES, zip(labels, cores, strict=True))
    yield from samples(INSTANCE, held.instances.items())
    if legacy:
        yield from samples(OLD_MEMORY, compress(zip(old, (m * MIB for m in memory), strict=True), known))
        yield from samples(OLD_CORES, zip(old, cores, strict=True))
        yield from samples(OLD_INSTANCE, held.old_instances.items())
        used = (f'deviceusedcore="{c}",{text}' for c, text in zip(cores, old, strict=True))
        yield from samples(OLDEST_MEMORY, compress(zip(used, (m * MIB for m in memory), strict=True), known))
        parts = zip(old, memory, held.card_memory, strict=True)
        yield from samples(OLDEST_SHARE, ((text, m / whole) for text, m, whole in parts if whole))
        yield from samples(OLDEST_CORES, zip(old, cores, strict=True))


def _look_at(cluster: Cluster, task: Task, held: HeldShares, legacy: bool) -> None:
    """Take down what a pod's annotations say it holds; what cannot be read is told as a problem elsewhere."""
    state = cluster.nodes.get(cluster.holders.get(task.key, ""))
    if state is None or not task.annotations:
        return
    for vendor, uses in cluster.claims.uses(task, state):
        for container, given in enumerate(uses):
            for uuid, memory, cores in _by_card(given):
                position = state.position(uuid, cluster.vendor_numbers[vendor.name])
                if position is None:
                    continue
                card = state.devices[position]
                values = (task.namespace, state.name, task.name, str(container), uuid, ZONE)
                held.labels.append(label_text(_NEW, values))
                if legacy:
                    held.old_labels.append(label_text(_OLD, values))
                held.memory.append(memory)
                held.cores.append(cores)
                held.card_memory.append(card.memory)
                held.memory_known.append(card.memory_known)
                if card.profiles:
                    _take_instances(held, state.name, card, given)


def _by_card(given: ContainerUses) -> list[tuple[str, int, int]]:
    """Memory and compute per card: a container may hold several instances of one."""
    if len(given) == 1:
        return [(given[0].uuid, given[0].memory, given[0].cores)]
    sums: dict[str, tuple[int, int]] = {}
    for use in given:
        memory, cores = sums.get(use.uuid, (0, 0))
        sums[use.uuid] = memory + use.memory, cores + use.cores
    return [(uuid, memory, cores) for uuid, (memory, cores) in sums.items()]


def _take_instances(held: HeldShares, node: str, card: Device, given: ContainerUses) -> None:
    where = (node, card.uuid, str(card.index))
    for use in given:
        place = use.placement
        if use.uuid == card.uuid and place is not None:
            held.instances[label_text(_INSTANCE, (*where, use.profile, str(place.start), str(place.size), ZONE))] = 1
            held.old_instances[label_text(_OLD_INSTANCE, (*where, f"{use.profile}-{place.start}", ZONE))] = 1
