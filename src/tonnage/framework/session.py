"""Session: plugins around one cluster, and what they decide, place and evict there.

A session is made of named parts: `Registration` has the plugins' callbacks; `jobs`, `queues` and `cards` give the
plugins' combined answers about those; `Decider` finds nodes for pods. The plugins' event handlers hear of every
placement and eviction, and of the undoing of each; a `Statement` collects several that belong together.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array
from tonnage.cluster.holding import Holding
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Shares
from tonnage.cluster.task import Task
from tonnage.framework.answers import CardAnswers, JobAnswers, QueueAnswers
from tonnage.framework.classes import Classes
from tonnage.framework.decider import Decider
from tonnage.framework.decision import Decision, Eviction, Reason, StaleGang
from tonnage.framework.failures import failure
from tonnage.framework.guard import Guard, PluginProblems
from tonnage.framework.nodesets import NodeSet
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import TaskEvent
from tonnage.framework.registration import CLOSE, OPEN, CallObserver, Registration, SessionError
from tonnage.model.duration import format_seconds
from tonnage.model.timestamp import past, past_timestamp

__all__ = ["Session", "SessionError"]


class Session:
    """Plugins, and the cluster they decide about. Use it in a `with` statement, so that plugins are closed."""

    def __init__(
        self, cluster: Cluster, plugins: Sequence[Plugin], *, brief: bool = False, observer: CallObserver | None = None
    ) -> None:
        self.cluster = cluster
        classes = Classes(cluster)
        problems = PluginProblems()
        self.report, self.problems, self.failures = problems.report, problems.all, problems.failures
        """How plugins report a problem; what they reported; how often each of them failed to answer."""
        self._registration = Registration(cluster, classes, problems, observer)
        self.registered = self._registration.entries
        """Which plugin registered something at which extension point, in that order."""
        self.jobs = JobAnswers(self._registration)
        self.queues = QueueAnswers(self._registration)
        self.cards = CardAnswers(self._registration)
        self.job_of = cluster.groups.job_of
        self.class_key = classes.key
        """Everything about a pod that plugins' answers about nodes depend on: pods with equal keys fit alike."""
        self.decisions: dict[str, Decision] = {}
        """The decision about each pod, in the order in which actions first considered it."""
        self.evictions: list[Eviction] = []
        """Pods that actions evict."""
        self.waits: dict[str, dict[str, Reason]] = {}
        """Why no room was made for a job, by action."""
        self.stale: list[StaleGang] = []
        """Jobs that run with fewer pods than their minimum."""
        self.enqueued: list[Job] = []
        """Jobs that `enqueue` admitted in this cycle, in that order."""
        self.not_enqueued: dict[str, Shares] = {}
        """Jobs that it did not admit, with their `minResources`."""
        self.passed_over: Container[str] = frozenset()
        """Waiting pods that actions skip, because nothing has changed for them since the last attempt."""
        self.cut_queues: Container[str] = frozenset()
        """Queues with more waiting pods than actions see, because there are too many for one cycle."""
        self.not_reached: set[str] = set()
        """Jobs that had no turn in this cycle because of that."""
        self.must_stay: Container[str] = frozenset()
        """Running pods that actions do not evict, because their eviction was refused a short while ago."""
        self.nominated: Container[str] = frozenset()
        """Pods whose places were promised before this cycle's actions; no action takes such a promise back."""
        self.spared_by: Callable[[Job], frozenset[str]] = lambda job: frozenset()
        """The lineages of jobs that are not evicted for a job, because it was evicted for them a while ago."""
        self.next_change: float | None = None
        """The earliest time at which an answer of this cycle changes although nothing happens, if there is one."""
        self.set_aside: Container[str] = frozenset()
        """Jobs that actions neither start nor stop, because a cycle that looked at them failed a short while ago."""
        self.at_work: Job | None = None
        """The job that an action looks at now: if the cycle fails, it is the one to blame."""
        self.acting = ""
        """The action that runs now; empty between actions."""
        self.next_jobs: dict[str, Job] = {}
        """The job of each queue that comes next in it, while an action goes over the queues."""
        self.queue_changes: list[str] = []
        """Queues whose next job changed, or what their pods hold, in the order of changes."""
        self._open: list[Plugin] = []
        self._bind_registration()
        self._open_plugins(plugins)
        classes.close_registration()
        decider = Decider(cluster, classes, self._registration, brief=brief)
        self.decide, self.survey, self.refuse = decider.decide, decider.survey, decider.refuse
        self.fitting, self.may_fit = decider.fitting, decider.may_fit
        self.lasting, self.why_lasting, self.resolvable = decider.lasting, decider.why_lasting, decider.resolvable

    def _bind_registration(self) -> None:
        """Offer the registration's methods as the session's own, which is how plugins call them."""
        registration = self._registration
        self._on_allocate, self._on_deallocate = registration.on_allocate, registration.on_deallocate
        self.add_queue_order = registration.add_queue_order
        self.add_job_order = registration.add_job_order
        self.add_task_order = registration.add_task_order
        self.add_job_valid = registration.add_job_valid
        self.add_job_ready = registration.add_job_ready
        self.add_job_pipelined = registration.add_job_pipelined
        self.add_job_starving = registration.add_job_starving
        self.add_job_enqueueable = registration.add_job_enqueueable
        self.add_node_sets = registration.add_node_sets
        self.add_subgroup_node_sets = registration.add_subgroup_node_sets
        self.add_preemptable = registration.add_preemptable
        self.add_reclaimer = registration.add_reclaimer
        self.add_reclaimable = registration.add_reclaimable
        self.add_overused = registration.add_overused
        self.add_allocatable = registration.add_allocatable
        self.add_pre_predicate = registration.add_pre_predicate
        self.add_predicate = registration.add_predicate
        self.add_node_order = registration.add_node_order
        self.add_batch_predicate = registration.add_batch_predicate
        self.add_batch_node_order = registration.add_batch_node_order
        self.add_card_predicate = registration.add_card_predicate
        self.add_gpu_order = registration.add_gpu_order
        self.add_gpu_set = registration.add_gpu_set
        self.set_assign = registration.set_assign
        self.set_volume_choice = registration.set_volume_choice
        self.add_grant_predicate = registration.add_grant_predicate
        self.add_event_handler = registration.add_event_handler
        self.set_queue_report = registration.set_queue_report
        self.set_victim_queues = registration.set_victim_queues

    def _open_plugins(self, plugins: Sequence[Plugin]) -> None:
        plugin: Plugin
        try:
            for plugin in plugins:
                self._open.append(plugin)
                self._registration.begin(plugin)
                self._registration.observed(plugin, OPEN, plugin.on_session_open)(self)
        except SessionError:
            self.close()
            raise
        except Exception as error:
            self.close()
            told = failure(error, plugin.on_session_open)
            raise SessionError(f"plugin {plugin.name} cannot be opened: {told}") from error

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every plugin, the last opened first; one that fails does not keep the others from closing."""
        while self._open:
            plugin = self._open.pop()
            try:
                self._registration.observed(plugin, CLOSE, plugin.on_session_close)(self)
            except Exception as error:
                Guard(plugin.name, self.report).failed("close", "the session", error, plugin.on_session_close)

    def reset(self) -> None:
        """Drop the results of a cycle before the next one."""
        for results in (self.decisions, self.evictions, self.waits, self.stale, self.enqueued, self.not_enqueued):
            results.clear()
        self.queue_changes.clear()
        self.not_reached.clear()
        self.next_change = None

    def changes_at(self, when: float) -> None:
        """Take note of a time at which an answer changes although nothing happens."""
        self.next_change = when if self.next_change is None else min(when, self.next_change)

    def set_next_job(self, queue: str, job: Job | None) -> None:
        """Say which job of a queue comes next; the order of queues may depend on it."""
        if job is None:
            self.next_jobs.pop(queue, None)
        else:
            self.next_jobs[queue] = job
        self.queue_changes.append(queue)

    def waiting_jobs(self, wants: Callable[[Task], bool] | None = None) -> list[Job]:
        """Jobs with a waiting pod for which `wants` is true."""
        waiting = [task for key, task in self.cluster.waiting.items() if key not in self.passed_over]
        return list(dict.fromkeys([self.job_of(task) for task in waiting if wants is None or wants(task)]))

    def why_not_yet(self, job: Job) -> Reason | None:
        """Why no pods may be evicted for a job yet: its group wants a delay since it was created or evicted."""
        now, times = self.cluster.now, job.group.times if job.group is not None else None
        if now is None or times is None or not times.preemption_delay:
            return None
        said = past_timestamp(job.created, now), past(times.evicted, now)
        known = [when for when in said if when is not None]
        waited = now - max(known) if known else times.preemption_delay
        if waited >= times.preemption_delay:
            return None
        self.changes_at(now - waited + times.preemption_delay)
        asked = f"{job.key} asks for {format_seconds(times.preemption_delay)} before others are stopped for it"
        return Reason("PreemptionDelayNotElapsed", f"{asked}; it has waited {format_seconds(waited)}")

    def may_stop(self, task: Task) -> bool:
        """Whether a running pod can be evicted at all: it is placed here, and was not refused a short while ago."""
        return task.key not in self.must_stay and self.cluster.is_ours(task.pod)

    def promises(self) -> list[Task]:
        """Pods to which actions of this cycle have promised places that others have to leave first."""
        cluster = self.cluster
        if not cluster.pipelined:
            return []
        keys = [key for key in self.decisions if key in cluster.pipelined and key not in self.nominated]
        return [cluster.reserved[key] for key in keys]

    def place(self, task: Task, among: Array | NodeSet | None = None) -> Decision:
        """Decide about a pod and reserve the place found; an earlier place of the pod is released first."""
        self.unplace(task.key)
        decision = self.decide(task, among)
        if decision.node is not None:
            self.take(decision)
        return decision

    def take(self, decision: Decision) -> None:
        """Reserve the place of a decision."""
        assert decision.node is not None
        task, choice = decision.task, self._registration.volume_choice
        if choice is not None and task.rules is not None and task.rules.claims:
            # Chosen now: what was free when the place was decided may have been reserved since.
            decision.volumes = choice[1](task, self.cluster.nodes[decision.node].row)
        self.cluster.reserve(task, decision.node, decision.grant, decision.volumes)
        self._tell(self._on_allocate, decision.task, decision.job)

    def put_back(self, task: Task, holding: Holding) -> None:
        """Reserve a place again that a pod had before."""
        self.cluster.reserve_holding(task, holding)
        self._tell(self._on_allocate, task, self.job_of(task))

    def unplace(self, key: str) -> None:
        """Release a place that is reserved."""
        task = self.cluster.reserved.get(key)
        if task is not None:
            self.cluster.release(key)
            self._tell(self._on_deallocate, task, self.job_of(task))

    def evict(self, task: Task) -> None:
        """Mark a running pod, or one that waits with a place, as leaving: looking ahead, what it holds is free."""
        if self.cluster.evict(task.key):
            self._tell(self._on_deallocate, task, self.job_of(task))

    def restore(self, task: Task) -> None:
        """Undo an eviction."""
        if self.cluster.restore(task.key):
            self._tell(self._on_allocate, task, self.job_of(task))

    def _tell(self, handlers: Sequence[TaskEvent], task: Task, job: Job) -> None:
        """Call the event handlers, and note that the pod's queue holds more or less."""
        for told in handlers:
            told(task)
        self.queue_changes.append(job.queue)

    @contextmanager
    def looking_ahead(self) -> Iterator[None]:
        """Decide as if the leaving pods had left; a pod placed meanwhile waits for them."""
        before = self.cluster.is_ahead
        self.cluster.look_ahead(True)
        try:
            yield
        finally:
            self.cluster.look_ahead(before)
