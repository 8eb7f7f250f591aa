"""Decision: where a pod goes or why it waits, and the records of a cycle in the form that is printed and served.

Counts and scores are captured when the decision is made. Names and sentences are put together only when they are read,
which keeps a decision cheap.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from tonnage.cluster.cluster import Grant
from tonnage.cluster.holding import VolumeReservation
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.devices.base import Device, DeviceUse
from tonnage.framework.reasons import is_lasting

MOST_SCORES = 10
"""How many nodes a decision keeps scores of, the chosen one included."""


class DecisionOutcome(StrEnum):
    """The outcome of a decision, as the record says it; `PodStatus` is the status of a pod in its job."""

    PLACED = "placed"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting"


class Reason(msgspec.Struct, gc=False, frozen=True):
    """Why not: a name that programs compare, and a sentence that people read."""

    name: str
    message: str = ""


class Rejection(msgspec.Struct, frozen=True):
    """How many nodes one plugin rejected for one reason, with one of them as the example."""

    reason: str
    plugin: str
    nodes: int
    example: str
    message: str


class GrantedDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A slice of a card given to a container."""

    container: str
    vendor: str
    uuid: str
    memory: int | None
    """MiB; nothing if it is not known how much memory the card has."""
    cores: int
    share: float | None = None
    """The part of the card, if its memory is not known; 1 for a whole card."""

    @property
    def amount(self) -> str:
        """How much of the card it is, as messages show it."""
        if self.share is None:
            return f"{self.memory} MiB"
        return "whole" if self.share == 1 else f"{self.share:.2g} of it"


class DecisionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A decision as it is printed and served."""

    pod: str
    job: str
    queue: str
    outcome: DecisionOutcome
    node: str | None
    devices: list[GrantedDevice]
    scores: dict[str, dict[str, float]]
    rejected: list[Rejection]
    message: str = ""
    """In one sentence, what a pod waits for that has a place already, or that its job or queue holds back."""
    notes: list[str] = []
    """What the scores of the chosen node mean, in sentences of the plugins that explain theirs."""


class Eviction(msgspec.Struct, frozen=True, omit_defaults=True, rename={"for_": "for"}):
    """A victim: for which job it is evicted, and why."""

    pod: str
    node: str
    for_: str
    reason: str
    to: str = ""
    """The node with room for the pod that replaces it; empty if that pod has to wait."""
    action: str = ""
    """The action that decided it."""


class WaitRecord(msgspec.Struct, frozen=True):
    """Why an action made no room for a job."""

    action: str
    reason: str
    message: str


class JobRecord(msgspec.Struct, frozen=True):
    """A job that waits: what it asks for, and why no room was made for it."""

    name: str
    queue: str
    asks: str
    waits_for: list[WaitRecord] = msgspec.field(name="waitsFor")


class StaleGang(msgspec.Struct, frozen=True):
    """A job that runs with fewer pods than its minimum."""

    job: str
    since: str
    """A time; the next cycle reads it from the PodGroup's annotation `kai.scheduler/stale-podgroup-timestamp`."""
    grace: float | None
    """The seconds after which its pods are evicted; nothing if they never are."""
    message: str


class QueueShare(msgspec.Struct, frozen=True, rename="camel"):
    """What a queue has of one resource, as quantities for people and programs."""

    deserved: str
    fair_share: str
    allocated: str
    borrowed: str
    """What it holds beyond what it deserves."""


class QueueFigures(NamedTuple):
    """What a queue has of one resource, in numbers: CPUs, bytes, cards; infinity for no bound."""

    deserved: float
    fair_share: float
    allocated: float
    requested: float
    """What its pods hold and wait for."""


class QueueRecord(msgspec.Struct, frozen=True):
    """What a queue deserves and holds at the end of a cycle."""

    name: str
    parent: str
    resources: dict[str, QueueShare]


class RejectedNodes:
    """Nodes that share a plugin and a reason; the sentence about the example is made on demand."""

    __slots__ = ("_render", "count", "example", "plugin", "reason")

    def __init__(self, reason: str, plugin: str, count: int, example: str, render: Callable[[], str]) -> None:
        self.reason = reason
        self.plugin = plugin
        self.count = count
        self.example = example
        self._render = render

    @property
    def message(self) -> str:
        return self._render()


