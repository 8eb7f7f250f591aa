"""One run of one policy on one scene with one seed, and its measurements."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import OFFERED
from tonnage.model.resources import CPU
from tonnage.overview.usage import percent
from tonnage.plugins.fragmentation.fragments import SCALE, Fragments
from tonnage.plugins.helpers.cardshares import WHOLE
from tonnage.simulator.scene import Scene, plain_name
from tonnage.simulator.studies.results import ClusterFrame, NodeFrame

PERCENTILES = (50, 90, 95, 99, 100)
_DIGITS = 4


class Run(msgspec.Struct, frozen=True):
    """The measurements of a run."""

    checkpoints: list[str]
    curves: dict[str, list[float]]
    """Each measure at every checkpoint."""
    failures: dict[str, int]
    """By reason, pods that failed in a fill until it is compared, or never ran in a replay."""
    waiting_time: dict[str, float]
    completion_time: dict[str, float]
    nodes: int
    gpus: int
    pods: int
    picture: ClusterFrame | None = None


class Meter:
    """Samples a cluster at checkpoints."""

    def __init__(self, scene: Scene, cluster: Cluster, picture_at: str) -> None:
        self._cluster = cluster
        self._fragments = Fragments(cluster, scene.typical_pods())
        cards = cluster.all_nodes().cards
        self.gpus = int((cards.model > 0).sum())
        self._picture_at = picture_at
        self._picture: ClusterFrame | None = None
        self._checkpoints: list[str] = []
        self._curves: dict[str, list[float]] = {}

    def look(self, checkpoint: str, counts: Mapping[str, float]) -> None:
        """Sample the cluster, and add the figures that only the caller knows."""
        figures = {**self._figures(), **counts}
        self._checkpoints.append(checkpoint)
        for name, value in figures.items():
            self._curves.setdefault(name, []).append(round(value, _DIGITS))
        if checkpoint == self._picture_at:
            self._picture = ClusterFrame(checkpoint, self._nodes())

    def _figures(self) -> dict[str, float]:
        nodes = self._cluster.all_nodes()
        cards = nodes.cards
        exists = cards.model > 0
        self._fragments.update()
        left = self._fragments.shares
        free = float(self._fragments.free.sum() / WHOLE)
        fragments = float(self._fragments.fragments.sum() / SCALE)
        idle = exists & (left == WHOLE)
        has_cards = exists.any(axis=0)
        full = has_cards & (self._fragments.free == 0)
        cpu = nodes.columns.resources[CPU]
        offered = float(nodes.amounts[OFFERED, cpu].sum())
        return {
            "gpu_allocated": percent(self.gpus - free, self.gpus),
            "fragmentation_of_all": percent(fragments, self.gpus),
            "fragmentation_of_free": percent(fragments, free),
            "nodes_free": float((has_cards & (idle == exists).all(axis=0)).sum()),
            "gpus_free": float(idle.sum()),
            "cpu_stranded": percent(float(nodes.free[cpu].sum(where=full)), offered),
        }

    def _nodes(self) -> list[NodeFrame]:
        columns = self._cluster.columns
        nodes = self._cluster.all_nodes()
        self._fragments.update()
        left, cpu = self._fragments.shares / WHOLE, columns.resources[CPU]
        offered = nodes.amounts[OFFERED, cpu]
        used = 1 - np.divide(nodes.free[cpu], offered, out=np.ones(len(nodes)), where=offered > 0)
        pictures = [
            NodeFrame(
                plain_name(state.name),
                state.devices[0].type if state.devices else "",
                [round(1 - share, 3) for share in left[: len(state.devices), row].tolist()],
                round(float(used[row]), 3),
            )
            for row, state in enumerate(self._cluster.states)
        ]
        return sorted(pictures, key=lambda picture: picture.name)

    def result(
        self,
        failures: Counter[str],
        pods: int,
        waits: Sequence[float] = (),
        completions: Sequence[float] = (),
    ) -> Run:
        """The run with all its samples."""
        return Run(
            self._checkpoints,
            self._curves,
            dict(sorted(failures.items(), key=lambda item: (-item[1], item[0]))),
            _percentiles(waits),
            _percentiles(completions),
            len(self._cluster.nodes),
            self.gpus,
            pods,
            self._picture,
        )


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Nearest-rank percentiles and the mean; nothing without pods."""
    if not seconds:
        return {}
    ordered = sorted(seconds)
    found = {str(part): ordered[math.ceil(len(ordered) * part / 100) - 1] for part in PERCENTILES}
    found["mean"] = sum(ordered) / len(ordered)
    return {name: round(value, 3) for name, value in found.items()}
