"""HAMi's metrics about cards, of both generations, from the columns.

The columns are copied when a scrape begins, so that all lines show one moment. Nothing that changes often is a label:
where the first versions of HAMi had the compute in use or the number of sharers as one, this has what later versions
have.
"""

from collections.abc import Callable, Iterator
from itertools import compress
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array
from tonnage.devices.base import Device
from tonnage.observability.exposition import ZONE, Family, escaped, samples

MIB = 2**20
SLICE = 16
"""Nodes looked at in one go."""

_NEW = ("node", "device_uuid", "device_index", "device_type", "zone")
_OLD = ("nodeid", "deviceuuid", "deviceidx", "devicetype", "zone")
_COMPUTE = ("device_cores", "devicecores")


class CardColumns(NamedTuple):
    """All cards at one moment, in the order of nodes and positions."""

    nodes: list[tuple[str, list[Device]]]
    """Each with its cards."""
    total: Array
    used: Array


class CardFamily(NamedTuple):
    """A metric with one sample per card."""

    family: Family
    values: Callable[[CardColumns], Array]
    """NaN where there is nothing to say."""
    sizes: tuple[tuple[str, int], ...] = ()
    """Labels that say how large the card is."""
    in_bytes: bool = False
    """Whether the values are bytes, so that cards whose memory is not known have none."""


def columns_now(cluster: Cluster) -> CardColumns:
    """A copy of what the columns say of cards."""
    cluster.settle()
    columns, states = cluster.columns, cluster.states
    nodes = [(state.name, state.devices) for state in states]
    counts = np.array([len(devices) for _, devices in nodes], np.intp)
    taken = np.arange(columns.width) < counts[:, None]
    total = columns.card_total[:, :, : columns.size].transpose(0, 2, 1)[:, taken]
    free = columns.card_free[:, :, : columns.size].transpose(0, 2, 1)[:, taken]
    return CardColumns(nodes, total, total - free)


def _memory_share(now: CardColumns) -> Array:
    total, shares = now.total[MEMORY], np.full(now.total.shape[1], np.nan)
    np.divide(now.used[MEMORY], total, out=shares, where=total > 0)
    return shares


_VALUES: tuple[tuple[str, str, str, Callable[[CardColumns], Array], tuple[tuple[tuple[str, str], int], ...]], ...] = (
    (
        "hami_gpu_memory_limit_bytes",
        "GPUDeviceMemoryLimit",
        "Memory of the card.",
        lambda now: now.total[MEMORY] * MIB,
        (),
    ),
    (
        "hami_gpu_core_limit_ratio",
        "GPUDeviceCoreLimit",
        "Compute of the card in percent: 100 unless its device plugin scales it.",
        lambda now: now.total[CORES],
        (),
    ),
    (
        "hami_gpu_memory_allocated_bytes",
        "GPUDeviceMemoryAllocated",
        "Memory of the card that pods hold or that is reserved for them.",
        lambda now: now.used[MEMORY] * MIB,
        ((_COMPUTE, CORES),),
    ),
    (
        "hami_gpu_shared_count",
        "GPUDeviceSharedNum",
        "Containers that share the card.",
        lambda now: now.used[SLOTS],
        (),
    ),
    (
        "hami_gpu_core_allocated_ratio",
        "GPUDeviceCoreAllocated",
        "Compute of the card that is given out, in percent.",
        lambda now: now.used[CORES],
        (),
    ),
    (
        "hami_node_gpu_overview",
        "nodeGPUOverview",
        "Memory of the card that is given out, in bytes, with the card's compute (percent) and memory (MiB) as labels.",
        lambda now: now.used[MEMORY] * MIB,
        ((_COMPUTE, CORES), (("device_memory_limit", "devicememorylimit"), MEMORY)),
    ),
    (
        "hami_node_gpu_memory_allocated_ratio",
        "nodeGPUMemoryPercentage",
        "Part of the card's memory that is given out, from 0 to 1.",
        _memory_share,
        (),
    ),
)
"""New name, old name, help, values, and the new and old names of labels for sizes."""
_IN_BYTES = ("hami_gpu_memory_limit_bytes", "hami_gpu_memory_allocated_bytes", "hami_node_gpu_overview")


def _generation(is_old: bool) -> list[CardFamily]:
    families = []
    for new, old, words, values, sizes in _VALUES:
        named = tuple((names[is_old], kind) for names, kind in sizes)
        labels = (*(label for label, _ in named), *(_OLD if is_old else _NEW))
        in_bytes = new in _IN_BYTES
        families.append(CardFamily(Family(old if is_old else new, labels, words), values, named, in_bytes))
    return families


NEW, OLD = _generation(False), _generation(True)


def card_text(now: CardColumns, legacy: bool) -> Iterator[str]:
    """The lines about all cards, slice by slice."""
    yield from _lines(now, _NEW, NEW)
    if legacy:
        yield from _lines(now, _OLD, OLD)


def _lines(now: CardColumns, names: tuple[str, ...], families: list[CardFamily]) -> Iterator[str]:
    node, uuid, index, type_, zone = names
    texts: list[str] = []
    for start in range(0, len(now.nodes), SLICE):
        for name, devices in now.nodes[start : start + SLICE]:
            front = f'{node}="{escaped(name)}",{uuid}="'
            texts += [
                f'{front}{escaped(one.uuid)}",{index}="{one.index}",{type_}="{escaped(one.type)}",{zone}="{ZONE}"'
                for one in devices
            ]
        yield ""
    known = [one.memory_known for _, devices in now.nodes for one in devices]
    for family, values, sizes, in_bytes in families:
        labels: Iterator[str] = iter(texts)
        for label, kind in reversed(sizes):
            labels = _sized(label, now.total[kind].tolist(), labels)
        pairs: Iterator[tuple[str, float]] = zip(labels, values(now).tolist(), strict=True)
        if in_bytes:
            pairs = compress(pairs, known)
        # A value that differs from itself is NaN.
        yield from samples(family, (pair for pair in pairs if pair[1] == pair[1]))


def _sized(label: str, sizes: list[int], labels: Iterator[str]) -> Iterator[str]:
    """The labels, with one for a size in front."""
    return (f'{label}="{size}",{text}' for size, text in zip(sizes, labels, strict=True))
