"""HAMi's metrics of a node, of both generations: what its cards do and what its containers use of them.

Names and labels are those of HAMi's monitor. Compute is in percent, although HAMi calls it a ratio.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tonnage.agent.core.cards import Card, CardLoad
from tonnage.agent.monitor.regions import DeviceUsage
from tonnage.agent.monitor.usage import ContainerUsage, MonitoredContainer
from tonnage.observability.exposition import ZONE, Family, label_text, samples

_CARD = ("node", "device_index", "device_uuid", "device_type", "zone")
_OLD_CARD = ("nodeid", "deviceidx", "deviceuuid", "devicetype", "zone")
_CONTAINER = ("namespace", "pod", "container", "vdevice_index", "device_uuid", "zone")
_OLD_CONTAINER = ("podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid", "zone")
_PARTS = ("context", "module", "data", "offset")
_INSTANCE = (*_CONTAINER[:-1], "mig_uuid", "profile", "gpu_instance_id", "compute_instance_id", "zone")
_OLD_INSTANCE = (*_OLD_CONTAINER[:-1], "instanceid", "zone")


class CardFigure(NamedTuple):
    """A metric of the node's cards."""

    family: Family
    old: str
    """The name before HAMi 2.9; empty if there was none."""
    value: Callable[[CardLoad], int | None]


class UsageFigure(NamedTuple):
    """A metric of a container's devices."""

    family: Family
    old: str
    value: Callable[[DeviceUsage], int]


CARDS = (
    CardFigure(
        Family("hami_host_gpu_memory_used_bytes", _CARD, "Memory of the card that is used, by all processes."),
        "HostGPUMemoryUsage",
        lambda load: load.used,
    ),
    CardFigure(
        Family("hami_host_gpu_utilization_ratio", _CARD, "Compute of the card that is used, in percent."),
        "HostCoreUtilization",
        lambda load: load.compute,
    ),
    CardFigure(
        Family(
            "hami_host_gpu_memory_controller_utilization_ratio",
            _CARD[1:],
            "Time in which the card's memory was read or written, in percent.",
        ),
        "",
        lambda load: load.bandwidth,
    ),
)
LIMIT = Family("hami_vgpu_memory_limit_bytes", _CONTAINER, "Memory of the device that the container may use.")
OLD_LIMIT = Family("vGPU_device_memory_limit_in_bytes", _OLD_CONTAINER, LIMIT.help)
CONTAINERS = (
    UsageFigure(
        Family("hami_vgpu_memory_used_bytes", _CONTAINER, "Memory of the device that the container uses."),
        "vGPU_device_memory_usage_in_bytes",
        lambda usage: usage.total,
    ),
    UsageFigure(
        Family("hami_container_device_memory_bytes", _CONTAINER, "Memory of the device that the container uses."),
        "",
        lambda usage: usage.total,
    ),
    UsageFigure(
        Family("hami_vgpu_memory_context_bytes", _CONTAINER, "Memory of the container's CUDA contexts."),
        "",
        lambda usage: usage.context,
    ),
    UsageFigure(
        Family("hami_vgpu_memory_module_bytes", _CONTAINER, "Memory of the container's CUDA modules."),
        "",
        lambda usage: usage.module,
    ),
    UsageFigure(
        Family("hami_vgpu_memory_buffer_bytes", _CONTAINER, "Memory of the container's data."),
        "",
        lambda usage: usage.data,
    ),
    UsageFigure(
        Family(
            "hami_container_device_utilization_ratio",
            _CONTAINER,
            "Compute of the device that the container uses, in percent.",
        ),
        "Device_utilization_desc_of_container",
        lambda usage: usage.utilization,
    ),
)
OLD_PARTS = Family(
    "Device_memory_desc_of_container",
    (*_OLD_CONTAINER[:-1], *_PARTS, "zone"),
    "Memory of the device that the container uses, with its parts.",
)
ELAPSED = Family(
    "hami_container_last_kernel_elapsed_seconds", _CONTAINER, "Time since the container last launched a kernel."
)
OLD_ELAPSED = Family("Device_last_kernel_of_container", _OLD_CONTAINER, ELAPSED.help)
INSTANCE = Family("hami_mig_device_info", _INSTANCE, "1 for each MIG instance that a container holds.")
OLD_INSTANCE = Family("MigInfo", _OLD_INSTANCE, INSTANCE.help)
NEW = (*(one.family for one in (*CARDS, *CONTAINERS)), LIMIT, ELAPSED, INSTANCE)
OLD = (
    *(Family(one.old, _OLD_CARD, one.family.help) for one in CARDS if one.old),
    *(Family(one.old, _OLD_CONTAINER, one.family.help) for one in CONTAINERS if one.old),
    OLD_LIMIT,
    OLD_PARTS,
    OLD_ELAPSED,
    OLD_INSTANCE,
)


