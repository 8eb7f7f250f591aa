"""Objects of manifests: typed objects, counts of unused kinds, and a Problem for every fault."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.handlers import HANDLERS
from tonnage.cluster.jobs.validation import Fault, group_faults
from tonnage.manifests.check import mended_node, mended_quota, pod_faults
from tonnage.manifests.owners.catalog import BY_HEADER as OWNERS
from tonnage.manifests.owners.catalog import OwnerKind
from tonnage.manifests.owners.owner import PodOwner
from tonnage.manifests.written import Header, Written
from tonnage.model.group import GroupObject
from tonnage.model.hypernode import HyperNode
from tonnage.model.kinds import BY_HEADER, BY_STRUCT, NAMESPACED, KindRole, ObjectKind
from tonnage.model.names import SNAPSHOT
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.problem import Problem
from tonnage.model.quota import PodDisruptionBudget, ResourceQuota
from tonnage.model.storage import Surrounding
from tonnage.model.timestamp import TimestampError, timestamp
from tonnage.model.topology import Topology
from tonnage.model.wire import WireError, convert, is_about_null, without_nulls

T = TypeVar("T")

_CONFIG_KEY = "config.yaml"
_DEEPEST_LIST = 10
_SHAPE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}

_OWNER_NAMES = frozenset(kind.name for kind in OWNERS.values())
_NAMELESS = Fault("metadata.name", "a name", "the object has no name")
_TWICE = Fault("metadata.name", "each object once", "the object is given more than once; this later one is used")


Kept = Node | Pod | HyperNode | Topology | GroupObject | ResourceQuota | PodDisruptionBudget | Surrounding
"""What is read."""
READ_KINDS = tuple(dict.fromkeys(name for _, name in (*BY_HEADER, *OWNERS)))
"""The names of all kinds that are read."""
_LISTS = {
    KindRole.NODE: "nodes",
    KindRole.POD: "pods",
    KindRole.QUOTA: "quotas",
    KindRole.BUDGET: "budgets",
    KindRole.PRIORITY: "groups",
    KindRole.QUEUE: "groups",
    KindRole.POD_GROUP: "groups",
    KindRole.NAMESPACE: "surroundings",
    KindRole.STORAGE: "surroundings",
    KindRole.TOPOLOGY: "topologies",
    KindRole.HYPERNODE: "hypernodes",
}
"""The list of `Manifests` that keeps the objects of each role."""


class SnapshotNote(NamedTuple):
    """What a snapshot of a scheduler says about itself."""

    time: float | None
    """When it was taken, in seconds since 1970, if it says so."""
    config: str | None
    """The configuration that was in force."""
    version: str | None
    """The version of the scheduler."""


@dataclass(slots=True)
class Manifests:
    """The objects of one or several files."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    hypernodes: list[HyperNode] = field(default_factory=list)
    topologies: list[Topology] = field(default_factory=list)
    groups: list[GroupObject] = field(default_factory=list)
    """Pod groups, queues and priority classes."""
    quotas: list[ResourceQuota] = field(default_factory=list)
    budgets: list[PodDisruptionBudget] = field(default_factory=list)
    surroundings: list[Surrounding] = field(default_factory=list)
    """Namespaces and storage."""
    owners: list[PodOwner] = field(default_factory=list)
    """Objects whose controllers make pods."""
    problems: list[Problem] = field(default_factory=list)
    snapshot: SnapshotNote | None = None
    """If they are a snapshot that a scheduler served."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Numbers of objects that Tonnage does not use, by version and kind."""

    def put_into(self, cluster: Cluster, wants: Callable[[Pod], bool] = lambda pod: True) -> None:
        """Add everything to a cluster; of the pods, only the wanted ones.

        The schedulers of pods without a node are the ones that the cluster's user stands for: all are, if none waits.
        """
        ours = {pod.scheduler for pod in self.pods if pod.node is None and not pod.is_over}
        if ours:
            cluster.is_ours = lambda pod: pod.scheduler in ours
        pods = (pod for pod in self.pods if wants(pod))
        around = (self.surroundings, self.quotas, self.budgets, self.nodes, self.hypernodes, self.topologies)
        for thing in chain(*around, self.groups, pods):
            HANDLERS[type(thing)].put(cluster, thing)

    @property
    def is_empty(self) -> bool:
        """Whether there is no object of a kind that is read."""
        return not self._places

    _places: dict[str, int] = field(default_factory=dict, repr=False, compare=False)
    """The index of each object in its list, by kind and name."""

    def add(self, name: str, thing: Kept | PodOwner) -> bool:
        """Keep an object; says whether it took the place of an earlier one of the same kind and name."""
        kind = BY_STRUCT.get(type(thing))
        things: list[Any] = self.owners if kind is None else getattr(self, _LISTS[kind.role])
        place = self._places.setdefault(name, len(things))
        if place < len(things):
            things[place] = thing
            return True
        things.append(thing)
        return False


