"""A workload driven through the engine over virtual time.

Events wait in a heap of (time, priority, number, event), so that equal times have one order: departures, then
arrivals, then the regular look at the figures. Nothing here reads a clock, sleeps or prints; whoever drives a replay
says how far virtual time may move.
"""

import heapq
from array import array
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.simulator.invent import EPOCH, Arrival
from tonnage.simulator.measure import CardCounts, Course, Pods, Summary, Usage, WaitReason, measure, waits

SAMPLE_EVERY = 60.0
"""Virtual seconds between looks at the figures, whose means the summary gives."""
_SAMPLES_KEPT = 24 * 60
_MOST_REASONS = 8
_LASTING = frozenset(
    {
        "NodeUnregistered",
        "NodeUnschedulable",
        "NodeAffinityMismatch",
        "NodeInsufficientDevice",
        "UntoleratedTaint",
        "CardNotHealth",
        "CardCordoned",
        "CardTypeMismatch",
        "CardUuidMismatch",
    }
)
"""Reasons that no departure takes away: a pod that also meets others waits for those."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod has run for its duration."""

    key: str


@dataclass(frozen=True, slots=True)
class Sample:
    """Time to look at the figures."""


Event = Departure | Arrival | Sample
_PRIORITY = {Departure: 0, Arrival: 1, Sample: 2}


@dataclass(slots=True)
class Alike:
    """Waiting pods that no plugin can tell apart: where one does not fit, none does."""

    tasks: list[tuple[tuple[int, str, str], Task]] = field(default_factory=list)
    """A heap in the pods' order."""
    decision: Decision | None = None
    """The latest about any of them."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that was not placed yet."""

    task: Task
    since: float
    duration: float
    alike: Alike

    @property
    def why(self) -> str:
        """Why the pod waits, in one line."""
        return self.alike.decision.why_not() if self.alike.decision is not None else "not looked at yet"


