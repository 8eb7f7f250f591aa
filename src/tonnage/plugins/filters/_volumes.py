"""Volumes of pods: which nodes reach those that claims are bound to, and attach limits.

A bound volume names the nodes that reach it by node affinity and zone labels.
"""

from collections.abc import Iterator

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.task import Task
from tonnage.model.selection import Expression
from tonnage.model.storage import PersistentVolume, PersistentVolumeClaim
from tonnage.plugins.filters._claims import Claims
from tonnage.plugins.helpers.nodeterms import meeting_all, reaching_nodes

REASONS = ("VolumeNodeAffinityConflict", "VolumeZoneConflict", "VolumeLimitExceeded")
_UNREACHED, _OTHER_ZONE, _FULL = 1, 2, 3
_ZONE_LABELS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Topology labels of volumes and nodes, and the current name of each."""
_BETWEEN_ZONES = "__"


class Volumes:
    """Rejects nodes that cannot provide a pod's volumes."""

    reasons = REASONS

    def __init__(self, cluster: Cluster, binding: bool = True, zones: bool = True, limits: bool = True) -> None:
        self._cluster = cluster
        self._claims = Claims(cluster)
        self._attached = AttachedVolumes(cluster, self._claims)
        self._binding, self._zones, self._limits = binding, zones, limits

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        claims = list(self._claims.of(task))
        if not claims:
            return None
        codes = np.zeros(len(nodes), np.uint8)
        # The first reason counts, so it is written last.
        if self._limits:
            for driver in self._drivers(claims):
                codes[self._too_many(task, driver, nodes)] = _FULL
        for claim in reversed(claims):
            volume = self._claims.volume(claim)
            if volume is not None:
                if self._zones:
                    codes[~self._same_zone(volume, nodes)] = _OTHER_ZONE
                if self._binding:
                    codes[~reaching_nodes(self._cluster, volume, nodes)] = _UNREACHED
        return codes

    def _drivers(self, claims: list[PersistentVolumeClaim]) -> list[str]:
        drivers = dict.fromkeys(self._claims.driver(claim.key) for claim in claims)
        return [driver for driver in drivers if driver]

    def _same_zone(self, volume: PersistentVolume, nodes: Nodes) -> Array:
        """True for nodes that reach the volume; nodes without topology labels reach any."""
        fine = np.ones(len(nodes), np.bool_)
        for key, value in (volume.metadata.labels or {}).items():
            if key in _ZONE_LABELS:
                values = value.split(_BETWEEN_ZONES)
                here = self._where(Expression(key, "In", values), nodes)
                today = self._where(Expression(_ZONE_LABELS[key], "In", values), nodes)
                fine &= np.where(self._where(Expression(key, "Exists"), nodes), here, today)
        if fine.all():
            return fine
        silent = meeting_all(self._cluster, [Expression(key, "DoesNotExist") for key in _ZONE_LABELS], nodes)
        return np.asarray(fine | silent)

    def _where(self, expression: Expression, nodes: Nodes) -> Array:
        return meeting_all(self._cluster, [expression], nodes)

    def _too_many(self, task: Task, driver: str, nodes: Nodes) -> Array:
        """True for nodes where the pod's volumes of a driver would exceed the attach limit."""
        new = self._attached.new(task, driver)
        limit = nodes.pick(self._attached.limit(driver))
        return np.asarray(nodes.pick(self._attached.count(driver) + new) > limit) & (nodes.pick(new) > 0)

    # -- messages

    def message(self, task: Task, row: int, code: int) -> str:
        name = self._cluster.states[row].name
        return f"{name}: {next(self._sentences(task, row, code), 'its volumes cannot be used there')}"

    def _sentences(self, task: Task, row: int, code: int) -> Iterator[str]:
        here = Nodes(self._cluster.columns, np.array([row]))
        claims = list(self._claims.of(task))
        for claim in claims:
            volume = self._claims.volume(claim)
            if code == _UNREACHED and volume is not None and not reaching_nodes(self._cluster, volume, here)[0]:
                yield f"the volume {volume.metadata.name} of claim {claim.key} cannot be reached from there"
            if code == _OTHER_ZONE and volume is not None and not self._same_zone(volume, here)[0]:
                zones = {key: value for key, value in (volume.metadata.labels or {}).items() if key in _ZONE_LABELS}
                where = ", ".join(f"{key}={value}" for key, value in sorted(zones.items()))
                yield f"the volume {volume.metadata.name} of claim {claim.key} is in {where}"
        for driver in self._drivers(claims) if code == _FULL else ():
            if self._too_many(task, driver, here)[0]:
                have, new = int(self._attached.count(driver)[row]), int(self._attached.new(task, driver)[row])
                limit = int(self._attached.limit(driver)[row])
                yield f"has {have} of {limit} volumes of {driver}, and the pod needs {new} more"


class AttachedVolumes:
    """Attached volumes by driver and node; only changed nodes are recounted."""

    def __init__(self, cluster: Cluster, claims: Claims) -> None:
        self._cluster = cluster
        self._claims = claims
        self._layout = -1
        self._clock = -1
        self._counts: dict[str, Array] = {}
        self._limits: dict[str, Array] = {}

    def count(self, driver: str) -> Array:
        """Distinct volumes of a driver on each node."""
        self._refresh()
        return self._column(driver)

    def limit(self, driver: str) -> Array:
        """The attach limit of a driver on each node; infinite where none is known."""
        self._refresh()
        known = self._limits.get(driver)
        if known is None:
            limits, states = self._cluster.surroundings.limits, self._cluster.states
            said = [limits.get(state.name, {}).get(driver, np.inf) for state in states]
            known = self._limits[driver] = np.array(said, np.float64)
        return known

    def new(self, task: Task, driver: str) -> Array:
        """How many of the pod's volumes are not attached to each node yet."""
        assert task.rules is not None
        placed, nodes = self._cluster.placed, self._cluster.nodes
        wanted = [key for key in dict.fromkeys(task.rules.claims) if self._claims.driver(key) == driver]
        new = np.full(self._cluster.columns.size, len(wanted), np.int64)
        for key in wanted:
            for name in set(placed.users.get(key, {}).values()):
                if name in nodes:
                    new[nodes[name].row] -= 1
        return new

    def _refresh(self) -> None:
        columns = self._cluster.columns
        if self._layout != columns.layout:
            self._layout, self._clock = columns.layout, -1
            self._counts.clear()
            self._limits.clear()
        if self._clock == columns.clock:
            return
        for row in (columns.version > np.int64(self._clock)).nonzero()[0].tolist():
            self._recount(row)
        self._clock = columns.clock

    def _recount(self, row: int) -> None:
        spots = self._cluster.placed.pods
        claims: dict[str, None] = {}
        for key in self._cluster.states[row].holdings:
            spot = spots.get(key)
            if spot is not None and spot[0].rules is not None:
                claims |= dict.fromkeys(spot[0].rules.claims)
        for column in self._counts.values():
            column[row] = 0
        for key in claims:
            driver = self._claims.driver(key)
            if driver:
                self._column(driver)[row] += 1

    def _column(self, driver: str) -> Array:
        known = self._counts.get(driver)
        if known is None:
            known = self._counts[driver] = np.zeros(self._cluster.columns.size, np.int64)
        return known
