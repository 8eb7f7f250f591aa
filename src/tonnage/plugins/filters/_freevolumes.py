"""Free volumes: those that no claim has, by class, with the nodes that reach each of them.

Both are worked out once and kept until storage objects, nodes or labels change, not until pods come and go.
"""

from collections.abc import Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Nodes
from tonnage.model.podselector import meets, requirements
from tonnage.model.selection import SelectionError
from tonnage.model.storage import PersistentVolume, PersistentVolumeClaim
from tonnage.plugins.filters._claims import storage
from tonnage.plugins.helpers.nodeterms import reaching_nodes

_FILESYSTEM = "Filesystem"
_FREE_PHASES = (None, "Pending", "Available")


class FreeVolumes:
    """The volumes that claims may be bound to."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known = cluster.surroundings
        self._state = (-1, -1)
        self._by_class: dict[str, list[PersistentVolume]] = {}
        """Free volumes and those that are bound in advance, the smallest first."""
        self._reached: dict[str, Array] = {}
        """The nodes that reach each volume."""

    def matching(self, claim: PersistentVolumeClaim) -> tuple[Sequence[PersistentVolume], bool]:
        """The volumes that the claim may get, the best first; and whether it can get no others.

        A volume that names the claim is the only one, because Kubernetes' controller binds the two.
        """
        self._refresh()
        volumes = self._by_class.get(claim.spec.storageClassName or "", ())
        own = [v for v in volumes if v.spec.claimRef is not None and v.spec.claimRef.names(claim)]
        if own:
            return own, True
        wanted, spec = storage(claim.spec.resources.requests), claim.spec
        try:
            selector = requirements(spec.selector) if spec.selector is not None else ()
        except SelectionError:
            return (), False
        found = [
            volume
            for volume in volumes
            if volume.spec.claimRef is None
            and (volume.spec.volumeMode or _FILESYSTEM) == (spec.volumeMode or _FILESYSTEM)
            and set(spec.accessModes or ()) <= set(volume.spec.accessModes or ())
            and storage(volume.spec.capacity) >= wanted
            and meets(volume.metadata.labels or {}, selector)
        ]
        return found, False

    def reached(self, volume: PersistentVolume, nodes: Nodes) -> Array:
        """True for nodes that reach a volume."""
        self._refresh()
        name = volume.metadata.name
        known = self._reached.get(name)
        if known is None:
            known = self._reached[name] = reaching_nodes(self._cluster, volume, Nodes(self._cluster.columns))
        return nodes.pick(known)

    def _refresh(self) -> None:
        state = self._cluster.columns.layout, self._cluster.topology.version
        if state == self._state:
            return
        self._state = state
        self._reached.clear()
        self._by_class.clear()
        bound = {claim.spec.volumeName: claim for claim in self._known.claims.values() if claim.spec.volumeName}
        for name, volume in self._known.volumes.items():
            owner = volume.spec.claimRef
            is_bound = name in bound and (owner is None or owner.names(bound[name]))
            if not is_bound and volume.status.phase in _FREE_PHASES and volume.metadata.deletionTimestamp is None:
                self._by_class.setdefault(volume.spec.storageClassName or "", []).append(volume)
        for volumes in self._by_class.values():
            volumes.sort(key=lambda volume: (storage(volume.spec.capacity), volume.metadata.name))
