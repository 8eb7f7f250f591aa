"""A replay: a workload run through the engine over virtual time.

Events are in a heap of (time, priority, number, event), which orders equal times: departures, then arrivals, then
samples. The module reads no clock, does not sleep and prints nothing; the caller says how far virtual time may move.
"""

import heapq
import math
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.decision import main_reason
from tonnage.framework.plugin import Plugin
from tonnage.overview.usage import Usage, measure
from tonnage.plugins.fragmentation.usablecards import UsableCards
from tonnage.simulator.measure import (
    CardsByUse,
    PodCounts,
    SampledPercent,
    Summary,
    WaitReason,
    wait_times,
)
from tonnage.simulator.objects import EPOCH
from tonnage.simulator.placer import Placer
from tonnage.simulator.workloads.demo import Arrival

SAMPLE_EVERY = 60.0
"""Virtual seconds between samples of the figures, whose means the summary gives."""
_SAMPLES_KEPT = 24 * 60
_MOST_REASONS = 8
_MOST_ROUNDS = 10
"""How often pods are stopped for others within one moment; what is left waits for the next."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod has run for its duration, unless it was evicted before."""

    key: str
    started: int
    """The number of the start that this event ends."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Time for a sample of the figures."""


Event = Departure | Arrival | Sample
_PRIORITY = {Departure: 0, Arrival: 1, Sample: 2}


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits to be placed."""

    task: Task
    since: float
    duration: float


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A placed pod."""

    number: int
    """The number of its current start."""
    since: float
    """When it arrived."""
    started: float
    duration: float


