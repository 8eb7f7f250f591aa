"""What keeps a pod off a node beside resources, cards and the node's own labels and taints.

Ports of the node, required pod affinity and anti-affinity, spread that must be kept, and volumes. Ports and volumes
depend on the node alone and are asked about row by row; the others depend on the pods of all nodes.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgspec

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.podrules import AFFINITY, SPREAD
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.problem import Problem
from tonnage.plugins.filters._claims import Claims
from tonnage.plugins.filters._hostports import HostPorts
from tonnage.plugins.filters._interpodaffinity import InterPodAffinity
from tonnage.plugins.filters._rules import Rule, RuleSet
from tonnage.plugins.filters._topologyspread import TopologySpread
from tonnage.plugins.filters._volumes import Volumes

Warn = Callable[[str, str], None]

_SPELLINGS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True)
_SPELLINGS |= dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False)
"""Texts that Volcano takes for a switch."""
_ALWAYS = "has no effect here: node selection is always on"
_PROPORTIONAL = "has no effect here: resource-strategy-fit keeps processors and memory for cards"
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
"""Volcano's switches that change nothing, with the value that asks for something else than what is done."""
_RESOURCES = "predicate.resources"
_VOLUME_BINDING = ("volumebinding.weight", "volumebinding.bindTimeoutSeconds", "volumebinding.shape")


class Predicates(Plugin):
    """Keeps pods off nodes because of ports, volumes, and the pods that are already there."""

    name = "predicates"

    class Arguments(PluginArguments):
        """Which rules are looked at; in a configuration they have Volcano's names."""

        ports: bool = msgspec.field(name="predicate.NodePortsEnable", default=True)
        pod_affinity: bool = msgspec.field(name="predicate.PodAffinityEnable", default=True)
        spread: bool = msgspec.field(name="predicate.PodTopologySpreadEnable", default=True)
        volume_binding: bool = msgspec.field(name="predicate.VolumeBindingEnable", default=True)
        volume_zones: bool = msgspec.field(name="predicate.VolumeZoneEnable", default=True)
        volume_limits: bool = msgspec.field(name="predicate.NodeVolumeLimitsEnable", default=True)

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Warn) -> PluginArguments:
        """Volcano's switches; those that cannot do here what they do there are told."""
        left: dict[str, Any] = {}
        for key, written in given.items():
            value = _SPELLINGS.get(written, written) if isinstance(written, str) else written
            if key in _WITHOUT_EFFECT:
                if not isinstance(value, bool):
                    raise ArgumentError(key, f"expected true or false, got {written!r}")
                asks, sentence = _WITHOUT_EFFECT[key]
                if value is asks:
                    warn(key, sentence)
            elif key == _RESOURCES or key.startswith(f"{_RESOURCES}."):
                warn(key, _PROPORTIONAL)
            elif key in _VOLUME_BINDING:
                warn(key, "has no effect here: volumes are not scored, and nothing waits for them to be bound")
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
        self._repelling = cluster.placed.anti_affinity
        neighbours = InterPodAffinity(cluster)
        near: list[Rule] = [HostPorts(cluster)] if args.ports else []
        if args.volume_binding or args.volume_zones or args.volume_limits:
            near.append(Volumes(cluster, args.volume_binding, args.volume_zones, args.volume_limits))
        far: list[Rule] = [neighbours] if args.pod_affinity else []
        far += [TopologySpread(cluster)] if args.spread else []
        self._near, self._far = RuleSet(near), RuleSet(far)
        session.add_pre_predicate(self._makes_sense)
        session.add_batch_predicate(self._on_node, key=_rules_key, reasons=self._near.reasons, detail=self._near.detail)
        session.add_batch_predicate(
            self._among_pods, key=neighbours.key, reasons=self._far.reasons, detail=self._far.detail, fresh=True
        )

    # -- the pod itself

    def _makes_sense(self, task: Task, job: Job) -> Reason | None:
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
        """Say once what is not known at all, so that it keeps no pod waiting."""
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
        if task.rules is None:
            return None
        return self._near.codes(task, nodes)

    def _among_pods(self, task: Task, nodes: Nodes) -> Array | None:
        if task.rules is None and not self._repelling.carried:
            return None
        return self._far.codes(task, nodes)


def _rules_key(task: Task) -> Hashable:
    return None if task.rules is None else task.rules.key
