"""A cluster in memory and copies of our extender on it, one of them perhaps with a fault."""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from peers.hami.workload import started
from tests.peers.faults import at_fault
from tonnage.binder.binding import device_annotations
from tonnage.cluster.cluster import Cluster
from tonnage.config.deviceconfig import load_devices
from tonnage.extender.protocol import FilterArgs, read
from tonnage.extender.reservations import Reservations
from tonnage.extender.webhook import review
from tonnage.extender.webhook.admission import AdmissionRules, PodAdmission
from tonnage.framework.session import Session
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.quota import ResourceQuota
from tonnage.model.wire import convert
from tonnage.plugins.defaults import default_plugins


class Copy:
    """Our extender's decisions, asked over its protocol."""

    def __init__(self, devices: str, scheduler: str, fault: str = "") -> None:
        self._fault = fault
        with at_fault(fault):
            self.cluster = Cluster(load_devices(devices, "FILE").vendors)
            plugins = default_plugins()
            self._reservations = Reservations(Session(self.cluster, plugins), plugins)
            rules = AdmissionRules(scheduler_name=scheduler, deny_privileged=True)
            self._admission = PodAdmission(self.cluster.vendors, rules, self.cluster.quotas)
        self._told: dict[str, dict[str, str]] = {}
        self.written: dict[str, tuple[str, dict[str, str]]] = {}
        """Nodes and annotations of bound pods, by their namespace and name."""
        self.told_scores: Mapping[str, float] = {}

    def take(self, thing: Node | Pod | ResourceQuota) -> None:
        """See an object as the watch shows it."""
        with at_fault(self._fault):
            if isinstance(thing, Node):
                self.cluster.upsert_node(thing)
            elif isinstance(thing, Pod):
                self.cluster.upsert_pod(thing)
            else:
                self.cluster.quotas.upsert(thing)

    def drop(self, key: str) -> None:
        with at_fault(self._fault):
            self.cluster.remove_pod(key)

    def post(self, path: str, document: Any) -> Any:
        with at_fault(self._fault):
            return {"/filter": self._filter, "/bind": self._bind, "/webhook": self._review}[path](document)

    def scores(self, pod: str) -> Mapping[str, float]:
        return self.told_scores

    def _filter(self, document: Any) -> Any:
        filtered = self._reservations.filter(read(msgspec.json.encode(document), FilterArgs), 1.0)
        return msgspec.json.decode(msgspec.json.encode(filtered.result))

    def _bind(self, document: Any) -> Any:
        key = f"{document['PodNamespace']}/{document['PodName']}"
        reserved = self._reservations.reservation(key, document["PodUID"])
        assert reserved is not None
        decision = reserved.decision
        assert decision.node is not None
        notes = device_annotations(self.cluster, decision.task, decision.node, decision.grant, 1)
        self.written[key] = decision.node, notes
        return {"Error": ""}

    def _review(self, document: Any) -> Any:
        asked = review.read_review(msgspec.json.encode(document))
        verdict = review.decide(asked.request, self._admission.judge)
        return msgspec.json.decode(review.answer(asked, verdict))


class MemoryWorld:
    """A cluster in memory that tells copies of every change at once."""

    def __init__(self, *copies: Copy) -> None:
        self._copies = copies
        self._pods: dict[str, dict[str, Any]] = {}
        self._made = 0

    def put(self, *objects: dict[str, Any]) -> None:
        """Create nodes and quotas."""
        for thing in objects:
            known = convert(thing, Node if thing["kind"] == "Node" else ResourceQuota)
            for one in self._copies:
                one.take(known)

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        self._made += 1
        made = copy.deepcopy(pod)
        made["metadata"]["uid"] = f"uid-{self._made}"
        made["status"] = {"phase": "Pending"}
        self._change(made)
        return made

    def read(self, pod: dict[str, Any]) -> dict[str, Any]:
        key = _key(pod)
        made = copy.deepcopy(self._pods[key])
        for one in self._copies:
            if key in one.written:
                node, notes = one.written.pop(key)
                made["spec"]["nodeName"] = node
                made["metadata"]["annotations"] = {**made["metadata"]["annotations"], **notes}
                self._change(made)
        return made

    def run(self, pod: dict[str, Any], init_ends: bool) -> None:
        made = copy.deepcopy(self._pods[_key(pod)])
        made["status"] = started(made, init_ends)
        self._change(made)

    def delete(self, pod: dict[str, Any]) -> None:
        del self._pods[_key(pod)]
        for one in self._copies:
            one.drop(_key(pod))

    def settle(self, again: bool = False) -> None:
        """Everything is told at once."""

    def _change(self, pod: dict[str, Any]) -> None:
        self._pods[_key(pod)] = pod
        for one in self._copies:
            one.take(convert(pod, Pod))


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