class Decision:
    """The decision about one pod."""

    __slots__ = (
        "cards",
        "grant",
        "is_of_class",
        "job",
        "node",
        "notes",
        "outcome",
        "ranking",
        "rejected",
        "scores_by_plugin",
        "task",
        "vendors",
        "volumes",
        "waits_for",
    )

    def __init__(
        self,
        task: Task,
        job: Job,
        node: str | None,
        grant: Grant,
        vendors: Sequence[Any],
        ranking: Sequence[str],
        scores_by_plugin: Sequence[tuple[str, Sequence[float]]],
        rejected: Sequence[RejectedNodes],
        outcome: DecisionOutcome | None = None,
    ) -> None:
        self.task = task
        self.job = job
        self.node = node
        """Where the pod goes; if it waits, where it will go."""
        self.grant = grant
        self.vendors = vendors
        self.ranking = ranking
        """The best nodes, best first, the chosen one in front."""
        self.scores_by_plugin = scores_by_plugin
        """Each plugin's scores of the ranking's nodes."""
        self.rejected = rejected
        self.outcome = outcome or (DecisionOutcome.UNSCHEDULABLE if node is None else DecisionOutcome.PLACED)
        self.cards: Sequence[Device] = ()
        """The cards of its node."""
        self.waits_for: Sequence[str] = ()
        """Pods that must leave the node before this one can start there."""
        self.volumes: tuple[VolumeReservation, ...] = ()
        """What its claims get that waited for it, once the place is reserved."""
        self.notes: Sequence[Callable[[], str]] = ()
        """Sentences about the choice of the node, made when they are read."""
        self.is_of_class = True
        """Whether every pod of the class would get the same decision."""

    def like(self, task: Task) -> "Decision":
        """The same about another pod of the job and class, for which there is no node either."""
        return Decision(task, self.job, None, (), self.vendors, (), (), self.rejected, self.outcome)

    @property
    def devices(self) -> list[GrantedDevice]:
        """The slices that the pod's containers were given, in the order of containers."""
        names = [c.name for c in (*(self.task.pod.spec.initContainers or ()), *self.task.pod.spec.containers)]
        assumed = {card.uuid: card.memory for card in self.cards if not card.memory_known}
        return [
            self._granted(name, vendor, use, assumed.get(use.uuid, 0))
            for position, name in enumerate(names)
            for vendor, uses in self.grant
            for use in uses[position]
        ]

    def _granted(self, container: str, vendor: int, use: DeviceUse, assumed: int) -> GrantedDevice:
        name = self.vendors[vendor].name
        if not assumed:
            return GrantedDevice(container, name, use.uuid, use.memory, use.cores)
        return GrantedDevice(container, name, use.uuid, None, use.cores, use.memory / assumed)

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Per node of the ranking: the total, and what each plugin contributed."""
        result: dict[str, dict[str, float]] = {}
        for position, node in enumerate(self.ranking):
            parts: dict[str, float] = {}
            for plugin, scores in self.scores_by_plugin:
                parts[plugin] = parts.get(plugin, 0.0) + float(scores[position])
            result[node] = {"total": sum(parts.values()), **parts}
        return result

    def why_not(self) -> str:
        """In one line, why the pod waits."""
        if self.node is not None:
            left = f"{', '.join(self.waits_for)} left" if self.waits_for else f"{self.job.key} may start"
            return f"goes to {self.node} once {left}"
        if self.outcome == DecisionOutcome.WAITING:
            return "; ".join(f"{rejected.reason}: {rejected.message}" for rejected in self.rejected)
        if not self.rejected:
            return "the cluster has no nodes"
        nodes = sum(r.count for r in self.rejected)
        parts = sorted(self.rejected, key=lambda r: (-r.count, r.reason))
        return f"0 of {nodes} nodes fit: " + ", ".join(f"{r.count} {r.reason}" for r in parts)

    def record(self) -> DecisionRecord:
        """The decision as it is printed and served."""
        placed = self.outcome == DecisionOutcome.PLACED
        return DecisionRecord(
            pod=self.task.key,
            job=self.job.key,
            queue=self.job.queue,
            outcome=self.outcome,
            node=self.node if placed else None,
            devices=self.devices if placed else [],
            scores=self.scores,
            rejected=[Rejection(r.reason, r.plugin, r.count, r.example, r.message) for r in self.rejected],
            message=self.why_not() if self.outcome == DecisionOutcome.WAITING else "",
            notes=[sentence for note in self.notes if (sentence := note())],
        )


def main_reason(decision: Decision) -> str:
    """The reason of most nodes, without nodes that would never have taken the pod."""
    if not decision.rejected:
        return "NoNodes"
    passing = [group for group in decision.rejected if not is_lasting(group.reason)]
    counts: Counter[str] = Counter()
    for group in passing or decision.rejected:
        counts[group.reason] += group.count
    return min(counts.items(), key=lambda item: (-item[1], item[0]))[0]