class NodeCards(NamedTuple):
    """The node's cards at one moment."""

    node: str
    cards: Sequence[Card]
    loads: Mapping[str, CardLoad]


def hami_text(
    cards: NodeCards,
    usage: Sequence[ContainerUsage],
    containers: Iterable[MonitoredContainer],
    now: float,
    legacy: bool,
) -> Iterator[str]:
    """The lines of a scrape, with the old names too if `legacy` is set."""
    yield from _card_text(cards, legacy)
    yield from _usage_text(usage, now, legacy)
    yield from _instance_text(cards, containers, legacy)


def _card_text(cards: NodeCards, legacy: bool) -> Iterator[str]:
    # HAMi puts the prefix before every name here, also before those that have it.
    rows = [
        ((cards.node, str(card.device.index), card.uuid, f"NVIDIA-{card.model}", ZONE), cards.loads[card.uuid])
        for card in cards.cards
        if card.uuid in cards.loads
    ]
    for figure in CARDS:
        values = [(labels, value) for labels, load in rows if (value := figure.value(load)) is not None]
        lines = [
            (label_text(figure.family.labels, labels[-len(figure.family.labels) :]), value) for labels, value in values
        ]
        yield from samples(figure.family, lines)
        if legacy and figure.old:
            old = [(label_text(_OLD_CARD, labels), value) for labels, value in values]
            yield from samples(Family(figure.old, _OLD_CARD, figure.family.help), old)


def _usage_text(usage: Sequence[ContainerUsage], now: float, legacy: bool) -> Iterator[str]:
    rows = [
        ((one.container.namespace, one.container.pod, one.container.name, str(number), uuid, ZONE), one, number)
        for one in usage
        for number, uuid in enumerate(one.region.uuids)
    ]
    labels = [label_text(_CONTAINER, values) for values, _, _ in rows]
    devices = [one.devices[number] for _, one, number in rows]
    limits = [one.region.limits[number] for _, one, number in rows]
    elapsed = [max(0, int(now) - one.region.last_kernel) if one.region.last_kernel else None for _, one, _ in rows]
    for figure in CONTAINERS:
        yield from samples(figure.family, zip(labels, map(figure.value, devices), strict=True))
    yield from samples(LIMIT, zip(labels, limits, strict=True))
    yield from samples(ELAPSED, _known(labels, elapsed))
    if not legacy:
        return
    old = [label_text(_OLD_CONTAINER, values) for values, _, _ in rows]
    for figure in CONTAINERS:
        if figure.old:
            family = Family(figure.old, _OLD_CONTAINER, figure.family.help)
            yield from samples(family, zip(old, map(figure.value, devices), strict=True))
    yield from samples(OLD_LIMIT, zip(old, limits, strict=True))
    parts = [
        ",".join([text, *(f'{part}="{getattr(device, part)}"' for part in _PARTS)])
        for text, device in zip(old, devices, strict=True)
    ]
    yield from samples(OLD_PARTS, zip(parts, (device.total for device in devices), strict=True))
    yield from samples(OLD_ELAPSED, _known(old, elapsed))


def _known(labels: Sequence[str], values: Sequence[int | None]) -> list[tuple[str, int]]:
    return [(text, value) for text, value in zip(labels, values, strict=True) if value is not None]


def _instance_text(cards: NodeCards, containers: Iterable[MonitoredContainer], legacy: bool) -> Iterator[str]:
    known = {card.uuid: card for card in cards.cards}
    new, old = [], []
    for one in containers:
        for number, use in enumerate(one.uses):
            found = known[use.uuid].instance_at(use.placement) if use.placement and use.uuid in known else None
            if found is None:
                continue
            where = (one.namespace, one.pod, one.name, str(number), use.uuid)
            new.append(
                (
                    label_text(
                        _INSTANCE, (*where, found.uuid, found.profile, str(found.gpu), str(found.compute), ZONE)
                    ),
                    1,
                )
            )
            old.append((label_text(_OLD_INSTANCE, (*where, str(found.gpu), ZONE)), 1))
    yield from samples(INSTANCE, new)
    if legacy:
        yield from samples(OLD_INSTANCE, old)
