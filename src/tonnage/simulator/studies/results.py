"""What came of a simulation, for people and programs: per policy, each measure at every checkpoint over all seeds."""

import msgspec

Checkpoint = str
"""Where on the axis something was measured: percent of arrived demand, or virtual seconds, as text."""


class SeedSpread(msgspec.Struct, frozen=True):
    """A measure over several seeds."""

    mean: float
    sd: float = 0.0


Curve = dict[Checkpoint, SeedSpread]


class NodeFrame(msgspec.Struct, frozen=True):
    """A node at one moment: how much of each card is in use, from 0 to 1."""

    name: str
    model: str
    cards: list[float]
    cpu: float = 0.0


class ClusterFrame(msgspec.Struct, frozen=True):
    """The cluster at one moment of the first seed's run."""

    checkpoint: Checkpoint
    nodes: list[NodeFrame]


class PolicyResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one policy made of the workload; percentages are of the whole cluster unless their name says otherwise."""

    gpu_allocated: Curve
    fragmentation_of_all: Curve = {}
    fragmentation_of_free: Curve = {}
    pods_failed: Curve = {}
    """Pods that were dropped so far."""
    pods_waiting: Curve = {}
    nodes_free: Curve = {}
    """Nodes with cards of which none is in use."""
    gpus_free: Curve = {}
    """Cards of which nothing is in use."""
    cpu_stranded: Curve = {}
    """Processors on nodes whose cards are full, in percent of all."""
    failures: dict[str, SeedSpread] = {}
    """Pods that failed or still wait at the end, by reason."""
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
    """What was simulated, in a few words."""
    command: str
    """What to type to get the same again."""
    versions: dict[str, str]
    seeds: list[int]
    nodes: int
    gpus: int
    pods: int
    bound: dict[Checkpoint, float] = {}
    """Percent of GPUs that no policy can allocate more than."""
