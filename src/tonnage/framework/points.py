"""Extension points: what each callback takes and answers, and how the answers of several plugins combine."""

from collections.abc import Callable, Hashable, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from tonnage.cluster.cluster import Grant
from tonnage.cluster.columns import Array, Cards, Nodes
from tonnage.cluster.holding import VolumeReservation
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.jobs.subgroups import Path
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.decision import Reason
from tonnage.framework.nodesets import NodeSets


class ExtensionPoint(NamedTuple):
    """An extension point."""

    name: str
    takes: str
    answers: str
    combine: str


_FIRST = "first that decides, in the order of tiers and plugins"
_VOTES = "any no is no; else the first tier with a yes decides; yes if nobody votes"
_VICTIMS = (
    "those that all plugins of a tier name; the next tier only if nobody in this one has a say; "
    "a veto, of whatever tier, takes away from what is left"
)

QUEUE_ORDER = ExtensionPoint("queue order", "queue, queue", "-1, 0 or 1", f"{_FIRST}; then the older, then by name")
JOB_ORDER = ExtensionPoint("job order", "job, job", "-1, 0 or 1", f"{_FIRST}; then the older, then by name")
TASK_ORDER = ExtensionPoint(
    "task order", "task, task", "-1, 0 or 1", f"{_FIRST}; then the larger, then the older, then by name"
)
PRE_PREDICATE = ExtensionPoint("pre-predicate", "task, job", "nothing or a reason", "all must pass")
PREDICATE = ExtensionPoint("predicate", "task, job, node", "nothing or a reason", "all must pass")
BATCH_PREDICATE = ExtensionPoint(
    "batch predicate",
    "task, nodes",
    "a code per node, 0 for yes",
    "all must pass, the first that says no is the reason",
)
NODE_ORDER = ExtensionPoint("node order", "task, node", "a score", "sum")
BATCH_NODE_ORDER = ExtensionPoint("batch node order", "task, nodes", "a score per node", "sum")
CARD_PREDICATE = ExtensionPoint("card predicate", "task, request, cards", "which cards not", "all must pass")
GPU_ORDER = ExtensionPoint(
    "GPU order", "task, request, node, free, fitting", "a score per fitting card", "sum, then the lower position"
)
GPU_SET = ExtensionPoint(
    "GPU set", "task, request, row, candidates", "which of the fitting cards, or no opinion", "first that decides"
)
ASSIGN = ExtensionPoint(
    "assign", "task, row, remembered", "what the pod's containers get of a node's cards", "one plugin only"
)
VOLUME_CHOICE = ExtensionPoint(
    "volume choice", "task, row", "what the pod's unbound claims get on a node", "one plugin only"
)
GRANT_PREDICATE = ExtensionPoint("grant predicate", "task, row, grant", "whether that is too much", "all must pass")
EVENTS = ExtensionPoint("allocate and deallocate events", "task", "nothing", "all are told")
JOB_VALID = ExtensionPoint("job valid", "job", "nothing or a reason", "all must pass")
JOB_READY = ExtensionPoint("job ready", "job", "yes, no or no opinion", "all must agree; yes if nobody has an opinion")
JOB_PIPELINED = ExtensionPoint("job pipelined", "job", "yes, no or no opinion", _VOTES)
JOB_STARVING = ExtensionPoint("job starving", "job", "yes, no or no opinion", _VOTES)
JOB_ENQUEUEABLE = ExtensionPoint("job enqueueable", "job", "yes, no or no opinion", _VOTES)
NODE_SETS = ExtensionPoint(
    "node sets",
    "job, tasks",
    "sets of nodes of which one is to hold all of the pods, or no opinion",
    "the first plugin that has one; its sets are tried in their order",
)
SUBGROUP_NODE_SETS = ExtensionPoint(
    "subgroup node sets",
    "job, subgroup, tasks",
    "the same for the pods of a subgroup, or no opinion",
    "the first plugin that has one; its sets are tried in their order, within the set of what is around the subgroup",
)
PREEMPTABLE = ExtensionPoint("preemptable", "job, victims", "the victims it would allow, or no opinion", _VICTIMS)
RECLAIMER = ExtensionPoint("reclaimer", "job, tasks", "nothing or a reason", "all must pass")
RECLAIMABLE = ExtensionPoint("reclaimable", "job, victims", "the victims it would allow, or no opinion", _VICTIMS)
OVERUSED = ExtensionPoint("overused", "queue", "nothing or a reason", "any reason means yes")
ALLOCATABLE = ExtensionPoint("allocatable", "queue, task", "nothing or a reason", "all must pass")

POINTS = (
    QUEUE_ORDER,
    JOB_ORDER,
    TASK_ORDER,
    PRE_PREDICATE,
    PREDICATE,
    BATCH_PREDICATE,
    NODE_ORDER,
    BATCH_NODE_ORDER,
    CARD_PREDICATE,
    GPU_ORDER,
    GPU_SET,
    ASSIGN,
    VOLUME_CHOICE,
    GRANT_PREDICATE,
    EVENTS,
    JOB_VALID,
    JOB_READY,
    JOB_PIPELINED,
    JOB_STARVING,
    JOB_ENQUEUEABLE,
    NODE_SETS,
    SUBGROUP_NODE_SETS,
    PREEMPTABLE,
    RECLAIMER,
    RECLAIMABLE,
    OVERUSED,
    ALLOCATABLE,
)


