"""Who found no node, and who of them would find one now. No I/O, and no clock but the one that is handed in.

Those who wait are tried in their order on what is free, on trial, so that one free share goes to one pod. Who fits and
is not asked about by itself is to be called; it holds its place in later trials until it comes or does not. Pods that
fit alike are tried once, so that thousands of them cost as much as a few.
"""

import copy
import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from tonnage.cluster.columns import Array
from tonnage.cluster.task import Task, make_task
from tonnage.extender.protocol import FilterArgs
from tonnage.extender.reservations import Filtered, Reservations
from tonnage.framework.decision import Decision
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement

BEAT = 0.2
"""Seconds between trials: what changes meanwhile is looked at together."""
GRACE = 0.15
"""How long a pod that fits is left to kube-scheduler, which mostly asks about it by itself."""
PATIENCE = 5.0
"""How long a pod that was called holds its place, and the least time between two calls of one pod."""
LONGEST_PAUSE = 300.0
"""A pod that is called and does not come, though there is room, is called half as often each time, down to this."""
BUDGET = 0.005
"""Seconds after which a trial stops, to be gone on with later."""
BREATH = 0.02
"""Seconds after which it is gone on with, if it has found somebody; else at the next beat."""
MOST_CALLED = 128
"""Pods that are called and have not come yet."""
_UNSEEN = 60.0
"""How long a pod is remembered that the watch does not show."""
_MOST_OFFERS = 64

Names = tuple[str, ...]


class FitKey(NamedTuple):
    """What makes pods fit alike."""

    namespace: str
    kind: Hashable
    """Their class."""
    offer: int
    """Which nodes kube-scheduler would have taken for them."""


class PendingGroup:
    """Waiting pods that fit alike."""

    __slots__ = ("alike", "looked", "marked", "names", "nodes", "pods")

    def __init__(self, alike: FitKey, names: Names | None) -> None:
        self.alike = alike
        self.names = names
        """The nodes that kube-scheduler would have taken; nothing if that was all."""
        self.pods: list[PendingPod] = []
        """In the order in which they are served."""
        self.marked: set[PendingPod] = set()
        """Those that fitted when they were last looked at."""
        self.looked = 0
        """The last trial in which they had their turn."""
        self.nodes: tuple[int, Array | None] = -1, None
        """The nodes as a column, and the layout that it is of."""


class PendingPod:
    """A pod that waits."""

    __slots__ = ("called", "group", "key", "noticed", "order", "place", "since", "uid", "vain")

    def __init__(self, task: Task, group: PendingGroup, now: float) -> None:
        self.key, self.uid, self.order = task.key, task.uid, task.order
        self.group = group
        self.since = now
        self.noticed: float | None = None
        """Since when it has been seen to fit."""
        self.called = -inf
        self.vain = 0
        """How often it was called for room that is still there, and did not come."""
        self.place: Decision | None = None
        """What it was called for, until it comes."""

    def __lt__(self, other: "PendingPod") -> bool:
        return self.order < other.order

    @property
    def may_be_called(self) -> float:
        """From when on it may be called again."""
        return self.called + min(PATIENCE * 2.0 ** min(self.vain, 10), LONGEST_PAUSE)


