"""Instructions: what the core wants done, as data."""

import msgspec

from tonnage.agent.core.nodepod import NodeContainer, NodePod


class Instruction(msgspec.Struct, frozen=True):
    """Something to do."""


class LookAtKubelet(Instruction, frozen=True):
    """Ask the kubelet for its pods and read its checkpoint, for an open question."""

    number: int


class FetchPods(Instruction, frozen=True):
    """Get pods from the API server by name: the kubelet has them and the watch has not shown them."""

    number: int
    keys: tuple[str, ...]


class GiveDevices(Instruction, frozen=True):
    """Give a container its devices."""

    number: int
    pod: NodePod
    container: NodeContainer
    is_repeated: bool
    """Whether it was answered before, so that what lies in its folder must stay."""


class Prefer(Instruction, frozen=True):
    """Say which ids are best."""

    number: int
    ids: tuple[str, ...]


class Refuse(Instruction, frozen=True):
    """Give no devices, and say why."""

    number: int
    message: str


class PatchPod(Instruction, frozen=True):
    """Write annotations of a pod, if it is still the same."""

    uid: str
    namespace: str
    name: str
    annotations: dict[str, str]


class ReleaseLock(Instruction, frozen=True):
    """Remove the node's lock, if it still has this value."""

    value: str


class PostEvent(Instruction, frozen=True):
    """Tell the owner of a pod."""

    pod: NodePod
    reason: str
    message: str


class PostNodeEvent(Instruction, frozen=True):
    """Tell those who look after the node."""

    reason: str
    message: str


class PatchNode(Instruction, frozen=True):
    """Write annotations and labels of the node; None removes one."""

    annotations: dict[str, str | None]
    labels: dict[str, str | None] = {}


class OfferDevices(Instruction, frozen=True):
    """Send the kubelet the list of devices."""


class LookUpPod(Instruction, frozen=True):
    """Find out whether a pod that the node's lock names exists."""

    key: str


class LogNote(Instruction, frozen=True):
    """Something for the log and, by its event, for a metric."""

    event: str
    message: str
    is_error: bool = False
