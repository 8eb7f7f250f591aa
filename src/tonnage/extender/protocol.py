"""The extender protocol of kube-scheduler: arguments and results of filter, prioritize and bind, in JSON.

Kubernetes' types of the protocol have no JSON names, so their keys are capitalised. Go reads keys in any case, and so
does this module; it writes capitalised keys.
"""

from typing import Any, TypeVar

import msgspec

from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.wire import WireError, check_text, convert, decode

T = TypeVar("T", bound=msgspec.Struct)


class NodeItems(msgspec.Struct, gc=False, frozen=True):
    """A list of whole nodes; each is returned as it came."""

    items: list[msgspec.Raw] | None = None


class FilterArgs(msgspec.Struct, gc=False, frozen=True, rename="pascal"):
    """A pod, and the nodes that passed kube-scheduler's own filters: by name, or whole."""

    pod: Pod | None = None
    nodes: NodeItems | None = None
    node_names: list[str] | None = None


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
    msgspec.Struct,
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


class BindResult(msgspec.Struct, gc=False, frozen=True, rename="pascal"):
    """Empty if the pod is bound."""

    error: str = ""


def read(body: bytes, kind: type[T]) -> T:
    """Decode arguments with keys in any case; WireError if they are not of that type."""
    check_text(body)
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