class PendingPods:
    """The pods that wait."""

    def __init__(self, session: Session, reservations: Reservations, clock: Callable[[], float]) -> None:
        self._session = session
        self._cluster = session.cluster
        self._reservations = reservations
        self._clock = clock
        self._pods: dict[str, PendingPod] = {}
        self._groups: dict[FitKey, PendingGroup] = {}
        self._called: dict[str, PendingPod] = {}
        """Pods that were called and hold a place in trials."""
        self._offers: dict[Names, Names] = {}
        """Lists of nodes, so that thousands of pods share one."""
        self._seen: tuple[object, ...] = ()
        """What the last trial was about."""
        self._due = inf
        """When the next trial has something to do although nothing has changed."""
        self._looks = 0
        """How many trials there were."""
        self._begun = 0
        """The trial since which nothing has changed."""
        self.is_unfinished = False
        """Whether the last trial took too long to be finished."""
        self._noticed: set[PendingGroup] = set()
        """Groups with pods that fit and that kube-scheduler still has time to ask about."""
        self.pause = BEAT
        """Seconds until the next trial."""
        self._lost: list[str] = []
        """Pods that the watch does not show after all."""

    def __len__(self) -> int:
        return len(self._pods)

    # -- who waits

    def asked(self, args: FilterArgs, filtered: Filtered) -> bool:
        """Take note of an answer to kube-scheduler; whether a pod that was called has got its place by it."""
        pod, result = args.pod, filtered.result
        if pod is None or args.node_names is None:
            return False
        before = self.forget(pod.key)
        if result.error or result.node_names:
            return before is not None and before.called >= before.since and not result.error
        task = filtered.decision.task if filtered.decision is not None else make_task(pod, self._cluster.vendors)
        if task.demands:
            entered = self._enter(task, self._shared(args.node_names))
            if before is not None and before.uid == entered.uid:
                entered.called = before.called
        return False

    def adopt(self, scheduler: str) -> None:
        """Take over pods that wait since before this process came to decide: those of a scheduler, or of all."""
        for task in self._cluster.waiting.values():
            is_ours = not scheduler or task.pod.spec.schedulerName == scheduler
            if task.demands and is_ours and task.key not in self._pods:
                self._enter(task, None)

    def forget(self, key: str) -> PendingPod | None:
        """A pod does not wait any more: it is placed, bound or gone."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return None
        group = pod.group
        del group.pods[bisect_left(group.pods, pod)]
        group.marked.discard(pod)
        if not group.pods:
            del self._groups[group.alike]
            self._noticed.discard(group)
        self._called.pop(key, None)
        return pod

    def forget_all(self) -> None:
        """Somebody else decides now."""
        for known in (self._pods, self._groups, self._called, self._noticed):
            known.clear()

    def stir(self) -> None:
        """Something changed that the columns do not show, such as a quota."""
        self._seen = ()

    def _enter(self, task: Task, names: Names | None) -> PendingPod:
        alike = FitKey(task.namespace, self._session.class_key(task), id(names))
        group = self._groups.get(alike)
        if group is None:
            group = self._groups[alike] = PendingGroup(alike, names)
        now = self._clock()
        pod = self._pods[task.key] = PendingPod(task, group, now)
        insort(group.pods, pod)
        self._due = min(self._due, now)
        return pod

    def _shared(self, names: Sequence[str]) -> Names | None:
        if self._reservations.is_all(names):
            return None
        if len(self._offers) >= _MOST_OFFERS:
            self._offers.clear()
        offer = tuple(names)
        return self._offers.setdefault(offer, offer)

    # -- who is called

    def look(self, now: float) -> list[Task]:
        """The pods to call now."""
        changed = self._seen != self._what_counts()
        if not self._pods or not (changed or self.is_unfinished or now >= self._due):
            return []
        self._cluster.settle()
        if changed or not self.is_unfinished:
            self._begun, self._due = self._looks + 1, inf
        called: list[Task] = []
        with Statement(self._session) as trial:
            self._keep_places(trial, now)
            held = len(trial)
            for pod, decision in self._fitting(now):
                trial.take(decision)
                pod.group.marked.add(pod)
                pod.noticed = now if pod.noticed is None else pod.noticed
                if now - pod.noticed < GRACE:
                    self._due = min(self._due, pod.noticed + GRACE)
                    self._noticed.add(pod.group)
                elif len(self._called) < MOST_CALLED:
                    self._call(pod, decision, now)
                    called.append(decision.task)
            self.pause = BREATH if self.is_unfinished and len(trial) > held else BEAT
        self._seen = self._what_counts()
        while self._lost:
            self.forget(self._lost.pop())
        return called

    def _call(self, pod: PendingPod, decision: Decision, now: float) -> None:
        pod.called, pod.place = now, decision
        pod.vain += 1
        self._called[pod.key] = pod
        self._due = min(self._due, now + PATIENCE)

    def _what_counts(self) -> tuple[object, ...]:
        columns = self._cluster.columns
        return columns.clock, columns.layout, self._reservations.silent

    def _keep_places(self, trial: Statement, now: float) -> None:
        """Hold for pods that were called what they were called for, so that nobody else is called for it."""
        for pod in list(self._called.values()):
            task, place = self._task(pod, now), pod.place
            if now - pod.called >= PATIENCE or place is None or place.node not in self._cluster.nodes:
                del self._called[pod.key]
                pod.place = None
            elif task is not None:
                held = copy.copy(place)
                held.task = task
                trial.take(held)
                self._due = min(self._due, pod.called + PATIENCE)

    def _fitting(self, now: float) -> Iterator[tuple[PendingPod, Decision]]:
        """Pods that fit beside those before them; who asks for the next one has placed the last."""
        started, nowhere = self._clock(), set[Hashable]()
        heap = self._in_turn()
        heapq.heapify(heap)
        self._looks += 1
        self.is_unfinished = False
        while heap:
            self.is_unfinished = self._clock() - started >= BUDGET
            if self.is_unfinished:
                return
            turn, pod, number, place, group = heap[0]
            group.looked = self._looks
            self._noticed.discard(group)
            task = self._task(pod, now) if pod.place is None else None
            if task is not None:
                decision = self._decide(task, group, nowhere)
                if decision is None:
                    self._refuse(pod)
                    heapq.heappop(heap)
                    continue
                if now >= pod.may_be_called:
                    yield pod, decision
                else:
                    self._due = min(self._due, pod.may_be_called)
            if place + 1 < len(group.pods):
                heapq.heapreplace(heap, (turn, group.pods[place + 1], number, place + 1, group))
            else:
                heapq.heappop(heap)

    def _in_turn(self) -> list[tuple[int, PendingPod, int, int, PendingGroup]]:
        """The first pod of each group that is to be looked at; where the last trial was not finished it goes on."""
        if not self.is_unfinished:
            return [(0, group.pods[0], number, 0, group) for number, group in enumerate(self._groups.values())]
        return [
            (0 if group in self._noticed else group.looked, group.pods[0], number, 0, group)
            for number, group in enumerate(self._groups.values())
            if group.looked < self._begun or group in self._noticed
        ]

    def _task(self, pod: PendingPod, now: float) -> Task | None:
        """The pod as it is now; nothing if the watch has not shown it yet."""
        task = self._cluster.waiting.get(pod.key)
        if task is not None and task.uid == pod.uid:
            return task
        if now - pod.since < _UNSEEN:
            self._due = min(self._due, now + BEAT)
        else:
            self._lost.append(pod.key)
        return None

    def _refuse(self, refused: PendingPod) -> None:
        """There is no room for a pod, nor for those of its group after it: what they fitted for before is gone."""
        for pod in [pod for pod in refused.group.marked if not pod < refused]:
            pod.noticed, pod.vain = None, 0
            refused.group.marked.discard(pod)

    def _decide(self, task: Task, group: PendingGroup, nowhere: set[Hashable]) -> Decision | None:
        """Where the pod would go; nothing if it does not fit."""
        kind = group.alike[:2]
        if kind in nowhere:
            return None
        fits = self._session.fitting(task)
        if not fits.any():
            nowhere.add(kind)
            return None
        among = self._among(group)
        if among is not None and not (fits & among).any():
            return None
        decision = self._session.decide(task, among)
        return decision if decision.node is not None else None

    def _among(self, group: PendingGroup) -> Array | None:
        """The nodes that the group's pods may get; nothing if that is all."""
        layout = self._cluster.columns.layout
        if group.names is not None and group.nodes[0] != layout:
            group.nodes = layout, self._cluster.mask(group.names)
        among = group.nodes[1]
        if not self._reservations.silent:
            return among
        heard: Array = ~self._cluster.mask(self._reservations.silent)
        return heard if among is None else heard & among
