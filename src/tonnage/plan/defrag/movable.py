"""Movable pods: which running pods a plan may move, what each costs, and why the others stay."""

from collections import Counter
from collections.abc import Hashable, Iterator
from enum import StrEnum

import msgspec

from tonnage.actions.eviction.disruptions import Disruptions
from tonnage.cluster.columns import CORES, MEMORY, Array
from tonnage.cluster.jobs.job import Job, PodStatus
from tonnage.cluster.jobs.surplus import Surplus
from tonnage.cluster.task import Task
from tonnage.framework.session import Session
from tonnage.model.annotations import SAFE_TO_EVICT
from tonnage.model.pod import Pod
from tonnage.plan.defrag.limits import LimitRows, Limits
from tonnage.plan.defrag.prices import Losses, WorkLost
from tonnage.plan.defrag.states import Holder, NodeStates


class Stays(StrEnum):
    """Why a pod is not moved."""

    NOBODY_CONTROLS = "NobodyControlsIt"
    """No controller would make it again."""
    BOUND_TO_NODE = "BoundToItsNode"
    """Its controller makes it again on the same node: a DaemonSet, or the kubelet."""
    LEAVING = "Leaving"
    OTHER_SCHEDULER = "OtherScheduler"
    NOT_PREEMPTIBLE = "NotPreemptible"
    SAID_SO = "NotSafeToEvict"
    LOCAL_VOLUME = "LocalVolume"
    BUDGET = "DisruptionBudget"
    TOO_YOUNG = "MinimumRuntime"
    KEPT_TOGETHER = "KeptTogether"
    """Its job has a topology constraint, so that it cannot move alone."""
    UNKNOWN_CARDS = "UnknownCards"
    """It holds cards without naming them, so that nobody knows what its going would free."""
    UNKNOWN_PRICE = "UnknownPrice"
    """It is not known since when it runs."""


_ON_EVERY_NODE = frozenset(("DaemonSet", "Node"))


class MovablePod(msgspec.Struct, frozen=True, eq=False):
    """A pod that a plan may move."""

    task: Task
    job: Job
    row: int
    """The row of its node."""
    kind: int
    """The number of its class of identical pods."""
    holder: Holder
    gpus: float
    loss: WorkLost
    """What it loses; of a gang that stops without it, what the whole gang loses."""
    gang: tuple[str, ...]
    """The other pods that stop with it."""
    takes: tuple[tuple[int, float], ...]
    """What it takes of the rows of limits."""

    @property
    def price(self) -> float:
        return self.loss.price


def stays_on_its_node(pod: Pod) -> bool:
    """Whether a pod is made again on its own node whatever happens, so that the node counts as free with it."""
    maker = pod.metadata.controller
    return maker is not None and maker.kind in _ON_EVERY_NODE