class Replay:
    """Pods that arrive, wait, run and leave."""

    def __init__(self, cluster: Cluster, session: Session, arrivals: Iterable[Arrival]) -> None:
        self.cluster = cluster
        self.session = session
        self.now = 0.0
        self.waiting: dict[str, Waiting] = {}
        self.arrived = self.placed = self.finished = self.decisions = 0
        self.waited_for: Counter[str] = Counter()
        """For each reason, the pods that had to wait for it above all when they arrived."""
        self.samples: deque[Usage] = deque(maxlen=_SAMPLES_KEPT)
        """The latest figures, one per SAMPLE_EVERY."""
        self._waits = array("d")
        self._sums = [0.0, 0.0, 0.0]
        self._samples = 0
        self._alike: dict[Hashable, Alike] = {}
        self._arrivals: Iterator[Arrival] = iter(arrivals)
        self._events: list[tuple[float, int, int, Event]] = []
        self._numbers = 0
        self._expect_arrival()
        self._push(SAMPLE_EVERY, Sample())

    @property
    def running(self) -> int:
        return self.placed - self.finished

    @property
    def next_time(self) -> float:
        """When the next thing happens."""
        return self._events[0][0]

    def advance(self, until: float) -> None:
        """Let everything happen up to a virtual time, and be there."""
        while self.next_time <= until:
            self.step()
        self.now = max(self.now, until)

    def step(self) -> None:
        """Let everything happen that the next moment brings: pods leave, pods arrive, pods are placed."""
        self.now = self.next_time
        self.cluster.now = EPOCH.timestamp() + self.now
        departed = sampled = False
        arrived: list[Waiting] = []
        new: list[Alike] = []
        while self._events[0][0] == self.now:
            event = heapq.heappop(self._events)[3]
            match event:
                case Departure(key):
                    self.cluster.remove_pod(key)
                    self.finished += 1
                    departed = True
                case Arrival():
                    arrived.append(self._arrive(event, new))
                    self._expect_arrival()
                case Sample():
                    sampled = True
                    self._push(self.now + SAMPLE_EVERY, event)
        # Without a departure whatever did not fit before does not fit now.
        self._place_waiting([*self._alike.values()] if departed else new)
        for pod in arrived:
            if pod.task.key in self.waiting and pod.alike.decision is not None:
                self.waited_for[main_reason(pod.alike.decision)] += 1
        if sampled:
            self._sample()

    def queue(self, most: int) -> list[Waiting]:
        """The first of the waiting pods, in the order in which they are tried."""
        return heapq.nsmallest(most, self.waiting.values(), key=lambda pod: pod.task.order)

    def summary(self) -> Summary:
        """What came of it up to now."""
        usage = measure(self.cluster)
        finals = (usage.memory, usage.cores, usage.fragmentation)
        means = [total / self._samples for total in self._sums] if self._samples else finals
        courses = [Course(round(mean, 1), round(final, 1)) for mean, final in zip(means, finals, strict=True)]
        so_far = [self.now - pod.since for pod in self.waiting.values()]
        reasons = sorted(self.waited_for.items(), key=lambda item: (-item[1], item[0]))
        return Summary(
            duration=round(self.now, 3),
            pods=Pods(self.arrived, self.placed, self.finished, self.running, len(self.waiting)),
            wait_seconds=waits([*self._waits, *so_far]),
            gpu_memory_percent=courses[0],
            gpu_cores_percent=courses[1],
            fragmentation_percent=courses[2],
            cards=CardCounts(usage.idle, usage.partial, usage.full),
            free_nodes=usage.free_nodes,
            decisions=self.decisions,
            waited_for=[WaitReason(*item) for item in reasons[:_MOST_REASONS]],
            problems=sum(1 for _ in self.cluster.problems()),
        )

    def _push(self, time: float, event: Event) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (time, _PRIORITY[type(event)], self._numbers, event))

    def _expect_arrival(self) -> None:
        """Only the next arrival is in the heap, so that a workload may be without end."""
        arrival = next(self._arrivals, None)
        if arrival is not None:
            self._push(max(arrival.time, self.now), arrival)

    def _arrive(self, arrival: Arrival, new: list[Alike]) -> Waiting:
        self.arrived += 1
        self.cluster.upsert_pod(arrival.pod)
        task = self.cluster.waiting[arrival.pod.key]
        kind = self._likeness(task)
        alike = self._alike.get(kind)
        if alike is None:
            alike = self._alike[kind] = Alike()
            new.append(alike)
        heapq.heappush(alike.tasks, (task.order, task))
        pod = self.waiting[task.key] = Waiting(task, self.now, arrival.duration, alike)
        return pod

    def _place_waiting(self, groups: list[Alike]) -> None:
        """Place what fits, in the pods' order; a group is left alone after its first failure.

        That loses nothing, because placing others only takes room away.
        """
        heads = [(group.tasks[0][0], group) for group in groups]
        heapq.heapify(heads)
        while heads:
            group = heads[0][1]
            task = group.tasks[0][1]
            group.decision = self.session.place(task)
            self.decisions += 1
            if group.decision.node is None:
                heapq.heappop(heads)
                continue
            self._start(heapq.heappop(group.tasks)[1])
            if group.tasks:
                heapq.heapreplace(heads, (group.tasks[0][0], group))
            else:
                heapq.heappop(heads)
                del self._alike[self._likeness(task)]

    def _likeness(self, task: Task) -> Hashable:
        """What tells pods apart."""
        return task.fault, self.session.class_key(task)

    def _start(self, task: Task) -> None:
        self.cluster.confirm(task.key)
        pod = self.waiting.pop(task.key)
        self.placed += 1
        self._waits.append(self.now - pod.since)
        self._push(self.now + pod.duration, Departure(task.key))

    def _sample(self) -> None:
        usage = measure(self.cluster)
        self.samples.append(usage)
        self._samples += 1
        for position, value in enumerate((usage.memory, usage.cores, usage.fragmentation)):
            self._sums[position] += value


def main_reason(decision: Decision) -> str:
    """What a pod waits for: the reason of most nodes, leaving out those that would never have taken it."""
    if not decision.rejected:
        return "NoNodes"
    passing = [group for group in decision.rejected if group.reason not in _LASTING]
    counts: Counter[str] = Counter()
    for group in passing or decision.rejected:
        counts[group.reason] += group.count
    return min(counts.items(), key=lambda item: (-item[1], item[0]))[0]
