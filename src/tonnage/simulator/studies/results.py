"""The results of a simulation: per policy, each measure at every checkpoint over all seeds."""

import msgspec

Checkpoint = str
"""The position of a measurement: percent of arrived demand, or virtual seconds, as text."""


class SeedSpread(msgspec.Struct, frozen=True):
    """A measure over several seeds."""

    mean: float
    sd: float = 0.0


Curve = dict[Checkpoint, SeedSpread]


CURVES = (
    "gpu_allocated",
    "fragmentation_of_all",
    "fragmentation_of_free",
    "pods_failed",
    "pods_waiting",
    "nodes_free",
    "gpus_free",
    "cpu_stranded",
)
"""The measures that a policy has at every checkpoint."""


class NodeFrame(msgspec.Struct, frozen=True):
    """A node at one moment: the used part of each card, from 0 to 1."""

    name: str
    model: str
    cards: list[float]
    cpu: float = 0.0


class ClusterFrame(msgspec.Struct, frozen=True):
    """The cluster at one moment of the first seed's run."""

    checkpoint: Checkpoint
    nodes: list[NodeFrame]


class PolicyResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one policy; percentages are of the whole cluster unless their name says otherwise."""

    gpu_allocated: Curve
    compared: dict[str, SeedSpread] = {}
    """The figures by which policies are compared, by measure: at `compared_at` of the results."""
    fragmentation_of_all: Curve = {}
    fragmentation_of_free: Curve = {}
    pods_failed: Curve = {}
    """Pods dropped so far."""
    pods_waiting: Curve = {}
    nodes_free: Curve = {}
    """Nodes whose cards are all idle."""
    gpus_free: Curve = {}
    """Idle cards."""
    cpu_stranded: Curve = {}
    """Free CPU on nodes whose cards are full, in percent of all CPU."""
    failures: dict[str, SeedSpread] = {}
    """By reason, pods that failed in a fill until it is compared, or never ran in a replay."""
    waiting_time: dict[str, SeedSpread] = {}
    """Seconds from arrival to start, by percentile."""
    completion_time: dict[str, SeedSpread] = {}
    """Seconds from arrival to end, by percentile."""
    picture: ClusterFrame | None = None


class Results(msgspec.Struct, frozen=True, omit_defaults=True):
    """One comparison of policies on one workload."""

    policies: dict[str, PolicyResult]
    mode: str
    """fill or replay."""
    workload: str
    """The scene in a few words."""
    command: str
    """The command that reproduces the results."""
    versions: dict[str, str]
    seeds: list[int]
    nodes: int
    gpus: int
    pods: int
    compared_at: Checkpoint = ""
    """The checkpoint at which policies are compared, or `average` for averages over time."""
    bound: dict[Checkpoint, float] = {}
    """Percent of GPUs, the upper bound of any policy."""
