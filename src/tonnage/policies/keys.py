"""The registry of annotations and labels: each key with its kind of object, its meaning and its writers."""

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from tonnage.binder.binding import TIME_ANNOTATION
from tonnage.binder.handover import BIND_TIME, NODE_ANNOTATION
from tonnage.cluster.jobs import group, grouping, job, subgroups, topologyconstraint
from tonnage.devices import _kai, metax, mthreads, nvidia
from tonnage.devices.base import Vendor
from tonnage.extender.peers import ROLE
from tonnage.extender.webhook.configuration import IGNORE_LABEL
from tonnage.lab.podstatus import RUN_SECONDS
from tonnage.manifests.owners import volcanojob
from tonnage.model import annotations
from tonnage.model.annotations import BIND_PHASE, LOCK
from tonnage.plugins.gpus import gpupolicy
from tonnage.plugins.jobs import kubeflow, ray, taskorder
from tonnage.plugins.scoring import nodepolicy, resourcestrategyfit

POD, NODE, POD_GROUP = "Pod", "Node", "PodGroup"
ANY_ENDING = "*"


class Writer(Enum):
    """A party that writes annotations or labels, in words that follow "written by"."""

    AUTHOR = "its author"
    WEBHOOK = "the webhook, under its author's name"
    BINDING = "the scheduler, in the Binding"
    SCHEDULER = "the scheduler"
    PLUGIN = "the node's device plugin or agent"
    ADMINISTRATOR = "administrators"
    KAI = "KAI"


class MetadataKey(msgspec.Struct, gc=False, frozen=True):
    """The key of an annotation or a label of one kind of objects."""

    key: str
    """A final `*` stands for any ending."""
    kind: str
    writers: tuple[Writer, ...]
    meaning: str
    is_label: bool = False

    @property
    def is_reserved(self) -> bool:
        """Whether the object's author has no business writing it."""
        return Writer.AUTHOR not in self.writers and Writer.WEBHOOK not in self.writers


def registry(vendors: Iterable[Vendor]) -> tuple[MetadataKey, ...]:
    """All keys, those of the vendors included, each once."""
    found: dict[tuple[str, bool, str], MetadataKey] = {}
    for key in (*KEYS, *(key for vendor in vendors for key in _vendor_keys(vendor))):
        found.setdefault((key.kind, key.is_label, key.key), key)
    return tuple(found.values())


def reserved(keys: Iterable[MetadataKey], kind: str, labels: bool = False) -> tuple[str, ...]:
    """The reserved annotations or labels of a kind, sorted."""
    return tuple(sorted(key.key for key in keys if key.is_reserved and key.kind == kind and key.is_label == labels))


def written_by(writer: Writer, keys: Iterable[MetadataKey], kind: str, labels: bool = False) -> tuple[str, ...]:
    """The annotations or labels of a kind that a party writes, sorted."""
    found = (key.key for key in keys if writer in key.writers and key.kind == kind and key.is_label == labels)
    return tuple(sorted(found))


def _pod(writers: Sequence[Writer], meaning: str, *keys: str, is_label: bool = False) -> list[MetadataKey]:
    return [MetadataKey(key, POD, tuple(writers), meaning, is_label) for key in keys if key]


def _node(writers: Sequence[Writer], meaning: str, *keys: str, is_label: bool = False) -> list[MetadataKey]:
    return [MetadataKey(key, NODE, tuple(writers), meaning, is_label) for key in keys if key]


def _group(writers: Sequence[Writer], meaning: str, *keys: str, is_label: bool = False) -> list[MetadataKey]:
    return [MetadataKey(key, POD_GROUP, tuple(writers), meaning, is_label) for key in keys]


def _vendor_keys(vendor: Vendor) -> list[MetadataKey]:
    name = vendor.name
    return [
        *_pod([Writer.BINDING], f"the record of the pod's {name} cards", vendor.allocated),
        *_pod(_HANDED, f"{name} cards that the device plugin has not handed out yet", vendor.to_allocate),
        *_pod(_HANDED, f"facts for the device plugin of {name} cards", *vendor.plugin_annotations),
        *_pod([Writer.AUTHOR], f"a wish about {name} cards", *vendor.policy_annotations, *vendor.sharing_annotations),
        *_node([Writer.PLUGIN], f"the node's {name} cards", *vendor.register_annotations),
        *_node([Writer.SCHEDULER, Writer.PLUGIN], f"the handshake about {name} cards", vendor.handshake_annotation),
        *_node(
            [Writer.SCHEDULER, Writer.PLUGIN], f"a pod waits for its {name} cards since then", vendor.lock_annotation
        ),
    ]