class Reader:
    """Reads the objects of one file in order."""

    def __init__(self, source: str, into: Manifests) -> None:
        self.source = source
        self.into = into
        self._number = 0

    def take(self, written: Written, implied: Header | None = None, depth: int = 0) -> None:
        """Keep an object or the objects of a list, or add a Problem."""
        implied = implied or Header()
        try:
            header = written.header()
        except WireError as error:
            self._number += 1
            self._tell(written, implied.kind, _fault(error))
            return
        if header.is_list and (header.kind is None or header.kind.endswith("List")):
            if depth >= _DEEPEST_LIST:
                self._number += 1
                message = f"lists are nested more than {_DEEPEST_LIST} deep"
                self._tell(written, header.kind, Fault("items", "objects in one list", message))
                return
            # The API server leaves kind and version out of the items of a PodList.
            alike = (header.kind or "").removesuffix("List")
            inside = Header(alike, header.version) if alike else Header()
            for item in written.items():
                self.take(item, inside, depth + 1)
            return
        kind, version = header.kind or implied.kind, header.version or implied.version
        if kind == "List":
            return
        self._number += 1
        if not kind and written.peek("actions") is not None:
            message = "this is the configuration of a scheduler; give it with --config"
            self._tell(written, None, Fault("", "Kubernetes objects", message))
        elif not kind:
            self._tell(written, None, Fault("kind", "kind: Pod or kind: Node", "the kind is missing"))
        elif not version:
            self._tell(written, kind, Fault("apiVersion", "apiVersion: v1", "the version is missing"))
        elif (known := BY_HEADER.get((version, kind))) is not None:
            self._keep(written, known)
        elif (owner := OWNERS.get((version, kind))) is not None:
            self._keep_owner(written, owner)
        elif (version, kind) == ("v1", "ConfigMap") and written.peek("metadata", "name") == SNAPSHOT:
            self._keep_note(written)
        else:
            said = f"{version} {kind}"
            self.into.skipped[said] = self.into.skipped.get(said, 0) + 1

    def _keep(self, written: Written, kind: ObjectKind) -> None:
        try:
            thing: Kept = _decode(written, kind.struct)
        except WireError as error:
            self._tell(written, kind.name, _fault(error))
            return
        if not thing.metadata.name:
            self._tell(written, kind.name, _NAMELESS)
            return
        faults = list[Fault]()
        if isinstance(thing, Node):
            thing, faults = mended_node(thing)
        elif isinstance(thing, Pod):
            faults = pod_faults(thing)
        elif isinstance(thing, ResourceQuota):
            thing, faults = mended_quota(thing)
        elif isinstance(thing, GroupObject):
            faults = group_faults(thing)
        for fault in faults:
            self._tell(written, kind.name, fault)
        if faults and isinstance(thing, GroupObject):
            # A queue or group without the bound that was meant would let too much start: its pods wait instead.
            return
        if self.into.add(f"{kind.name}/{kind.key(thing.metadata)}", thing):
            self._tell(written, kind.name, _TWICE)

    def _keep_note(self, written: Written) -> None:
        taken, said = None, written.peek("data", "now")
        try:
            taken = None if said is None else timestamp(said)
        except TimestampError as error:
            self._tell(written, "ConfigMap", Fault("data.now", "the time of the snapshot", str(error)))
        self.into.snapshot = SnapshotNote(taken, written.peek("data", _CONFIG_KEY), written.peek("data", "version"))

    def _keep_owner(self, written: Written, kind: OwnerKind) -> None:
        try:
            owner = _decode(written, kind.struct)
        except WireError as error:
            self._tell(written, kind.name, _fault(error))
            return
        if not owner.metadata.name:
            self._tell(written, kind.name, _NAMELESS)
            return
        faults = [
            Fault(f"{path}.{fault.path}", fault.expected, fault.message)
            for path, template in owner.templates()
            for fault in pod_faults(Pod(owner.metadata, template.spec))
        ]
        for fault in faults:
            self._tell(written, kind.name, fault)
        if not faults and self.into.add(f"{kind.api_version} {kind.name}/{owner.metadata.key}", owner):
            self._tell(written, kind.name, _TWICE)

    def _tell(self, written: Written, kind: str | None, fault: Fault) -> None:
        got = _SHAPE.search(fault.message)
        path, line = written.find(fault.path, got[2] if got else "")
        self.into.problems.append(
            Problem(
                object=self._name(written, kind),
                field=path,
                position=f"{self.source} line {line}",
                expected=fault.expected,
                message=_SHAPE.sub(lambda shape: f"found {_WORDS.get(shape[2], shape[2])}", fault.message),
            )
        )

    def _name(self, written: Written, kind: str | None) -> str:
        kind = kind or written.peek("kind")
        name = written.peek("metadata", "name")
        if not kind or not name:
            return f"{kind or 'Object'} #{self._number}"
        namespace = written.peek("metadata", "namespace")
        if kind in NAMESPACED or kind in _OWNER_NAMES:
            namespace = namespace or "default"
        return f"{kind}/{namespace}/{name}" if namespace else f"{kind}/{name}"


def _decode(written: Written, type_: type[T]) -> T:
    try:
        return written.decode(type_)
    except WireError as error:
        if not is_about_null(error):
            raise
    return convert(without_nulls(written.plain()), type_)


def _fault(error: WireError) -> Fault:
    """A wire error in words; the kind of value found stays in the message until its line is known."""
    if shape := _SHAPE.fullmatch(error.message):
        wanted = [word for word in shape[1].split(" | ") if word != "null"]
        expected = " or ".join(_WORDS.get(word, word) for word in wanted)
        if set(wanted) == {"str", "int", "float"}:
            expected = "a quantity such as 500m, 2, 16Gi"
        elif wanted == ["str"] and shape[2] in ("int", "float", "bool"):
            expected = "text, so put it in quotes"
        return Fault(error.path, expected, error.message)
    if missing := _MISSING.fullmatch(error.message):
        return Fault(error.path, f"a field {missing[1]}", f"the field {missing[1]} is missing")
    return Fault(error.path, "", error.message)
