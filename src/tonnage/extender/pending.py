"""PendingPods: the pods that `filter` turned down, and the trials that find which of them would fit now.

A trial places the pending pods in their order on what is free, in a Statement that is undone afterwards, so that one
free share goes to one pod. The extender requeues a pending pod that would fit now and that kube-scheduler does not ask
about by itself; later trials hold the pod's place until kube-scheduler asks about it or 5 seconds have passed. Pods of
one class in one namespace are tried as a group, so that thousands of them cost as much as a few. This module does no
I/O and knows no clock but the one that it is given.
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

INTERVAL = 0.2
"""Seconds between trials; changes in between share one trial."""
SHORT_INTERVAL = 0.02
"""Seconds until an unfinished trial goes on, if it has found a pod that fits; otherwise it goes on after INTERVAL."""
TRIAL_SECONDS = 0.005
"""How long a trial may take before it stops, to go on later."""
GRACE = 0.15
"""How long kube-scheduler has to ask about a fitting pod by itself, as it mostly does, before the pod is requeued."""
HOLD_SECONDS = 5.0
"""How long trials hold the place of a requeued pod, and the shortest time between two requeues of one pod."""
LONGEST_BACKOFF = 300.0
"""The backoff of a pod doubles up to this if kube-scheduler ignores its requeues while there is room for it."""
MOST_REQUEUED = 128
"""The number of requeued pods that trials hold places for."""
_UNSEEN_SECONDS = 60.0
"""How long a pod is remembered that the watch does not show."""
MOST_UNSEEN = 1000
"""Pods that the watch does not show and that are remembered all the same; kube-scheduler asks about the rest itself."""
_MOST_OFFERS = 64

Names = tuple[str, ...]


class FitKey(NamedTuple):
    """What the pods of a group have in common, so that if one does not fit none does."""

    namespace: str
    pod_class: Hashable
    offer: int
    """The identity of the list of nodes that kube-scheduler asked about."""


class PendingGroup:
    """Pending pods that are tried alike."""

    __slots__ = ("fitting", "key", "last_trial", "names", "nodes", "pods")

    def __init__(self, key: FitKey, names: Names | None) -> None:
        self.key = key
        self.names = names
        """The nodes that kube-scheduler asked about; None if it asked about all."""
        self.pods: list[PendingPod] = []
        """By scheduling order."""
        self.fitting: set[PendingPod] = set()
        """Pods that fitted when they were last tried."""
        self.last_trial = 0
        """The number of the last trial that reached the group."""
        self.nodes: tuple[int, Array | None] = -1, None
        """The layout of the cluster's columns, and `names` as a mask in that layout."""


class PendingPod:
    """A pod that found no node."""

    __slots__ = ("fits_since", "group", "ignored", "key", "order", "place", "requeued", "since", "uid")

    def __init__(self, task: Task, group: PendingGroup, now: float) -> None:
        self.key, self.uid, self.order = task.key, task.uid, task.order
        self.group = group
        self.since = now
        self.fits_since: float | None = None
        self.requeued = -inf
        """When the pod was last requeued."""
        self.ignored = 0
        """Requeues in a row after which kube-scheduler did not ask, though there was still room."""
        self.place: Decision | None = None
        """The place that trials hold for the requeued pod."""

    def __lt__(self, other: "PendingPod") -> bool:
        return self.order < other.order

    @property
    def backoff_until(self) -> float:
        """When the pod may be requeued again."""
        return self.requeued + min(HOLD_SECONDS * 2.0 ** min(self.ignored, 10), LONGEST_BACKOFF)


