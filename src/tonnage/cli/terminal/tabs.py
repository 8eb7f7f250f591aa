"""Tabs of the view: the cluster at a glance with its waiting pods, and tables of nodes, GPUs, pods and queues."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from tonnage.cli.terminal.itemtable import ItemTable
from tonnage.cli.terminal.source import TerminalSource, WaitingTask
from tonnage.cli.terminal.viewtables import GPUS, NODES, QUEUES, CardItem, pod_table
from tonnage.overview.podwants import asks


class Tab(StrEnum):
    """What is shown."""

    CLUSTER = "cluster"
    NODES = "nodes"
    GPUS = "gpus"
    PODS = "pods"
    QUEUES = "queues"


class TabContent(NamedTuple):
    """The items of a tab, and how they are ordered, found and shown."""

    table: ItemTable[Any]
    items: Sequence[Any]


def _size(pod: WaitingTask) -> tuple[int, int]:
    """How many cards a pod wants, and how much memory of them, as far as it says so; the larger the smaller."""
    requests = [request for demand in pod.task.demands for request in demand.requests]
    return -sum(request.count for request in requests), -sum(request.count * request.memory for request in requests)


WAITING: ItemTable[WaitingTask] = ItemTable(
    "waiting",
    (),
    {
        "as tried": lambda pod: pod.task.order,
        "longest wait": lambda pod: (pod.since, pod.task.key),
        "largest": lambda pod: (_size(pod), pod.task.key),
        "name": lambda pod: pod.task.key,
    },
    lambda pod: pod.task.key,
    lambda pod: f"{pod.task.key} {asks(pod.task)}",
    lambda pod: (),
)
"""The waiting pods below the cluster, which have lines of their own."""


def content(tab: Tab, source: TerminalSource) -> TabContent:
    """What a tab shows now."""
    match tab:
        case Tab.CLUSTER:
            return TabContent(WAITING, list(source.waiting()))
        case Tab.NODES:
            return TabContent(NODES, source.overview().nodes)
        case Tab.GPUS:
            return TabContent(GPUS, [CardItem(row, card) for row in source.overview().nodes for card in row.cards])
        case Tab.PODS:
            return TabContent(pod_table(source.now), source.pods())
        case Tab.QUEUES:
            return TabContent(QUEUES, source.overview().queues)
