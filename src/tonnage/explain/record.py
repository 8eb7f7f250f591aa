"""The record of an explanation: one form for pods, jobs, queues, nodes and cards, printed and served alike.

Memory of cards is in MiB, compute in percent of a card; ages are in seconds. Parts that do not apply are left out.
"""

from enum import StrEnum
from typing import Any

import msgspec

from tonnage.framework.decision import DecisionOutcome, Eviction, GrantedDevice, QueueShare


class ExplainedKind(StrEnum):
    """The kinds of things that can be explained."""

    POD = "pod"
    JOB = "job"
    QUEUE = "queue"
    NODE = "node"
    GPU = "gpu"


class FunnelStep(msgspec.Struct, frozen=True):
    """One rule of the funnel: how many of the nodes left before it does it reject, with one of them as an example."""

    reason: str
    plugin: str
    nodes: int
    left: int
    """Nodes that are left after it."""
    example: str
    message: str


class PodHolding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that holds something, for people who may want to ask its owner."""

    pod: str
    holds: str
    owner: str = ""
    """Its controller, as kind/name; empty for a pod that nobody makes anew."""
    age: float | None = None
    """Nothing if its creation time or the present time is not known."""
    leaving: bool = False
    placed_before: bool = False
    """Whether it waits as well, and its turn comes first."""


class Shortage(msgspec.Struct, frozen=True, omit_defaults=True):
    """An amount that a node, or the best card of it, has too little of."""

    resource: str
    wanted: str
    free: str
    short: str
    card: str = ""
    """The card's UUID; empty if it is about the node."""
    cards: str = ""
    """How many of the wanted cards fit, if several are wanted."""


class NearMiss(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that nearly fits: what it lacks, and who holds that."""

    node: str
    sentence: str
    shortages: list[Shortage] = []
    holders: list[PodHolding] = []
    """Those who hold most of what is short, the largest first."""
    held_by: int = 0
    """How many pods hold it in all."""


class GangFit(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a gang gets: how many of its pods have or find a place, and which one is the first that does not."""

    minimum: int
    pods: int
    with_place: int
    """Pods that run, or have succeeded, already."""
    fit: int
    """Further pods that find a place now."""
    first: str = ""
    """The first pod without a place."""
    why: str = ""
    within: str = ""
    """The rack or other domain in which most of them fit, if the job must stay in one."""


class QueueExplanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The share of a queue, what it has borrowed and lent, and when that comes back."""

    name: str
    parent: str = ""
    resources: dict[str, QueueShare] = {}
    running: int = 0
    waiting: int = 0
    """Pods."""
    lent: dict[str, str] = {}
    """What the queue deserves and does not hold, by resource, while others hold more than they deserve."""
    borrowers: list[str] = []
    """Queues that hold more than they deserve of what this one lacks."""
    returns: str = ""
    """When what is lent, or was borrowed, may come back."""


class CardExplanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A card: what is free on it, who holds the rest, and why it takes nothing new."""

    uuid: str
    node: str
    type: str
    memory: int | None
    free_memory: int | None
    cores: int
    free_cores: int
    slots: int
    free_slots: int
    state: str = ""
    holders: list[PodHolding] = []


class RelocatedPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that moves: it ends, and its controller makes another one that gets a place as well."""

    pod: str
    owner: str
    """Its controller, as kind/name."""
    node: str
    to: str
    gpu_hours: float
    """The work that is lost."""
    stops: list[str] = []
    """Other pods of its gang that cannot run on without it; what they lose is counted."""


class Suggestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change that lets the pod run; that it does was proven by a scheduling cycle on this state of the cluster."""

    kind: str
    """`request`, `constraint`, `gang`, `topology`, `end`, `move`, `preemption` or `node`."""
    sentence: str
    commands: list[str] = []
    pods: list[str] = []
    """The pods that the patch is for: all waiting pods of the job that are alike."""
    patch: dict[str, Any] = {}
    """A strategic merge patch of these pods, or of their template."""
    group: dict[str, Any] = {}
    """A merge patch of the job's PodGroup."""
    ends: list[PodHolding] = []
    """The pods that have to end."""
    moves: list[RelocatedPod] = []
    """The pods that have to move."""
    node: str = ""
    """The node of which copies are added."""
    copies: int = 0
    places: str = ""
    """Where the pod then goes."""


class FragmentationCost(msgspec.Struct, frozen=True):
    """The fragmentation of the cluster without a pod and with it, in percent of all cards."""

    before: float
    after: float


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to one question."""

    kind: ExplainedKind
    name: str
    sentence: str
    """The answer in one sentence."""
    outcome: DecisionOutcome | None = None
    """Of a pod that runs there is none."""
    message: str = ""
    """The sentence with its examples, as the pod's condition and Events have it."""
    job: str = ""
    queue: str = ""
    node: str = ""
    devices: list[GrantedDevice] = []
    age: float | None = None
    ahead: int = 0
    """Waiting pods whose turn comes before."""
    nodes: int = 0
    """All nodes: where the funnel begins."""
    about: str = ""
    """The pod that the funnel and the near misses are about, if it is another one of the job."""
    funnel: list[FunnelStep] = []
    misses: list[NearMiss] = []
    gang: GangFit | None = None
    share: QueueExplanation | None = None
    suggestions: list[Suggestion] = []
    impossible: str = ""
    """That no such change exists, and why."""
    evictions: list[Eviction] = []
    """The cheapest evictions that the rules allow."""
    not_evicted: dict[str, str] = {}
    """Why nobody is evicted for the pod, by action."""
    scores: dict[str, dict[str, float]] = {}
    """The best nodes with the score of each plugin, the best first."""
    fragmentation: FragmentationCost | None = None
    resources: dict[str, str] = {}
    """Of a node: what is free of each resource."""
    cards: list[CardExplanation] = []
    holders: list[PodHolding] = []
    members: dict[str, int] = {}
    """Of a job: its pods by status."""
    notes: list[str] = []