class Replay:
    """Pods that arrive, wait, run and leave."""

    def __init__(
        self,
        cluster: Cluster,
        placer: Placer,
        arrivals: Iterable[Arrival],
        sample_every: float = SAMPLE_EVERY,
        plugins: Sequence[Plugin] = (),
    ) -> None:
        self.cluster = cluster
        self.placer = placer
        self.now = 0.0
        self.waiting: dict[str, WaitingPod] = {}
        self.runs: dict[str, RunningPod] = {}
        self.arrived = self.placed = self.finished = self.stopped = 0
        self.waited_for: Counter[str] = Counter()
        """By reason, the pods that waited mainly for it on arrival; not counted without samples."""
        self.cards = UsableCards(cluster, plugins)
        """The free cards; typical pods are learned with each sample, so that views in between change no figure."""
        self.samples: deque[Usage] = deque(maxlen=_SAMPLES_KEPT)
        """The latest samples, one per interval."""
        self.waits = array("d")
        """Wait times of finished pods, from arrival to their last start."""
        self.completions = array("d")
        """Completion times of finished pods, from arrival to end."""
        self._sums = [0.0, 0.0, 0.0]
        self._samples = 0
        self._sample_every = sample_every
        self._arrivals: Iterator[Arrival] = iter(arrivals)
        self._events: list[tuple[float, int, int, Event]] = []
        self._numbers = 0
        self._expect_arrival()
        if sample_every < math.inf:
            self._push(sample_every, Sample())

    @property
    def decisions(self) -> int:
        return self.placer.decisions

    @property
    def running(self) -> int:
        return len(self.runs)

    @property
    def next_time(self) -> float:
        """The time of the next event; infinite if there is none."""
        return self._events[0][0] if self._events else math.inf

    def advance(self, until: float) -> None:
        """Process all events up to a virtual time, and move there."""
        while self.next_time <= until:
            self.step()
        self.now = max(self.now, until)

    def step(self) -> None:
        """Process all events of the next time: pods leave, pods arrive, pods are placed."""
        self.now = self.next_time
        self.cluster.now = EPOCH.timestamp() + self.now
        departed = sampled = False
        arrived: list[Task] = []
        while self.next_time == self.now:
            event = heapq.heappop(self._events)[3]
            match event:
                case Departure(key, started):
                    departed |= self._depart(key, started)
                case Arrival():
                    arrived.append(self._arrive(event))
                    self._expect_arrival()
                case Sample():
                    sampled = True
                    self._push(self.now + self._sample_every, event)
        if departed or arrived:
            self._place(departed)
        if self._sample_every < math.inf:
            self.waited_for.update([self.main_reason(task) for task in arrived if task.key in self.waiting])
        if sampled:
            self._sample()

    def queue(self, most: int) -> list[WaitingPod]:
        """The first waiting pods, in the order in which they are tried."""
        return heapq.nsmallest(most, self.waiting.values(), key=lambda pod: pod.task.order)

    def why(self, task: Task) -> str:
        """Why a pod waits, in one line."""
        decision = self.placer.about(task)
        return decision.why_not() if decision is not None else "not looked at yet"

    def main_reason(self, task: Task) -> str:
        """The main reason why a pod waits."""
        decision = self.placer.about(task)
        return main_reason(decision) if decision is not None else "NotConsidered"

    def summary(self) -> Summary:
        """The summary up to now."""
        usage = measure(self.cluster)
        finals = (usage.memory, usage.cores, self.cards.count().fragmentation)
        means = [total / self._samples for total in self._sums] if self._samples else finals
        sampled = [SampledPercent(round(mean, 1), round(final, 1)) for mean, final in zip(means, finals, strict=True)]
        so_far = [pod.started - pod.since for pod in self.runs.values()]
        so_far += [self.now - pod.since for pod in self.waiting.values()]
        reasons = sorted(self.waited_for.items(), key=lambda item: (-item[1], item[0]))
        return Summary(
            duration=round(self.now, 3),
            pods=PodCounts(self.arrived, self.placed, self.finished, self.running, len(self.waiting)),
            wait_seconds=wait_times([*self.waits, *so_far]),
            gpu_memory_percent=sampled[0],
            gpu_cores_percent=sampled[1],
            fragmentation_percent=sampled[2],
            cards=CardsByUse(usage.idle, usage.partial, usage.full),
            free_nodes=usage.free_nodes,
            decisions=self.decisions,
            waited_for=[WaitReason(*item) for item in reasons[:_MOST_REASONS]],
            problems=sum(1 for _ in self.cluster.problems()),
        )

    def _push(self, time: float, event: Event) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (time, _PRIORITY[type(event)], self._numbers, event))

    def _expect_arrival(self) -> None:
        """Push the next arrival; only one is in the heap, so that a workload may be endless."""
        arrival = next(self._arrivals, None)
        if arrival is not None:
            self._push(max(arrival.time, self.now), arrival)

    def _place(self, departed: bool) -> None:
        """Place waiting pods; evicted pods wait again and may find another node."""
        for _ in range(_MOST_ROUNDS):
            placed, stopped, moved = self.placer.place(departed)
            for task in placed:
                self._start(task)
            for task in moved:
                self._restart(task)
            for task in stopped:
                self._stop(task)
            if not (stopped or moved):
                return
            departed = True

    def _arrive(self, arrival: Arrival) -> Task:
        self.arrived += 1
        self.cluster.upsert_pod(arrival.pod)
        task = self.cluster.waiting[arrival.pod.key]
        self._wait(WaitingPod(task, self.now, arrival.duration))
        return task

    def _wait(self, pod: WaitingPod) -> None:
        self.waiting[pod.task.key] = pod
        self.placer.arrive(pod.task)

    def _start(self, task: Task) -> None:
        pod = self.waiting.pop(task.key)
        self.placed += 1
        self._run(task, pod.since, pod.duration)

    def _restart(self, task: Task) -> None:
        """Restart a pod that consolidation moved: it runs again from the beginning on its new node."""
        pod = self.runs[task.key]
        self.stopped += 1
        self._run(task, pod.since, pod.duration)

    def _run(self, task: Task, since: float, duration: float) -> None:
        self._numbers += 1
        self.runs[task.key] = RunningPod(self._numbers, since, self.now, duration)
        if duration < math.inf:
            self._push(self.now + duration, Departure(task.key, self._numbers))

    def _depart(self, key: str, started: int) -> bool:
        """Remove a pod that has finished; false if it was evicted since."""
        pod = self.runs.get(key)
        if pod is None or pod.number != started:
            return False
        del self.runs[key]
        self.cluster.remove_pod(key)
        self.finished += 1
        self.waits.append(pod.started - pod.since)
        self.completions.append(self.now - pod.since)
        return True

    def _stop(self, task: Task) -> None:
        """Let an evicted pod wait again; it has to run from the beginning."""
        pod = self.runs.pop(task.key)
        self.placed -= 1
        self.stopped += 1
        self.cluster.upsert_pod(task.pod)
        self._wait(WaitingPod(self.cluster.waiting[task.key], pod.since, pod.duration))

    def _sample(self) -> None:
        usage = measure(self.cluster)
        self.samples.append(usage)
        self._samples += 1
        for position, value in enumerate((usage.memory, usage.cores, self.cards.measure().fragmentation)):
            self._sums[position] += value
