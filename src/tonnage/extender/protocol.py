"""What kube-scheduler and its extender say to each other, in JSON.

Kubernetes' types have no names of their own for JSON, so keys are capitalised; readers there take any case, so any case
is taken here, and capitalised keys are written.
"""

from typing import Any, TypeVar

import msgspec

from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.wire import WireError, check_text, convert, decode

T = TypeVar("T", bound=msgspec.Struct)


class NodeItems(msgspec.Struct, gc=False, frozen=True):
    """A list of whole nodes; each is handed back as it came."""

    items: list[msgspec.Raw] | None = None


class FilterArgs(msgspec.Struct, gc=False, frozen=True, rename="pascal"):
    """A pod, and the nodes that kube-scheduler's own rules let it on: by name, or whole."""

    pod: Pod | None = None
    nodes: NodeItems | None = None
    node_names: list[str] | None = None


class FilterResult(msgspec.Struct, gc=False, rename="pascal"):
    """The nodes that are left, and why others are not."""

    nodes: NodeItems | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HostPriority(msgspec.Struct, gc=False, frozen=True, rename="pascal"):
    """How good a node is, from 0 to 10."""

    host: str
    score: int


class BindArgs(
    msgspec.Struct,
    gc=False,
    frozen=True,
    rename={"uid": "PodUID"} | {"name": "PodName", "namespace": "PodNamespace", "node": "Node"},
):
    """The pod that is to be bound, and where."""

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
    """Arguments in JSON, whatever the case of their keys; WireError if that is not what they are."""
    check_text(body)
    try:
        found = decode(body, kind)
        if any(getattr(found, field) for field in kind.__struct_fields__):
            return found
    except WireError:
        # It may be readable once its keys are recognised; if not, that says what is wrong.
        pass
    return convert(_recased(decode(body, dict[str, Any]), kind), kind)


def node_of(item: msgspec.Raw) -> Node:
    """A node that came whole."""
    return decode(item, Node)


def _recased(document: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
    """The document with its outermost keys in the case that the type has."""
    known = {name.lower(): name for name in kind.__struct_encode_fields__}
    return {known.get(key.lower(), key): value for key, value in document.items()}