_HANDED = (Writer.BINDING, Writer.PLUGIN)
_WISH = (Writer.AUTHOR,)
_OF_VOLCANO_JOBS = (volcanojob.JOB_NAME, volcanojob.JOB_NAMESPACE, volcanojob.QUEUE_NAME, volcanojob.TASK_INDEX)
_TOPOLOGY = (
    annotations.TOPOLOGY_REQUIRED,
    annotations.TOPOLOGY_PREFERRED,
    topologyconstraint.KAI_TOPOLOGY,
    topologyconstraint.KAI_REQUIRED,
    topologyconstraint.KAI_PREFERRED,
)
KEYS: tuple[MetadataKey, ...] = (
    # Of pods, by schedulers and device plugins.
    *_pod([Writer.BINDING], "the node that the devices are on", NODE_ANNOTATION),
    *_pod([Writer.SCHEDULER], "the node that the devices are on", NODE_ANNOTATION, is_label=True),
    *_pod([Writer.BINDING], "when the devices were chosen", TIME_ANNOTATION),
    *_pod(_HANDED, "whether the device plugin has handed the devices out", BIND_PHASE),
    *_pod([Writer.BINDING], "when the pod was bound", BIND_TIME),
    *_pod([Writer.SCHEDULER], "when a waiting pod was last called", annotations.REQUEUED),
    *_pod([Writer.SCHEDULER], "which replica of the extender leads", ROLE, is_label=True),
    *_pod([Writer.KAI], "the group of pods that share a card", _kai.GROUP, f"{_kai.GROUP}/{ANY_ENDING}", is_label=True),
    *_pod([Writer.KAI], "the card that a reservation pod keeps", _kai.RESERVED),
    # Of pods, by the webhook.
    *_pod([Writer.WEBHOOK], "the number of Moore Threads cards", mthreads.REQUEST_NUMBER),
    *_pod([Writer.AUTHOR, Writer.WEBHOOK], "how a MetaX sGPU is shared", metax.QOS),
    # Of pods, by their authors.
    *_pod(_WISH, "the queue", annotations.QUEUE, group.VOLCANO_QUEUE),
    *_pod(_WISH, "the queue", group.KAI_QUEUE, is_label=True),
    *_pod(_WISH, "the PodGroup", group.VOLCANO_GROUP, group.KAI_GROUP),
    *_pod(_WISH, "the PodGroup", group.COSCHEDULING_GROUP, is_label=True),
    *_pod(_WISH, "the size of the gang", annotations.MIN_MEMBERS, annotations.MAX_MEMBERS, grouping.VOLCANO_MINIMUM),
    *_pod(_WISH, "the role within the gang", group.VOLCANO_ROLE),
    *_pod(_WISH, "the role within the gang", group.VOLCANO_ROLE, subgroups.KAI_ROLE, is_label=True),
    *_pod(_WISH, "the role within the job", kubeflow.LABEL, ray.LABEL, taskorder.LABEL, is_label=True),
    *_pod(_WISH, "the place in a Volcano Job", *_OF_VOLCANO_JOBS),
    *_pod(_WISH, "the place in a Volcano Job", *_OF_VOLCANO_JOBS, volcanojob.PARTITION, is_label=True),
    *_pod(_WISH, "whether it may be preempted", job.VOLCANO_KEY),
    *_pod(_WISH, "whether it may be preempted", job.VOLCANO_KEY, job.KAI_LABEL, is_label=True),
    *_pod(_WISH, "the topology", *_TOPOLOGY),
    *_pod(_WISH, "when it last saved its work", annotations.CHECKPOINTED),
    *_pod(_WISH, "whether a plan may move it", annotations.SAFE_TO_EVICT),
    *_pod(_WISH, "the container that gets the share of a card", _kai.CONTAINER),
    *_pod(_WISH, "whether the webhook leaves it alone", IGNORE_LABEL, is_label=True),
    *_pod(_WISH, "for how many seconds the lab plays that it runs", RUN_SECONDS),
    *_pod(_WISH, "how nodes are preferred", nodepolicy.ANNOTATION),
    *_pod(_WISH, "how cards are preferred", gpupolicy.ANNOTATION, gpupolicy.WEIGHTS_ANNOTATION),
    *_pod(_WISH, "how nodes are scored", resourcestrategyfit.TYPE_ANNOTATION, resourcestrategyfit.WEIGHT_ANNOTATION),
    # Of PodGroups.
    *_group([Writer.SCHEDULER, Writer.KAI], "since when the gang has lacked pods", group.STALE_SINCE),
    *_group([Writer.SCHEDULER, Writer.KAI], "when a pod of the gang was last evicted", group.LAST_EVICTION),
    *_group([Writer.KAI], "when the gang last started", group.LAST_START),
    *_group(_WISH, "the queue", group.KAI_QUEUE, is_label=True),
    *_group(_WISH, "how long it may wait", *group.SLA_WAITING_TIMES),
    *_group(_WISH, "the size of the gang", annotations.MAX_MEMBERS),
    *_group(_WISH, "the topology", *_TOPOLOGY),
    # Of nodes.
    *_node([Writer.SCHEDULER, Writer.PLUGIN], "the pod that is being handed its devices", LOCK),
    *_node([Writer.PLUGIN], "the agent that serves the node's cards", annotations.AGENT),
    *_node([Writer.PLUGIN], "the cards are invented, for trials", annotations.INVENTED_CARDS, is_label=True),
    *_node([Writer.ADMINISTRATOR], "cards that take nothing new", nvidia.CORDON),
)
