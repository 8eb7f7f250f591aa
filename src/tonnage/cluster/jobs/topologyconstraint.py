"""Topology constraints of jobs: all pods within one value of a node label, or within one HyperNode."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tonnage.cluster.task import Task
from tonnage.model.annotations import TOPOLOGY_PREFERRED, TOPOLOGY_REQUIRED
from tonnage.model.group import NetworkTopology, TopologyConstraint
from tonnage.model.problem import annotation_field

KAI_TOPOLOGY = "kai.scheduler/topology"
KAI_REQUIRED = "kai.scheduler/topology-required-placement"
KAI_PREFERRED = "kai.scheduler/topology-preferred-placement"
SOFT = "soft"


class LabelConstraint(msgspec.Struct, gc=False, frozen=True):
    """The node labels of which all pods of a job must, or should, find one value."""

    required: str = ""
    """The label without whose common value the job waits."""
    preferred: str = ""
    topology: str | None = None
    """The Topology whose levels the labels are; nothing for plain node labels."""
    field: str = ""
    """The field of its object that has it."""

    @property
    def is_said(self) -> bool:
        return bool(self.required or self.preferred)


class HyperNodeConstraint(msgspec.Struct, gc=False, frozen=True):
    """The HyperNodes of which all pods of a job must, or should, share one."""

    hard: bool
    """Whether the job waits if there is none."""
    tier: int | None = None
    """The highest allowed tier; nothing for any tier."""
    tier_name: str = ""
    """The same by the name of the tier."""


def constrained(given: TopologyConstraint | None, annotations: Mapping[str, str]) -> LabelConstraint | None:
    """The constraint of a PodGroup: from its specification, else from its annotations."""
    return said_constraint(given) or annotated(annotations)


def said_constraint(given: TopologyConstraint | None) -> LabelConstraint | None:
    """The constraint in a specification."""
    if given is None:
        return None
    required, preferred = given.requiredTopologyLevel or "", given.preferredTopologyLevel or ""
    said = LabelConstraint(required, preferred, given.topology or "", "spec.topologyConstraint")
    return said if said.is_said else None


def annotated(annotations: Mapping[str, str]) -> LabelConstraint | None:
    """The constraint in annotations; Tonnage's own take precedence."""
    if TOPOLOGY_REQUIRED in annotations or TOPOLOGY_PREFERRED in annotations:
        field = annotation_field(TOPOLOGY_REQUIRED if TOPOLOGY_REQUIRED in annotations else TOPOLOGY_PREFERRED)
        said = LabelConstraint(
            annotations.get(TOPOLOGY_REQUIRED, ""), annotations.get(TOPOLOGY_PREFERRED, ""), None, field
        )
    elif KAI_REQUIRED in annotations or KAI_PREFERRED in annotations:
        field = annotation_field(KAI_REQUIRED if KAI_REQUIRED in annotations else KAI_PREFERRED)
        levels = annotations.get(KAI_REQUIRED, ""), annotations.get(KAI_PREFERRED, "")
        said = LabelConstraint(*levels, annotations.get(KAI_TOPOLOGY, ""), field)
    else:
        return None
    return said if said.is_said else None


def said_by_pods(tasks: Iterable[Task]) -> LabelConstraint | None:
    """The constraint of the first pod by name that has one."""
    found: tuple[str, LabelConstraint] | None = None
    for task in tasks:
        said = annotated(task.annotations) if task.annotations else None
        if said is not None and (found is None or task.key < found[0]):
            found = task.key, said
    return None if found is None else found[1]


def network_field(subgroup: Sequence[str] = ()) -> str:
    """The field of a Volcano PodGroup with the network topology of the group, or of the subgroups of a policy."""
    return f"spec.subGroupPolicy[{subgroup[0]}].networkTopology" if subgroup else "spec.networkTopology"


def in_network(given: NetworkTopology | None) -> HyperNodeConstraint | None:
    """The constraint of a Volcano PodGroup; a tier takes precedence over a tier's name."""
    if given is None:
        return None
    tier = given.highestTierAllowed
    return HyperNodeConstraint(given.mode != SOFT, tier, (given.highestTierName or "") if tier is None else "")
