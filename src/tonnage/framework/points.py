"""The callbacks that plugins register, as types.

| extension point | answers | combine |
|---|---|---|
| pre-predicate (task, job) | nothing or a reason | all must pass |
| predicate (task, job, node) | nothing or a reason | all must pass |
| batch predicate (task, nodes) | a code per node, 0 for yes | all must pass, the first that says no is the reason |
| node order (task, node) | a score | sum |
| batch node order (task, nodes) | a score per node | sum |
| card predicate (task, request, cards) | which cards not | all must pass |
| GPU order (task, request, node, free, fitting) | a score per fitting card | sum, then the lower position |
| GPU set (task, request, row, candidates) | which of the fitting cards, or no opinion | first that decides |
| assign (task, row, remembered) | what the pod's containers get of a node's cards | one plugin only |
| allocate and deallocate events (task) | nothing | all are told |
"""

from collections.abc import Callable, Hashable, Sequence

from tonnage.cluster.cluster import Grant
from tonnage.cluster.columns import Array, Cards, Nodes
from tonnage.cluster.job import Job
from tonnage.cluster.state import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import DeviceRequest
from tonnage.framework.decision import Reason

Key = Callable[[Task], Hashable]
"""Everything about a pod that an answer depends on."""
PrePredicate = Callable[[Task, Job], Reason | None]
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
Detail = Callable[[Task, int, int, Array | None], Callable[[], str]]
"""Of a task, a node's row, its code and what the predicate remembered, captures what a sentence about it needs.

The result makes the sentence when somebody reads it."""
Confirm = Callable[[Task, int], int]
"""Looks closely at one node: 0, or the code of the reason why not."""
TaskEvent = Callable[[Task], None]
