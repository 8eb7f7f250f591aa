"""The extender protocol of kube-scheduler: arguments and results of filter, prioritize and bind, in JSON.

Kubernetes' types of the protocol have no JSON names, so their keys are capitalised. Go reads keys in any case, and so
does this module; it writes capitalised keys.
"""

from typing import Any, TypeVar

import msgspec

from tonnage.model.excerpt import excerpt
from tonnage.model.names import name_fault, namespace_fault, uid_fault
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.wire import WireError, check_text, convert, decode


class Arguments(msgspec.Struct, gc=False, frozen=True):
    """The arguments of a verb."""

    def check(self) -> None:
        """WireError if a name in them is none: names become paths, keys and messages."""


T = TypeVar("T", bound=Arguments)


class NodeItems(msgspec.Struct, gc=False, frozen=True):
    """A list of whole nodes; each is returned as it came."""

    items: list[msgspec.Raw] | None = None


class FilterArgs(Arguments, gc=False, frozen=True, rename="pascal"):
    """A pod, and the nodes that passed kube-scheduler's own filters: by name, or whole."""

    pod: Pod | None = None
    nodes: NodeItems | None = None
    node_names: list[str] | None = None
    """Of these, unknown ones are checked when something is said about them: most calls name all nodes, all known."""

    def check(self) -> None:
        check_pod(self.pod)


class FilterResult(msgspec.Struct, gc=False, rename="pascal"):
    """The nodes that pass, and the reason for each that does not."""

    nodes: NodeItems | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(msgspec.Struct, gc=False, frozen=True, rename="pascal"):
    """The score of a node, from 0 to 10."""

    host: str
    score: int


class BindArgs(
    Arguments,
    gc=False,
    frozen=True,
    rename={"uid": "PodUID"} | {"name": "PodName", "namespace": "PodNamespace", "node": "Node"},
):
    """The pod to bind, and its node."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    node: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace or 'default'}/{self.name}"

    def check(self) -> None:
        if not self.name or not self.node:
            raise WireError("it names no pod or no node")
        if not self.uid:
            raise WireError(
                f"{excerpt(self.key)} has no UID; a pod is bound by its UID only, because another may have its name",
                "PodUID",
            )
        _check("PodName", name_fault(self.name))
        _check("PodNamespace", namespace_fault(self.namespace or "default"))
        _check("PodUID", uid_fault(self.uid))
        _check("Node", name_fault(self.node))


class BindResult(msgspec.Struct, gc=False, frozen=True, rename="pascal"):
    """Empty if the pod is bound."""

    error: str = ""


def read(body: bytes, kind: type[T]) -> T:
    """Decode arguments with keys in any case; WireError if they are not of that type."""
    check_text(body)
    found = _decoded(body, kind)
    found.check()
    return found


def check_pod(pod: Pod | None) -> None:
    """WireError if the name, namespace or UID of a pod is none."""
    if pod is not None:
        meta = pod.metadata
        _check("Pod.metadata.name", name_fault(meta.name))
        _check("Pod.metadata.namespace", namespace_fault(meta.namespace or "default"))
        _check("Pod.metadata.uid", uid_fault(meta.uid) if meta.uid else "")


def _check(path: str, fault: str) -> None:
    if fault:
        raise WireError(fault, path)


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        found = decode(body, kind)
        if any(getattr(found, field) for field in kind.__struct_fields__):
            return found
    except WireError:
        # It may be readable with other cases of keys; if not, the second attempt says what is wrong.
        pass
    return convert(_recased(decode(body, dict[str, Any]), kind), kind)


def node_of(item: msgspec.Raw) -> Node:
    """Decode a whole node."""
    return decode(item, Node)


def _recased(document: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
    """The document with its outermost keys in the case that the type has."""
    known = {name.lower(): name for name in kind.__struct_encode_fields__}
    return {known.get(key.lower(), key): value for key, value in document.items()}
