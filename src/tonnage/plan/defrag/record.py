"""The record of a plan: what `-o json`, the tables, the page and a scheduler that carries it out all read."""

import msgspec

from tonnage.model.problem import Problem
from tonnage.plan.defrag.goals import GoalKind


class PlanFigures(msgspec.Struct, frozen=True):
    """The cluster in numbers, before or after a plan."""

    gpus: int
    gpus_free: float
    """Free parts of cards, summed."""
    gpus_usable: float
    """The part of them that a typical pod can use, on average."""
    gpus_whole: int
    """Cards of which nobody has anything, on nodes that take pods."""
    nodes: int
    nodes_free: int
    """Nodes with no pods but those that every such node has."""


class PlannedMove(msgspec.Struct, frozen=True):
    """One step: a pod is evicted, and the pod that its controller makes in its place goes to a node."""

    step: int
    pod: str
    uid: str | None
    job: str
    queue: str
    owner: str
    """Kind and name of what makes the pod again."""
    priority: int
    node: str
    to: str
    devices: list[str]
    """The cards that it leaves."""
    to_devices: list[str]
    """The cards that it gets."""
    gpus: float
    hours_lost: float
    gpu_hours_lost: float
    price: float
    stops: list[str]
    """Other pods of its gang that cannot run on without it; what they lose is in the price."""
    detour: bool
    """Whether it makes way for others, and moves once more later."""
    usable_after: float
    """GPUs of the cluster that a typical pod can use, after this step."""


class PlannedStart(msgspec.Struct, frozen=True):
    """A waiting job that can start after the moves."""

    job: str
    queue: str
    gpus: float
    pods: dict[str, str]
    """The node of each of its pods."""


class AffectedOwner(msgspec.Struct, frozen=True):
    """Who loses how much."""

    namespace: str
    queue: str
    pods: int
    gpu_hours: float
    price: float


class RefusedMove(msgspec.Struct, frozen=True):
    """A move that the search wanted and the engine refused."""

    pod: str
    to: str
    why: str


class DefragPlan(msgspec.Struct, frozen=True):
    """A plan, its price, its gain, and how far from the best it may be."""

    goal: GoalKind
    target: float | None
    made_at: str
    not_before: str | None
    """The earliest time at which it is to be carried out, by which prices go."""
    decided_by: str
    horizon_hours: float
    before: PlanFigures
    after: PlanFigures
    gain: float
    """In the unit of the goal."""
    unit: str
    value: float
    """What is gained over the horizon, in the currency of prices."""
    price: float
    gpu_hours_lost: float
    moves: list[PlannedMove]
    starts: list[PlannedStart]
    affected: list[AffectedOwner]
    bound: float | None
    """No plan within the limits is worth more than this, value minus price; nothing if no bound was computed."""
    gap: float | None
    """How far from that bound the plan is, as a part of the bound."""
    found_by: str
    """`solver` or `greedy`."""
    staying: dict[str, int]
    """How many pods were not considered, by reason."""
    left_out: list[RefusedMove]
    limits_reached: list[str]
    notes: list[str]
    problems: list[Problem]

    @property
    def net(self) -> float:
        """Value minus price."""
        return self.value - self.price
