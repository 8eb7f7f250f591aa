"""Predicates beyond resources, cards and node selection: host ports, volumes, MIG nodes, pod affinity, spread.

Host ports, bound volumes and MIG strategies depend on the node alone and are evaluated row by row. Inter-pod affinity,
topology spread, and volumes that claims are yet to get depend on the pods of all nodes.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.podrules import AFFINITY, SPREAD
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.points import UNCONCERNED, Reads
from tonnage.framework.session import Session
from tonnage.model.problem import Problem
from tonnage.plugins.filters._claims import Claims
from tonnage.plugins.filters._hostports import HostPorts
from tonnage.plugins.filters._interpodaffinity import InterPodAffinity
from tonnage.plugins.filters._mignodes import REASONS as MIG_REASONS
from tonnage.plugins.filters._mignodes import MigNodes
from tonnage.plugins.filters._topologyspread import TopologySpread
from tonnage.plugins.filters._volumebinding import VolumeBinding
from tonnage.plugins.filters._volumes import Volumes

Warn = Callable[[str, str], None]

_SPELLINGS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True)
_SPELLINGS |= dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False)
"""Spellings of booleans that Volcano accepts."""
_ALWAYS = "has no effect here: node selection is always on"
_PROPORTIONAL = "has no effect here: resource-strategy-fit keeps CPU and memory for cards"
_WITHOUT_EFFECT = {
    "predicate.NodeAffinityEnable": (False, _ALWAYS),
    "predicate.TaintTolerationEnable": (False, _ALWAYS),
    "predicate.CacheEnable": (False, "has no effect here: answers are always kept until the node changes"),
    "predicate.ProportionalEnable": (True, _PROPORTIONAL),
    "predicate.DynamicResourceAllocationEnable": (True, "has no effect here: resource claims are not looked at yet"),
    "predicate.GPUSharingEnable": (False, "has no effect here: sharing cards is always on"),
    "predicate.GPUNumberEnable": (False, "has no effect here: counting cards is always on"),
    "predicate.NodeLockEnable": (True, "has no effect here: nodes are not locked while a pod is placed"),
}
"""Volcano's switches without effect here, with the value that asks for another behaviour."""
_RESOURCES = "predicate.resources"
_NOT_SCORED = "has no effect here: volumes are not scored"
_VOLUME_BINDING = {
    "volumebinding.weight": _NOT_SCORED,
    "volumebinding.shape": _NOT_SCORED,
    "volumebinding.bindTimeoutSeconds": "has no effect here: give the flag --volume-timeout of tonnage scheduler",
}


class Rule(Protocol):
    """A rule that may reject nodes."""

    @property
    def reasons(self) -> Sequence[str]:
        """The reasons of the codes from 1 on."""

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        """A code for each node, 0 where the pod fits; nothing if it fits on all of them."""

    def message(self, task: Task, row: int, code: int) -> str:
        """The message about one node that the rule rejects."""