class MovablePods:
    """The pods of a session that may be moved, and how many stay for which reason."""

    def __init__(self, session: Session, board: NodeStates, losses: Losses, limits: Limits, at: float) -> None:
        self._session, self._board, self._losses, self._limits, self._at = session, board, losses, limits, at
        self._cluster = session.cluster
        self._disruptions = Disruptions(session.cluster)
        self._disruptions.begin()
        self.rows = LimitRows(limits)
        self.kinds: list[Task] = []
        """A pod of each class of identical pods."""
        self.staying: Counter[Stays] = Counter()
        self._numbers: dict[Hashable, int] = {}
        self._of_job: dict[str, WorkLost | None] = {}
        self.pods = list(self._find())

    def kind_of(self, task: Task) -> int:
        """The number of the class of a pod; pods of one class are identical to every plugin."""
        key = self._session.class_key(task)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.kinds)
            self.kinds.append(task)
        return number

    def gpus(self, task: Task) -> float:
        """The GPUs that a running pod holds, parts of cards as parts."""
        return self._share(self._board.holder(task.key), self._cluster.nodes[self._cluster.holders[task.key]].row)

    def _share(self, holder: Holder, row: int) -> float:
        total: Array = self._board.columns.card_total[:, :, row]
        return sum(
            min(1.0, max(float(holder.cards[part, at]) / max(float(total[part, at]), 1.0) for part in (MEMORY, CORES)))
            if total[MEMORY, at] or total[CORES, at]
            else 1.0
            for at in holder.positions
        )

    def _find(self) -> Iterator[MovablePod]:
        for key in sorted(self._cluster.running):
            task = self._cluster.running[key]
            if key not in self._cluster.holders or self._cluster.holders[key] not in self._cluster.nodes:
                continue
            job = self._session.job_of(task)
            why = self._why_not(task, job)
            if why is not None:
                self.staying[why] += 1
                continue
            row = self._cluster.nodes[self._cluster.holders[key]].row
            holder = self._board.holder(key)
            gang = self._stops_with(job, task)
            loss = self._loss_of_job(job) if gang else self._losses.of(task, self._share(holder, row))
            if loss is None:
                self.staying[Stays.UNKNOWN_PRICE] += 1
                continue
            budgets = self._disruptions.allowed(task)
            if any(allowed <= 0 for allowed in budgets.values()):
                self.staying[Stays.BUDGET] += 1
                continue
            takes = self.rows.of_pod(task.namespace, job.queue, loss.gpu_hours, budgets)
            kind = self.kind_of(task)
            yield MovablePod(task, job, row, kind, holder, self._share(holder, row), loss, gang, takes)

    def _why_not(self, task: Task, job: Job) -> Stays | None:
        """Why a pod stays where it is; nothing if it may move."""
        pod = task.pod
        if task.key in self._cluster.leaving:
            return Stays.LEAVING
        if stays_on_its_node(pod):
            return Stays.BOUND_TO_NODE
        if pod.metadata.controller is None:
            return Stays.NOBODY_CONTROLS
        if not self._session.may_stop(task):
            return Stays.OTHER_SCHEDULER
        if self._limits.preemptible_only and not job.may_evict(task):
            return Stays.NOT_PREEMPTIBLE
        safe = pod.annotations.get(SAFE_TO_EVICT)
        if safe == "false":
            return Stays.SAID_SO
        if safe != "true" and any(volume.is_local for volume in pod.spec.volumes or ()):
            return Stays.LOCAL_VOLUME
        if job.is_kept_together:
            return Stays.KEPT_TOGETHER
        held = self._cluster.held(task.key)
        if held is None or held.has_implicit_devices:
            return Stays.UNKNOWN_CARDS
        since = self._losses.since(task)
        if since is None:
            return Stays.UNKNOWN_PRICE
        return Stays.TOO_YOUNG if self._at - since < self._minimum_runtime(job) else None

    def _minimum_runtime(self, job: Job) -> float:
        """For how many seconds a pod of the job is left alone."""
        queues = self._cluster.queues
        said = [self._limits.minimum_runtime]
        for name in self._cluster.groups.hierarchy().upwards(job.queue):
            queue = queues.get(name)
            if queue is not None:
                said += [one for one in (queue.preempt_min_runtime, queue.reclaim_min_runtime) if one is not None]
        return max(said)

    def _stops_with(self, job: Job, task: Task) -> tuple[str, ...]:
        """The other pods of its job that cannot run on without it; none if the job has pods to spare."""
        if job.group is None or len(job.tasks) == 1 or Surplus().take(job, task):
            return ()
        return tuple(sorted(one.key for one in job.tasks_that(PodStatus.RUNNING) if one.key != task.key))

    def _loss_of_job(self, job: Job) -> WorkLost | None:
        """What all pods of a job lose together; nothing if that of one is not known."""
        if job.key not in self._of_job:
            running = [one for one in job.tasks_that(PodStatus.RUNNING) if one.key in self._cluster.holders]
            losses = [self._losses.of(one, self.gpus(one)) for one in running]
            known = [one for one in losses if one is not None]
            together = WorkLost(
                max((one.hours for one in known), default=0.0),
                sum(one.gpu_hours for one in known),
                sum(one.price for one in known),
            )
            self._of_job[job.key] = together if len(known) == len(losses) else None
        return self._of_job[job.key]
