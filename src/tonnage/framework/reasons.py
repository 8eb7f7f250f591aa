"""Registry of the reasons that built-in plugins and actions give: what each means and what takes it away.

A new reason is one entry here. Plugins of others may use any name; one that is not registered counts as one that
evictions can resolve.
"""

from enum import Enum
from typing import NamedTuple


class Remedy(Enum):
    """What takes a reason away."""

    ROOM = "other pods leave"
    """Evictions can resolve it: kube-scheduler may preempt for it."""
    TIME = "time passes, or further pods come"
    CHANGE = "somebody changes the pod, its job, its queue or the node"
    """It lasts, whatever pods come and go."""


class KnownReason(NamedTuple):
    """A reason as the registry has it."""

    means: str
    remedy: Remedy
    volcano: str = ""
    """The reason that Volcano gives in a PodGroup's conditions, where it has one for this."""
    kai: str = ""
    """The reason that KAI gives in a PodGroup's conditions, where it has one for this."""


_ROOM, _TIME, _CHANGE = Remedy.ROOM, Remedy.TIME, Remedy.CHANGE

_POD = {
    "InvalidRequest": KnownReason("The pod's request for cards can never mean anything.", _CHANGE),
    "SchedulingGated": KnownReason("The pod has scheduling gates.", _CHANGE),
    "InvalidNodeAffinity": KnownReason("Kubernetes would refuse the pod's required node affinity.", _CHANGE),
    "InvalidPodAffinity": KnownReason(
        "Kubernetes would refuse the pod's affinity or anti-affinity, or it has too many terms.", _CHANGE
    ),
    "InvalidTopologySpread": KnownReason("Kubernetes would refuse one of the pod's spread constraints.", _CHANGE),
    "ClaimNotFound": KnownReason("A claim of the pod does not exist.", _CHANGE),
    "ClaimBeingDeleted": KnownReason("A claim of the pod is being deleted.", _CHANGE),
    "ClaimLost": KnownReason("A claim of the pod has lost its volume.", _CHANGE),
    "ClaimInUse": KnownReason("Another pod uses a claim that one pod only may use.", _ROOM),
    "ClaimNotBound": KnownReason("A claim of the pod has no volume and gets none because of this pod.", _CHANGE),
    "VolumeNotFound": KnownReason("The volume of a claim does not exist.", _CHANGE),
    "InvalidDeviceScoringWeights": KnownReason("The pod's weights for scoring cards cannot be read.", _CHANGE),
    "ResourceQuotaNotFit": KnownReason("The namespace's pods would hold more of the cards than its quota.", _ROOM),
}
_NODE = {
    "InsufficientCpu": KnownReason("The node has too little CPU left.", _ROOM),
    "InsufficientMemory": KnownReason("The node has too little memory left.", _ROOM),
    "InsufficientEphemeralStorage": KnownReason("The node has too little local storage left.", _ROOM),
    "InsufficientPods": KnownReason("The node runs as many pods as it may.", _ROOM),
    "InsufficientExtendedResource": KnownReason("The node has too little of an extended resource left.", _ROOM),
    "NodeUnschedulable": KnownReason("The node is cordoned.", _CHANGE),
    "NodeAffinityMismatch": KnownReason("The pod's node selector or required affinity excludes the node.", _CHANGE),
    "UntoleratedTaint": KnownReason("The pod does not tolerate a taint of the node.", _CHANGE),
    "MigStrategyMismatch": KnownReason("The node's MIG strategy does not serve what the pod asks for.", _CHANGE),
    "HostPortConflict": KnownReason("Another pod uses a host port that the pod needs.", _ROOM),
    "VolumeNodeAffinityConflict": KnownReason("The node does not reach a volume of the pod.", _CHANGE),
    "VolumeZoneConflict": KnownReason("A volume of the pod is in another zone or region.", _CHANGE),
    "NoVolumeForNode": KnownReason("The node has no free volume for a claim, and none would be provisioned.", _CHANGE),
    "VolumesReserved": KnownReason("The node's free volumes for a claim are reserved for other claims.", _TIME),
    "InsufficientStorage": KnownReason("The class of a claim has too little storage left for the node.", _CHANGE),
    "ProvisionedElsewhere": KnownReason("The volume of a claim is being provisioned for another node.", _TIME),
    "VolumeLimitExceeded": KnownReason("The node has as many volumes of a driver attached as it can.", _ROOM),
    "RefusedByKubelet": KnownReason(
        "The node's kubelet refused such a pod, and nothing has changed on the node since.", _CHANGE
    ),
    "ReservedForScarceResource": KnownReason("The node keeps CPU and memory for its idle scarce resources.", _ROOM),
}
_CARDS = {
    "NodeUnregistered": KnownReason("The node registers no card of the vendor that the pod asks for.", _CHANGE),
    "CardNotHealth": KnownReason("The card is unhealthy.", _CHANGE),
    "CardCordoned": KnownReason("The node's annotation cordons the card.", _CHANGE),
    "ModeNotFit": KnownReason("The card is not cut or shared in the way that the pod asks for.", _CHANGE),
    "CardTypeMismatch": KnownReason("The pod excludes the card's type or mode.", _CHANGE),
    "CardUuidMismatch": KnownReason("The pod excludes the card's UUID.", _CHANGE),
    "CardTimeSlicingExhausted": KnownReason("As many containers share the card as may.", _ROOM),
    "ExclusiveDeviceAllocateConflict": KnownReason("The pod wants the card for itself and others use it.", _ROOM),
    "CardAppClassMismatch": KnownReason("The pods on the card are of another class than the pod.", _ROOM),
    "CardQosPolicyMismatch": KnownReason("The pods on the card have another QoS policy than the pod.", _ROOM),
    "CardTenancyMismatch": KnownReason("The pod cannot share the card with the pods on it.", _ROOM),
    "CardInsufficientMemory": KnownReason("The card has too little memory left.", _ROOM),
    "CardInsufficientCore": KnownReason("The card has too little compute left.", _ROOM),
    "CardComputeUnitsExhausted": KnownReason("The card's compute is given out entirely.", _ROOM),
    "NodeInsufficientDevice": KnownReason("The node has fewer cards than the pod asks for.", _CHANGE),
    "AllocatedCardsInsufficientRequest": KnownReason("Fewer cards of the node fit than the pod asks for.", _ROOM),
    "NumaNotFit": KnownReason("The cards that fit are not of one NUMA node.", _ROOM),
    "CardMigTopologyInfeasible": KnownReason("The card has no place left for a MIG instance of that size.", _ROOM),
    "CardSetInfeasible": KnownReason("The cards that fit make no set that the vendor hands out together.", _ROOM),
    "DevicePluginBusy": KnownReason("The node's device plugin has kept a pod waiting for too long.", _TIME),
    "DevicePluginSilent": KnownReason("The node's device plugin does not answer.", _TIME),
}
_OTHER_PODS = {
    "PodAffinityMismatch": KnownReason("The node's domain runs no pod that the pod must be near.", _TIME),
    "PodAntiAffinityConflict": KnownReason("The node's domain runs a pod that the pod must be far from.", _ROOM),
    "RepelledByAntiAffinity": KnownReason("The anti-affinity of a pod in the node's domain means this pod.", _ROOM),
    "TopologyLabelMissing": KnownReason("The node lacks a label over which the pod must be spread.", _CHANGE),
    "TopologySpreadExceeded": KnownReason("The node's domain has too many pods like this one.", _ROOM),
}
_JOB = {
    "GroupNotFound": KnownReason("The PodGroup that the pods name does not exist.", _CHANGE),
    "GroupExpected": KnownReason("A controller is about to put the pod into a PodGroup.", _TIME),
    "NotEnqueued": KnownReason("The action enqueue did not admit the job.", _ROOM),
    "InvalidGroup": KnownReason("The PodGroup contradicts itself or cannot be read.", _CHANGE),
    "NotEnoughPods": KnownReason("The job has fewer pods than its minimum.", _TIME, volcano="NotEnoughTasks"),
    "NotEnoughPodsOfRole": KnownReason(
        "A role of the job has fewer pods than its minimum.", _TIME, volcano="NotEnoughPodsOfTask"
    ),
    "NotEnoughPodsOfSubGroup": KnownReason(
        "A subgroup of the job has too few pods, or the job too few subgroups.", _TIME, volcano="NotEnoughPodsOfTask"
    ),
    "JobNotReady": KnownReason("Too few of the job's pods have a place for it to start.", _ROOM),
    "TopologyNotMet": KnownReason("No topology domain holds the pods that the job needs to start.", _ROOM),
    "InvalidTopology": KnownReason("The topology domain that the job requires does not exist.", _CHANGE),
    "EnoughPods": KnownReason("The job has as many pods as it may have.", _ROOM),
    "PreemptionDelayNotElapsed": KnownReason(
        "The job's PodGroup wants time to pass before others are evicted for it.",
        _TIME,
        kai="PreemptionDelayNotElapsed",
    ),
    "NotConsidered": KnownReason("None of the configured actions considers the pod.", _CHANGE),
    "NoRoomCanBeMade": KnownReason("Evicting all permitted victims would not make enough room.", _ROOM),
    "RoomContested": KnownReason("A pod that another scheduler is about to place would take the freed room.", _TIME),
    "SearchNotFinished": KnownReason("The search for victims reached its limit and goes on in the next cycle.", _TIME),
    "PromiseTakenBack": KnownReason("Another job took a place that was only promised to the pod.", _ROOM),
    "NotEnoughInAll": KnownReason("All nodes together have less free than the job asks for.", _ROOM),
    "MustNotBeMoved": KnownReason("Nobody is moved for a job that must not be moved itself.", _CHANGE),
}
_QUEUE = {
    "QueueNotFound": KnownReason("The job's queue does not exist.", _CHANGE, kai="QueueDoesNotExist"),
    "QueueClosed": KnownReason("The job's queue is closed.", _CHANGE),
    "QueueIsDivided": KnownReason("The job's queue has queues below it, and only those hold jobs.", _CHANGE),
    "QueueOverLimit": KnownReason("The queue would hold more than its limit.", _ROOM, kai="OverLimit"),
    "NonPreemptibleOverQuota": KnownReason(
        "The queue's non-preemptible jobs would hold more than its quota.", _ROOM, kai="NonPreemptibleOverQuota"
    ),
    "QueueOverused": KnownReason("The queue holds all that it deserves, of every resource.", _ROOM),
    "QueueBeyondDeserved": KnownReason("The queue would hold more than it deserves.", _ROOM),
    "QueueOverCapability": KnownReason("The queue would hold more than its capability.", _ROOM),
    "QueueBeyondFairShare": KnownReason("The queue would hold more than its fair share.", _ROOM),
}
PLUGIN_FAILED = "PluginFailed"
NOT_FINISHED = "SearchNotFinished"
KNOWN_REASONS = {
    **_POD,
    **_NODE,
    **_CARDS,
    **_OTHER_PODS,
    **_JOB,
    **_QUEUE,
    PLUGIN_FAILED: KnownReason("A plugin raised an error or gave no valid answer.", _ROOM),
}
_UNKNOWN = KnownReason("A plugin of somebody else gives it.", _ROOM)


def known_reason(name: str) -> KnownReason:
    """A reason's entry; a name that is not registered gets one that says nothing in particular."""
    return KNOWN_REASONS.get(name, _UNKNOWN)


def is_resolvable(name: str) -> bool:
    """Whether evictions can resolve a reason; kube-scheduler does not preempt on nodes where they cannot."""
    return known_reason(name).remedy is Remedy.ROOM


def is_lasting(name: str) -> bool:
    """Whether a reason stays whatever pods come and go."""
    return known_reason(name).remedy is Remedy.CHANGE
