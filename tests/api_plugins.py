"""A plugin of every kind that docs/plugins.md describes, written as somebody else would: from `tonnage.api` alone."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from tonnage.api import (
    CORES,
    FITS,
    MAYBE,
    MEMORY,
    SLOTS,
    ArgumentError,
    Array,
    Cards,
    Decision,
    DeviceRequest,
    DeviceUse,
    FileContent,
    Grant,
    Job,
    Nodes,
    NodeSet,
    NodeSets,
    NodeState,
    NodeView,
    Plugin,
    PluginArguments,
    PodStatus,
    Pull,
    Queue,
    Reason,
    Session,
    Statement,
    Task,
    VictimQueues,
    VolumeReservation,
    register_plugin,
)


def by_name(one: Any, other: Any) -> int:
    return (one.name > other.name) - (one.name < other.name)


class Orders(Plugin):
    """Orders queues, jobs and pods."""

    name = "api-orders"
    switches = frozenset(("enableBackwards",))

    def on_session_open(self, session: Session) -> None:
        self._session = session
        session.add_queue_order(self.queues)
        session.add_job_order(self.jobs)
        session.add_task_order(self.tasks)

    def queues(self, one: Queue, other: Queue) -> int:
        following = self._session.next_jobs
        return (one.name not in following) - (other.name not in following)

    def jobs(self, one: Job, other: Job) -> int:
        return other.priority - one.priority

    def tasks(self, one: Task, other: Task) -> int:
        order = by_name(one, other)
        return -order if "enableBackwards" in self.options.switched_on else order


class OneNode(Plugin):
    """Looks at a pod, and at one node at a time."""

    name = "api-one-node"

    class Arguments(PluginArguments):
        """The pool that pods must be in, from a file, and how much its nodes are preferred."""

        pool: str = "blue"
        bonus: float = 10.0

    file_arguments = frozenset(("pool",))

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Callable[[str, str], None]) -> PluginArguments:
        content = given.get("pool")
        if not isinstance(content, FileContent) or not isinstance(content.value, str):
            raise ArgumentError("pool", "expected a file with the name of a pool")
        warn("pool", "it is read once")
        return cls.Arguments(pool=content.value)

    def pull(self) -> Pull | None:
        return Pull("blue nodes", 0.0, 0.1, {"cpu": 1.0})

    def on_session_open(self, session: Session) -> None:
        session.add_pre_predicate(self.is_welcome)
        session.add_predicate(self.is_in_pool, key=lambda task: task.annotations.get("pool"))
        session.add_node_order(self.score, key=lambda task: None)

    def is_welcome(self, task: Task, job: Job) -> Reason | None:
        return Reason("NotWelcome", f"{task.key} is not welcome") if task.name == "stranger" else None

    def is_in_pool(self, task: Task, job: Job, node: NodeView) -> Reason | None:
        if node.labels.get("pool") == self.args.pool:
            return None
        return Reason("OtherPool", f"{node.name} is not in pool {self.args.pool}")

    def score(self, task: Task, node: NodeView) -> float:
        return float(self.args.bonus) if node.free("cpu") else 0.0


class AllNodes(Plugin):
    """Looks at all nodes at once, and closely at those that may do."""

    name = "api-all-nodes"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        session.add_batch_predicate(
            self.fits, key=lambda task: None, reasons=("Odd",), detail=self.detail, confirm=self.confirm
        )
        session.add_batch_node_order(self.score, key=lambda task: None, reduce=self.reduce)

    def fits(self, task: Task, nodes: Nodes) -> Array:
        return np.full(len(nodes), MAYBE, np.uint8)

    def confirm(self, task: Task, row: int) -> int:
        return FITS if self._session.cluster.states[row].name != "odd" else 1

    def detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        return lambda: "the node is odd"

    def score(self, task: Task, nodes: Nodes) -> Array:
        return np.ones(len(nodes))

    def reduce(self, task: Task, scores: Array, fits: Array) -> Array:
        return scores * 2


class ChoosesCards(Plugin):
    """Rules out, orders and picks cards, and looks at what a pod would get of them."""

    name = "api-chooses-cards"

    def on_session_open(self, session: Session) -> None:
        number = session.add_batch_predicate(
            lambda task, nodes: None, key=self.key, reasons=("TooMuch",), detail=lambda *about: lambda: "too much"
        )
        session.add_card_predicate(self.reject, key=self.key)
        session.add_gpu_order(self.order, key=self.key)
        session.add_gpu_set(self.choose)
        session.add_grant_predicate(self.is_too_much, number)

    def key(self, task: Task) -> Hashable:
        return task.demands

    def reject(self, task: Task, request: DeviceRequest, cards: Cards) -> Array:
        rejected: Array = cards.free[SLOTS] < 1
        rejected[0] = True
        return rejected

    def order(
        self,
        task: Task,
        request: DeviceRequest,
        node: NodeState,
        free: Sequence[Sequence[int]],
        fitting: Sequence[int],
    ) -> Sequence[float]:
        return [float(free[MEMORY][card] + free[CORES][card]) for card in fitting]

    def choose(self, task: Task, request: DeviceRequest, row: int, candidates: Sequence[int]) -> Sequence[int]:
        return sorted(candidates, reverse=True)[: request.count]

    def is_too_much(self, task: Task, row: int, grant: Grant) -> bool:
        return len([use for _, containers in grant for uses in containers for use in uses]) > 4


class HandsOutCards(Plugin):
    """Gives each container the first cards of a node."""

    name = "api-hands-out-cards"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        number = session.add_batch_predicate(
            lambda task, nodes: None,
            key=lambda task: task.demands,
            reasons=("TooFewCards",),
            detail=lambda *about: lambda: "too few cards",
        )
        session.set_assign(self.assign, number)

    def assign(self, task: Task, row: int, remembered: Array | None) -> Grant | int:
        state = self._session.cluster.states[row]
        containers: list[tuple[DeviceUse, ...]] = [()] * len(task.kinds)
        for demand in task.demands:
            (request,) = demand.requests
            if len(state.devices) < request.count:
                return 1
            cards = state.devices[: request.count]
            containers[demand.position] = tuple(DeviceUse(card.uuid, request.memory, request.cores) for card in cards)
        return ((self._session.cluster.vendor_numbers["NVIDIA"], tuple(containers)),)


class Jobs(Plugin):
    """Says which jobs are valid, ready, pipelined and enqueueable, and where each may be."""

    name = "api-jobs"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        session.add_job_valid(lambda job: None if job.tasks else Reason("NoPods", "the job has no pods"))
        session.add_job_ready(lambda job: job.started() >= job.minimum)
        session.add_job_pipelined(lambda job: None)
        session.add_job_starving(lambda job: job.started() < job.minimum)
        session.add_job_enqueueable(lambda job: job.count(PodStatus.WAITING) < 1000)
        session.add_node_sets(self.sets)
        session.add_subgroup_node_sets(self.sets_of_subgroup)

    def sets_of_subgroup(self, job: Job, subgroup: tuple[str, ...], tasks: Sequence[Task]) -> NodeSets | None:
        return None if job.inside(subgroup, PodStatus.RUNNING) else self.sets(job, tasks)

    def sets(self, job: Job, tasks: Sequence[Task]) -> NodeSets:
        reason = Reason("NotTogether", f"no node holds {len(tasks)} pods of {job.key}")
        names = [state.name for state in self._session.cluster.states]
        return NodeSets([NodeSet(name, np.array([name == other for other in names])) for name in names], reason)


class InTurn:
    """Queues give up pods in the order of their names."""

    def compare(self, one: Queue, other: Queue) -> int:
        return by_name(one, other)

    def give_up(self, task: Task) -> None:
        pass


class Shares(Plugin):
    """Says what queues may have, and who goes for whom."""

    name = "api-shares"

    def on_session_open(self, session: Session) -> None:
        session.add_overused(lambda queue: None)
        session.add_allocatable(self.may_have)
        session.add_preemptable(lambda job, victims: victims)
        session.add_preemptable(self.spare, veto=True)
        session.add_reclaimer(lambda job, tasks: None)
        session.add_reclaimable(lambda job, victims: victims)
        session.set_victim_queues(self.order)

    def may_have(self, queue: Queue, task: Task) -> Reason | None:
        return Reason("Greedy", f"{queue.name} must not get {task.key}") if task.name == "greedy" else None

    def spare(self, job: Job, victims: Sequence[Task]) -> Sequence[Task]:
        return [victim for victim in victims if victim.name != "spared"]

    def order(self) -> VictimQueues:
        return InTurn()


class Listener(Plugin):
    """Counts the running pods of each namespace."""

    name = "api-listener"

    def on_session_open(self, session: Session) -> None:
        self.counts: dict[str, int] = {}
        self.asking = {job.key: job.count(PodStatus.RUNNING) for job in session.waiting_jobs()}
        session.add_event_handler(lambda task: self.add(task, 1), lambda task: self.add(task, -1))

    def add(self, task: Task, change: int) -> None:
        namespace = task.pod.metadata.namespace
        self.counts[namespace] = self.counts.get(namespace, 0) + change


class ChoosesVolumes(Plugin):
    """Has a volume made for every claim."""

    name = "api-chooses-volumes"

    def on_session_open(self, session: Session) -> None:
        session.set_volume_choice(self.choose)

    def choose(self, task: Task, row: int) -> tuple[VolumeReservation, ...]:
        return tuple(VolumeReservation(claim) for claim in task.rules.claims) if task.rules is not None else ()


def make_room(session: Session, task: Task, victim: Task) -> Decision:
    """Where a pod would go if another were evicted; changes nothing."""
    with Statement(session) as statement:
        statement.evict(victim, task.key, "of lower priority")
        return statement.pipeline(task)


PLUGINS = (Orders, OneNode, AllNodes, ChoosesCards, HandsOutCards, Jobs, Shares, Listener, ChoosesVolumes)


def register() -> None:
    register_plugin(Listener.name, Listener)
