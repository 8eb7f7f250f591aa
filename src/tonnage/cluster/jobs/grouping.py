"""Signs that a controller is about to put a pod into a PodGroup, by what the pod itself shows.

Volcano's and KAI's controllers make the groups of pods after the pods, and tell each pod its group by an annotation. A
pod that was created by a controller of the workload may become one of a gang; one that nobody controls gets a group of
its own, which changes nothing for it.
"""

from typing import NamedTuple

from tonnage.cluster.jobs.group import link_of
from tonnage.cluster.jobs.job import VOLCANO
from tonnage.model.group import KaiPodGroup, VolcanoPodGroup
from tonnage.model.pod import Pod

KAI = "kai-scheduler"
"""The scheduler name whose pods KAI's controller puts into groups."""
VOLCANO_OWNERS = frozenset(("ReplicaSet", "StatefulSet", "DaemonSet", "Job"))
"""The owners whose annotations Volcano's controller reads; pods of all others get a group with a minimum of 1."""
VOLCANO_MINIMUM = "scheduling.volcano.sh/group-min-member"


class ExpectedGroup(NamedTuple):
    """A group that a controller is about to make."""

    kind: type[KaiPodGroup] | type[VolcanoPodGroup]
    owner: str
    """The kind and name of the pod's owner."""

    @property
    def maker(self) -> str:
        """Whose controller makes it."""
        return "KAI" if self.kind is KaiPodGroup else "Volcano"


def expected_group(pod: Pod) -> ExpectedGroup | None:
    """The group that a pod is about to get where the kind is installed; nothing if it has one or shows no sign."""
    owner = pod.metadata.controller
    if owner is None or link_of(pod) is not None:
        return None
    name = f"{owner.kind} {owner.name}"
    if pod.spec.schedulerName == KAI:
        return ExpectedGroup(KaiPodGroup, name)
    is_named = pod.spec.schedulerName == VOLCANO or VOLCANO_MINIMUM in pod.annotations
    return ExpectedGroup(VolcanoPodGroup, name) if is_named and owner.kind in VOLCANO_OWNERS else None