class PendingPods:
    """Pods that found no node, grouped by what they need."""

    def __init__(self, session: Session, reservations: Reservations, clock: Callable[[], float]) -> None:
        self._session = session
        self._cluster = session.cluster
        self._reservations = reservations
        self._clock = clock
        self._pods: dict[str, PendingPod] = {}
        self._groups: dict[FitKey, PendingGroup] = {}
        self._requeued: dict[str, PendingPod] = {}
        """Requeued pods for which trials hold places."""
        self._offers: dict[Names, Names] = {}
        """Lists of nodes, so that thousands of pods share one."""
        self._tried_state: tuple[object, ...] = ()
        """The state of the cluster after the last trial."""
        self._due = inf
        """When the next trial has something to do even if the cluster has not changed."""
        self._trials = 0
        """How many trials there were."""
        self._first_trial = 0
        """The number of the first trial since the cluster last changed."""
        self.is_unfinished = False
        """Whether the last trial ran out of time."""
        self._in_grace: set[PendingGroup] = set()
        """Groups with fitting pods that kube-scheduler still has time to ask about."""
        self.pause = INTERVAL
        """Seconds until the next trial."""
        self._unseen: set[str] = set()
        """Pods that the watch had not shown when they were last looked at."""
        self._vanished: list[str] = []
        """Pods that the watch did not show in time."""

    def __len__(self) -> int:
        return len(self._pods)

    # -- which pods are pending

    def filtered(self, args: FilterArgs, filtered: Filtered) -> bool:
        """Take note of an answer to `filter`; whether it placed a requeued pod."""
        pod, result = args.pod, filtered.result
        if pod is None or args.node_names is None:
            return False
        before = self.forget(pod.key)
        if result.error or result.node_names:
            return before is not None and before.requeued >= before.since and not result.error
        task = filtered.decision.task if filtered.decision is not None else make_task(pod, self._cluster.vendors)
        if task.demands and self._may_remember(task):
            added = self._add(task, self._shared(args.node_names))
            if before is not None and before.uid == added.uid:
                added.requeued = before.requeued
        return False

    def _may_remember(self, task: Task) -> bool:
        """Whether the watch shows the pod, or there are few that it does not show."""
        shown = self._reservations.shown(task.key)
        if shown is None or shown.uid != task.uid:
            if len(self._unseen) >= MOST_UNSEEN:
                return False
            self._unseen.add(task.key)
        return True

    def adopt(self, scheduler: str) -> None:
        """Add the pods that were pending before this process came to decide, of one scheduler or of all."""
        for task in self._cluster.waiting.values():
            is_ours = not scheduler or task.pod.spec.schedulerName == scheduler
            if task.demands and is_ours and task.key not in self._pods:
                self._add(task, None)

    def forget(self, key: str) -> PendingPod | None:
        """Remove a pod that is placed, bound or gone."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return None
        group = pod.group
        del group.pods[bisect_left(group.pods, pod)]
        group.fitting.discard(pod)
        if not group.pods:
            del self._groups[group.key]
            self._in_grace.discard(group)
        self._requeued.pop(key, None)
        self._unseen.discard(key)
        return pod

    def forget_all(self) -> None:
        """Remove all pods: another process decides from now on."""
        for known in (self._pods, self._groups, self._requeued, self._in_grace, self._unseen):
            known.clear()

    def invalidate(self) -> None:
        """Try all pods again: something changed that the columns do not show, such as a quota."""
        self._tried_state = ()

    def _add(self, task: Task, names: Names | None) -> PendingPod:
        key = FitKey(task.namespace, self._session.class_key(task), id(names))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = PendingGroup(key, names)
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

    # -- which pods are requeued

    def to_requeue(self, now: float) -> list[Task]:
        """Run a trial if there is something to try; the pods to requeue now."""
        has_changed = self._tried_state != self._state()
        if not self._pods or not (has_changed or self.is_unfinished or now >= self._due):
            return []
        self._cluster.settle()
        if has_changed or not self.is_unfinished:
            self._first_trial, self._due = self._trials + 1, inf
        requeued: list[Task] = []
        with Statement(self._session) as trial:
            self._hold_places(trial, now)
            held = len(trial)
            for pod, decision in self._fitting(now):
                trial.take(decision)
                pod.group.fitting.add(pod)
                pod.fits_since = now if pod.fits_since is None else pod.fits_since
                if now - pod.fits_since < GRACE:
                    self._due = min(self._due, pod.fits_since + GRACE)
                    self._in_grace.add(pod.group)
                elif len(self._requeued) < MOST_REQUEUED:
                    self._requeue(pod, decision, now)
                    requeued.append(decision.task)
            self.pause = SHORT_INTERVAL if self.is_unfinished and len(trial) > held else INTERVAL
        self._tried_state = self._state()
        while self._vanished:
            self.forget(self._vanished.pop())
        return requeued

    def _requeue(self, pod: PendingPod, decision: Decision, now: float) -> None:
        pod.requeued, pod.place = now, decision
        pod.ignored += 1
        self._requeued[pod.key] = pod
        self._due = min(self._due, now + HOLD_SECONDS)

    def _state(self) -> tuple[object, ...]:
        columns = self._cluster.columns
        return columns.clock, columns.layout

    def _hold_places(self, trial: Statement, now: float) -> None:
        """Occupy the places of requeued pods, so that no other pod is requeued for them."""
        for pod in list(self._requeued.values()):
            task, place = self._task(pod, now), pod.place
            if now - pod.requeued >= HOLD_SECONDS or place is None or place.node not in self._cluster.nodes:
                del self._requeued[pod.key]
                pod.place = None
            elif task is not None:
                held = copy.copy(place)
                held.task = task
                trial.take(held)
                self._due = min(self._due, pod.requeued + HOLD_SECONDS)

    def _fitting(self, now: float) -> Iterator[tuple[PendingPod, Decision]]:
        """Pods that fit beside the pods before them: the caller places each pod before it asks for the next."""
        started, nowhere = self._clock(), set[Hashable]()
        heap = self._first_pods()
        heapq.heapify(heap)
        self._trials += 1
        self.is_unfinished = False
        while heap:
            self.is_unfinished = self._clock() - started >= TRIAL_SECONDS
            if self.is_unfinished:
                return
            turn, pod, number, position, group = heap[0]
            group.last_trial = self._trials
            self._in_grace.discard(group)
            task = self._task(pod, now) if pod.place is None else None
            if task is not None:
                decision = self._decide(task, group, nowhere)
                if decision is None:
                    self._refuse(pod)
                    heapq.heappop(heap)
                    continue
                if now >= pod.backoff_until:
                    yield pod, decision
                else:
                    self._due = min(self._due, pod.backoff_until)
            if position + 1 < len(group.pods):
                heapq.heapreplace(heap, (turn, group.pods[position + 1], number, position + 1, group))
            else:
                heapq.heappop(heap)

    def _first_pods(self) -> list[tuple[int, PendingPod, int, int, PendingGroup]]:
        """The first pod of each group to try; after an unfinished trial only groups that it did not reach."""
        if not self.is_unfinished:
            return [(0, group.pods[0], number, 0, group) for number, group in enumerate(self._groups.values())]
        return [
            (0 if group in self._in_grace else group.last_trial, group.pods[0], number, 0, group)
            for number, group in enumerate(self._groups.values())
            if group.last_trial < self._first_trial or group in self._in_grace
        ]

    def _task(self, pod: PendingPod, now: float) -> Task | None:
        """The pod as it is now; None if the watch has not shown it yet."""
        task = self._cluster.waiting.get(pod.key)
        if task is not None and task.uid == pod.uid:
            self._unseen.discard(pod.key)
            return task
        if now - pod.since < _UNSEEN_SECONDS:
            self._due = min(self._due, now + INTERVAL)
        else:
            self._vanished.append(pod.key)
        return None

    def _refuse(self, refused: PendingPod) -> None:
        """Reset a pod that has no room, and the pods of its group after it: what they fitted into before is gone."""
        for pod in [pod for pod in refused.group.fitting if not pod < refused]:
            pod.fits_since, pod.ignored = None, 0
            refused.group.fitting.discard(pod)

    def _decide(self, task: Task, group: PendingGroup, nowhere: set[Hashable]) -> Decision | None:
        """The pod's place; None if it does not fit."""
        kind = group.key[:2]
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
        """The nodes that the group's pods may get; None if that is all."""
        layout = self._cluster.columns.layout
        if group.names is not None and group.nodes[0] != layout:
            group.nodes = layout, self._cluster.mask(group.names)
        return group.nodes[1]