class Predicates(Plugin, trusted=True):
    """Rejects nodes because of host ports, volumes, MIG strategies and the pods already placed."""

    name = "predicates"

    class Arguments(PluginArguments):
        """The rules that are switched on, under Volcano's names in a configuration."""

        ports: bool = msgspec.field(name="predicate.NodePortsEnable", default=True)
        pod_affinity: bool = msgspec.field(name="predicate.PodAffinityEnable", default=True)
        spread: bool = msgspec.field(name="predicate.PodTopologySpreadEnable", default=True)
        volume_binding: bool = msgspec.field(name="predicate.VolumeBindingEnable", default=True)
        volume_zones: bool = msgspec.field(name="predicate.VolumeZoneEnable", default=True)
        volume_limits: bool = msgspec.field(name="predicate.NodeVolumeLimitsEnable", default=True)

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Warn) -> PluginArguments:
        """Volcano's switches, with a warning for each that has no effect here."""
        left: dict[str, Any] = {}
        for key, written in given.items():
            value = _SPELLINGS.get(written, written) if isinstance(written, str) else written
            if key in _WITHOUT_EFFECT:
                if not isinstance(value, bool):
                    raise ArgumentError(key, f"expected true or false, got {written!r}")
                asks, message = _WITHOUT_EFFECT[key]
                if value is asks:
                    warn(key, message)
            elif key == _RESOURCES or key.startswith(f"{_RESOURCES}."):
                warn(key, _PROPORTIONAL)
            elif key in _VOLUME_BINDING:
                warn(key, _VOLUME_BINDING[key])
            else:
                left[key] = value
        return super().read_arguments(left, warn)

    def on_session_open(self, session: Session) -> None:
        cluster, args = session.cluster, self.args
        self._session = session
        self._placed = cluster.placed
        self._known = cluster.surroundings
        self._claims = Claims(cluster)
        self._told: set[str] = set()
        affinity = InterPodAffinity(cluster)
        near: list[Rule] = [HostPorts(cluster)] if args.ports else []
        if args.volume_binding or args.volume_zones or args.volume_limits:
            near.append(Volumes(cluster, args.volume_binding, args.volume_zones, args.volume_limits))
        far: list[Rule] = []
        if args.volume_binding:
            binding = VolumeBinding(cluster)
            session.set_volume_choice(binding.choose)
            far.append(binding)
        far += [affinity] if args.pod_affinity else []
        far += [TopologySpread(cluster)] if args.spread else []
        self._near, self._far = RuleSet(near), RuleSet(far)
        session.add_pre_predicate(self._why_invalid)
        session.add_batch_predicate(self._on_node, key=_rules_key, reasons=self._near.reasons, detail=self._near.detail)
        mig = MigNodes(cluster)
        session.add_batch_predicate(mig.codes, key=mig.key, reasons=MIG_REASONS, detail=mig.detail, reads=Reads.NODE)
        session.add_batch_predicate(
            self._among_pods, key=affinity.key, reasons=self._far.reasons, detail=self._far.detail, fresh=True
        )

    # -- the pod itself

    def _why_invalid(self, task: Task, job: Job) -> Reason | None:
        rules = task.rules
        if self._placed.asking_for_namespaces or (rules is not None and rules.asks_for_namespaces):
            self._tell_unknown_namespaces(task)
        if rules is None:
            return None
        for fault in rules.faults:
            if fault.about == AFFINITY and self.args.pod_affinity:
                return Reason("InvalidPodAffinity", f"{fault.path}: {fault.message}")
            if fault.about == SPREAD and self.args.spread:
                return Reason("InvalidTopologySpread", f"{fault.path}: {fault.message}")
        if not rules.claims or not self.args.volume_binding:
            return None
        self._tell_missing_storage(task)
        return self._claims.refusal(task)

    def _tell_missing_storage(self, task: Task) -> None:
        """Report once each kind of storage object that is missing altogether, so that no pod waits for it."""
        if not self._known.claims:
            what = "no PersistentVolumeClaim is given, so that claims, as that of {}, keep no pod off any node"
            self._tell("PersistentVolumeClaim", what.format(task.key))
            return
        claims = list(self._claims.of(task))
        if not self._known.volumes and any(claim.spec.volumeName for claim in claims):
            what = "no PersistentVolume is given, so that it is not known which nodes reach volumes, as that of {}"
            self._tell("PersistentVolume", what.format(task.key))
        if not self._known.classes and any(not claim.spec.volumeName for claim in claims):
            what = "no StorageClass is given, so that claims without a volume, as that of {}, keep no pod off any node"
            self._tell("StorageClass", what.format(task.key))

    def _tell_unknown_namespaces(self, task: Task) -> None:
        if "Namespace" in self._told:
            return
        seen = {key.partition("/")[0] for key in (*self._session.cluster.holders, task.key)}
        unknown = sorted(seen - self._known.namespaces.keys())
        if unknown:
            some = ", ".join(unknown[:5]) + (" and others" if len(unknown) > 5 else "")
            self._tell("Namespace", f"the labels of {some} are not known; no namespaceSelector matches them")

    def _tell(self, kind: str, message: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            self._session.report(Problem(f"Plugin/{self.name}", kind, "", f"every {kind} among the manifests", message))

    # -- nodes

    def _on_node(self, task: Task, nodes: Nodes) -> Array | None:
        return self._near.codes(task, nodes)

    def _among_pods(self, task: Task, nodes: Nodes) -> Array | None:
        return self._far.codes(task, nodes)


def _rules_key(task: Task) -> Hashable:
    return UNCONCERNED if task.rules is None else task.rules.key


class RuleSet:
    """Rules evaluated as one predicate; the first that rejects a node gives the reason."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        lengths = [len(rule.reasons) for rule in rules]
        self._offsets = [np.uint8(sum(lengths[:number])) for number in range(len(lengths))]
        self.reasons = [reason for rule in rules for reason in rule.reasons]

    def codes(self, task: Task, nodes: Nodes) -> Array | None:
        joined: Array | None = None
        for rule, offset in zip(self._rules, self._offsets, strict=True):
            codes = rule.codes(task, nodes)
            if codes is None:
                continue
            if offset:
                codes = np.where(codes != 0, codes + offset, codes)
            joined = codes if joined is None else np.where(joined != 0, joined, codes)
        return joined

    def detail(self, task: Task, row: int, code: int, remembered: Array | None) -> Callable[[], str]:
        """The message about one node; rendered at once, because the pods that it names may leave."""
        number = max(n for n, offset in enumerate(self._offsets) if offset < code)
        message = self._rules[number].message(task, row, code - int(self._offsets[number]))
        return lambda: message