def points_table() -> str:
    """All extension points as a table in Markdown."""
    rows = [f"| {p.name} ({p.takes}) | {p.answers} | {p.combine} |" for p in POINTS]
    return "\n".join(["| extension point | answers | combine |", "|---|---|---|", *rows]) + "\n"


Key = Callable[[Task], Hashable]
"""Everything about a pod that an answer depends on, or `UNCONCERNED`."""
UNCONCERNED: Hashable = object()
"""The key of pods about which a callback says nothing, whatever the nodes are like: it is not called for them."""
QueueOrder = Callable[[Queue, Queue], int]
"""Below 0 if the first comes before the second."""
JobOrder = Callable[[Job, Job], int]
TaskOrder = Callable[[Task, Task], int]
PrePredicate = Callable[[Task, Job], Reason | None]


class Reads(Enum):
    """What of a node an answer depends on, beside the key of the pod."""

    EVERYTHING = auto()
    NODE = auto()
    """The node object alone: its labels, taints and images, whatever pods come and go there."""
    LOOK = auto()
    """`Columns.look`: what the node offers, what is left of it, and its cards. Nodes that look alike get one answer."""


ReadsOf = Reads | Callable[[Task], Reads]
"""The same for all pods, or for pods with the key of this one."""


def what_it_reads(reads: ReadsOf, task: Task) -> Reads:
    """What of a node an answer about a pod depends on."""
    return reads if isinstance(reads, Reads) else reads(task)


Evaluate = Callable[[Task, Nodes], Array | tuple[Array, Array] | None]
"""A code for each node, and what the predicate wants to remember beside it; nothing if all nodes fit."""
NodeOrder = Callable[[Task, Nodes], Array | None]
"""A score for each node; nothing if all are alike."""
Reduce = Callable[[Task, Array, Array], Array]
"""Of a task, the scores of all nodes and which of them the task fits on, makes the scores that count."""
CardPredicate = Callable[[Task, DeviceRequest, Cards], Array | None]
"""True for cards that must not be taken; nothing if the plugin has no say about this task."""
GpuOrder = Callable[[Task, DeviceRequest, NodeState, Sequence[Sequence[int]], Sequence[int]], Sequence[float]]
"""A score for each fitting card of a node; gets what is free per kind and card, and the positions of those cards."""
GpuSet = Callable[[Task, DeviceRequest, int, Sequence[int]], Sequence[int] | None]
"""Positions to take out of fitting ones, which come in order of preference; nothing if any will do."""
Assign = Callable[[Task, int, Array | None], Grant | int]
"""The slices a pod gets on a node, or the code of the reason why it gets none; gets what its predicate remembered."""
VolumeChoice = Callable[[Task, int], tuple[VolumeReservation, ...]]
"""What is reserved for the claims of a pod that gets a place on a node."""
GrantPredicate = Callable[[Task, int, Grant], bool]
"""Whether a pod must not get these slices of the cards of a node."""
Detail = Callable[[Task, int, int, Array | None], Callable[[], str]]
"""Of a task, a node's row, its code and what the predicate remembered, captures what a sentence about it needs.

The result makes the sentence when somebody reads it."""
Note = Callable[[Task, int], Callable[[], str]]
"""Of a task and the row of the node that it is to go to, captures what a sentence about the choice needs.

The result makes the sentence when somebody reads it; it is empty if there is nothing to say."""
Confirm = Callable[[Task, int], int]
"""Looks closely at one node: 0, or the code of the reason why not."""
TaskEvent = Callable[[Task], None]
JobCheck = Callable[[Job], Reason | None]
JobVote = Callable[[Job], bool | None]
ChooseNodeSets = Callable[[Job, Sequence[Task]], NodeSets | None]
"""For waiting pods of a job in their order; the pods that the job needs to start come first."""
ChooseSubGroupNodeSets = Callable[[Job, Path, Sequence[Task]], NodeSets | None]
"""For waiting pods of a subgroup of a job in their order."""
Victims = Callable[[Job, Sequence[Task]], Sequence[Task] | None]
"""Of pods that would be evicted in this order, beyond those that leave already, the ones that may be."""
JobTasksCheck = Callable[[Job, Sequence[Task]], Reason | None]
QueueCheck = Callable[[Queue], Reason | None]
QueueTaskCheck = Callable[[Queue, Task], Reason | None]


class VictimQueues(Protocol):
    """The order in which queues give up pods; each search for victims has its own."""

    def compare(self, one: Queue, other: Queue) -> int:
        """Below 0 if the first gives up a pod before the second does."""

    def give_up(self, task: Task) -> None:
        """Count a pod as evicted."""
