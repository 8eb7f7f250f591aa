"""What a device is, what a container asks of devices, and what a vendor must tell about its own.

Everything that differs between vendors is behind `Vendor`; everything here is common to all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from numpy.typing import NDArray

from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod
from tonnage.model.quantity import QuantityError, exact, whole

Total = TypeVar("Total", int, NDArray[Any])

WHOLE_CARD = 100
"""A percentage or a number of cores that means all of a card."""
PERCENTAGE_UNSET = 101
"""How a request says that memory was given in MiB and not as a percentage."""
LARGEST_AMOUNT = 2**31 - 1
"""Device plugins keep memory, cores and counts in 32 bits."""
MIG_MODE = "mig"
"""The mode of cards that are cut into instances instead of being shared, whichever vendor's they are."""
PLAIN_MODE = "plain"
"""The mode of cards that no plugin registers: the kubelet hands them out whole, and only annotations share them."""
MOST_DEVICES = 128
"""More devices than this on one node is taken for a broken registration."""
GIVEN_UP = "Deleted"
"""The word in a handshake by which a scheduler writes off a node's devices of one vendor."""


class DecodeError(ValueError):
    """An annotation that cannot be read: where in it, and what was expected."""

    def __init__(self, message: str, position: str = "", expected: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.expected = expected


class RequestError(ValueError):
    """A container's request for devices that can never mean anything."""


class AdmissionError(ValueError):
    """A container that must not be admitted, with the reason for its author."""


class MigPlacement(msgspec.Struct, gc=False, frozen=True):
    """Memory slices of a card that one MIG instance occupies."""

    start: int
    size: int

    def overlaps(self, other: "MigPlacement") -> bool:
        return self.start < other.start + other.size and other.start < self.start + self.size


class MigProfile(msgspec.Struct, gc=False, frozen=True):
    """A kind of instance that a card can be cut into."""

    name: str
    memory: int
    cores: int
    slices: int
    placements: tuple[MigPlacement, ...]


class Device(msgspec.Struct, gc=False, frozen=True):
    """One card as its node registered it."""

    uuid: str
    index: int
    count: int
    """How many containers may share the card."""
    memory: int
    """MiB."""
    cores: int
    """Percent of the card's compute, 100 unless scaled."""
    type: str
    numa: int = 0
    healthy: bool = True
    mode: str = ""
    profiles: tuple[MigProfile, ...] = ()
    custom: tuple[tuple[str, Any], ...] = ()
    """What only this vendor knows about its card, such as the network group of an Ascend."""


class DeviceRequest(msgspec.Struct, gc=False, frozen=True, cache_hash=True):
    """What one container asks of one vendor's cards."""

    vendor: str
    count: int
    """Number of different cards."""
    memory: int
    """MiB on each card; 0 if given as a percentage."""
    percentage: int
    """Of each card's memory; PERCENTAGE_UNSET if given in MiB."""
    cores: int
    fraction: tuple[int, int] = (0, 1)
    """Of each card's memory, as numerator and denominator, where a pod asks for that instead of MiB or a percentage."""
    shares: bool = False
    """Whether it asks for a part of a card by annotation, so that even a plain card need not be given whole."""
    slices: int = 0
    """The size of the part that it asks for, in equal parts of a card; 0 if it asks by memory and compute."""
    scales: bool = False
    """Whether cores are percents of what the card counts as its compute, which need not be 100 then."""

    def memory_on(self, total: Total) -> Total | int:
        """MiB that this request takes of a card with that much memory, or of each of many."""
        if self.fraction[0]:
            return total * self.fraction[0] // self.fraction[1]
        if self.memory > 0 or self.percentage == PERCENTAGE_UNSET:
            return self.memory
        return total * self.percentage // 100

    def cores_on(self, total: Total) -> Total | int:
        """Compute that this request takes of a card that counts so much, or of each of many."""
        if not self.scales:
            return self.cores
        share: Total = total * self.cores // 100
        # A small share of few cores is still one of them.
        result: Total = share + (share == 0)
        return result

    @property
    def memory_asked(self) -> str:
        """What it asks of a card's memory, for people."""
        if self.slices:
            return f"{self.slices} slices"
        if self.fraction[0]:
            return f"{self.fraction[0] / self.fraction[1]:.9g} of the memory"
        return f"{self.memory} MiB" if self.memory else f"{self.percentage} % of the memory"


class CardGroup(msgspec.Struct, gc=False, frozen=True):
    """Pods that share one card without naming it: the group's name, and what one of its pods says about the card."""

    name: str
    card: str = ""
    """The card's UUID, if the pod knows it."""
    is_reservation: bool = False
    """Whether the pod only keeps the card for the group."""


class DeviceUse(msgspec.Struct, gc=False, frozen=True):
    """A slice of one card given to one container."""

    uuid: str
    memory: int
    cores: int
    profile: str = ""
    placement: MigPlacement | None = None


ContainerUses = tuple[DeviceUse, ...]
PodUses = tuple[ContainerUses, ...]
"""Per container in annotation order (init containers first), the slices it got; empty for one that got none."""


class Handover(msgspec.Struct, gc=False, frozen=True):
    """What a vendor may tell its device plugin besides the cards that a pod was given."""

    node: str = ""
    devices: Mapping[str, Device] = {}
    """The node's cards by UUID."""
    containers: tuple[Container, ...] = ()
    """The pod's containers in annotation order."""
    now: int = 0
    """Seconds."""

    @property
    def nanoseconds(self) -> str:
        return str(self.now * 10**9)


class AdmissionChange(msgspec.Struct, gc=False, frozen=True):
    """One thing admission changes: a container's limit, request or environment variable, or a pod annotation."""

    field: str
    """`limits`, `requests`, `env`, `annotations` or `runtimeClassName`."""
    key: str
    value: str


class Admission(msgspec.Struct, gc=False, frozen=True):
    """What a vendor makes of a container at admission."""

    matched: bool
    """Whether the container asks for this vendor's devices, so that Tonnage must schedule its pod."""
    changes: tuple[AdmissionChange, ...] = ()


NOT_MATCHED = Admission(matched=False)


class Vendor(ABC):
    """Everything that is particular to one vendor's devices."""

    name: str
    """The vendor's key in pod annotations, such as NVIDIA."""
    count_resource: str
    """The resource that counts cards and that the kubelet accounts for."""
    side_resources: tuple[str, ...]
    """Resources that only qualify the count (memory, cores, ...) and that no node offers."""
    memory_resource: str = ""
    """Which of them is the memory on each card; empty if there is none."""
    memory_unit: int = 1
    """MiB in one unit of it."""
    cores_resource: str = ""
    """Which of them is the compute on each card, in percent; empty if there is none."""
    to_allocate: str
    """The pod annotation that the device plugin consumes; empty if it learns by others what it must know."""
    allocated: str
    """The pod annotation that stays as the record of what the pod holds."""
    policy_annotations: tuple[str, ...] = ()
    """Pod annotations that change which of this vendor's cards a pod accepts."""
    register_annotations: tuple[str, ...] = ()
    """Node annotations from which devices are read."""
    sharing_annotations: tuple[str, ...] = ()
    """Pod annotations that ask for parts of this vendor's cards in place of the containers' resources."""
    handshake_annotation: str = ""
    """The node annotation in which scheduler and device plugin ask and answer; empty if the vendor has none."""
    has_set_rules: bool = False
    """Whether `pick` may have an opinion."""
    scores_nodes: bool = False
    """Whether `node_score` may have an opinion."""
    is_choosy: bool = False
    """Whether it matters who is on a card already, so that `company` and `may_join` have something to say."""
    enabled_by: str = ""
    """The extender's option without which it does not serve this vendor; empty if it always does."""
    one_set_per_pod: bool = False
    """Whether all containers of a pod must have the same cards, because the device plugin is told of one set only."""

    @abstractmethod
    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        """What the container of a pod so annotated asks for; nothing if it does not; RequestError if it is nonsense."""

    @abstractmethod
    def devices(self, node: Node) -> list[Device]:
        """The cards that the node registers, in their order; DecodeError if that cannot be read."""

    def plain_devices(self, node: Node, count: int) -> list[Device]:
        """The cards of a node that offers so many and on which nothing that registers this vendor's cards has run.

        None, unless the vendor knows what such cards are like.
        """
        return []

    def shared_request(self, pod: Pod) -> tuple[int, DeviceRequest] | None:
        """What annotations ask for, and the position of the container that gets it; RequestError if it is nonsense."""
        return None

    def groups(self, pod: Pod) -> tuple[CardGroup, ...]:
        """The groups through which a running pod shares cards."""
        return ()

    def is_offered(self, node: Node) -> bool:
        """Whether the node's kubelet offers this vendor's cards, as it does while their plugin is connected to it."""
        stated = node.status.allocatable if node.status.allocatable is not None else node.status.capacity
        try:
            return whole((stated or {}).get(self.count_resource, 0)) > 0
        except QuantityError:
            return False

    def is_given_up(self, node: Node) -> bool:
        """Whether a scheduler has written this vendor's cards off and the kubelet does not offer them either."""
        return GIVEN_UP in node.annotations.get(self.handshake_annotation, "") and not self.is_offered(node)

    def cordoned(self, node: Node) -> frozenset[str]:
        """UUIDs of cards that keep what they hold but take nothing new."""
        return frozenset()

    def pair_scores(self, node: Node) -> dict[str, dict[str, int]]:
        """How well cards of the node are linked to each other; DecodeError if that cannot be read."""
        return {}

    def accepts_type(self, type_: str, mode: str, annotations: Mapping[str, str]) -> bool:
        """Whether the pod's annotations let it use cards of that type and mode."""
        return True

    @abstractmethod
    def uuid_lists(self, annotations: Mapping[str, str]) -> tuple[frozenset[str] | None, frozenset[str]]:
        """The UUIDs a pod insists on (nothing: any) and those it refuses."""

    def wants_one_numa(self, annotations: Mapping[str, str]) -> bool:
        """Whether all cards of a container must be of one NUMA node."""
        return False

    def pick(
        self, request: DeviceRequest, candidates: Sequence[Device], annotations: Mapping[str, str]
    ) -> list[int] | None:
        """Positions of the cards to take among fitting ones in order of preference, where the vendor has rules on sets.

        Nothing means that the vendor has no opinion: the first ones are taken. An empty list means that no set will do.
        """
        return None

    def is_particular(self, request: DeviceRequest) -> bool:
        """Whether `pick` may refuse a set, so that counting fitting cards is not enough to know that a node fits."""
        return False

    def node_score(self, node: Node, cards: int, spreads: bool) -> int:
        """What a node's score gets besides for so many cards: under `binpack` more is better, under `spread` less."""
        return 0

    def tenancy(self, memory: int, annotations: Mapping[str, str]) -> str:
        """What others on a card have to know about a container with that much of its memory; one of a few words."""
        return ""

    def allows_tenant(self, tenancy: str, others: frozenset[str]) -> bool:
        """Whether a container may have a part of a card that such others have parts of."""
        return True

    def instance(
        self, device: Device, request: DeviceRequest, taken: Sequence[MigPlacement], memory: int, cores: int
    ) -> DeviceUse | None:
        """The next part to be cut out of a card that is not shared but cut, given what is taken and what is free."""
        return None

    def compute_given(self, asked: int, free: int) -> int:
        """What a request takes of a card's free compute; not what it asked for where a number names single cores."""
        return asked

    @abstractmethod
    def admit(self, container: Container, annotations: Mapping[str, str] = {}) -> Admission:
        """What admission changes in a container of a pod so annotated; AdmissionError if it must be refused."""

    @abstractmethod
    def encode_pod(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        """The annotations by which the vendor's device plugin learns what a pod was given."""

    @abstractmethod
    def decode_pod(self, pod: Pod) -> PodUses | None:
        """What the pod's annotations say it was given; nothing if they say nothing; DecodeError if unreadable."""


def limit(container: Container, name: str) -> str | int | float | None:
    """A container's quantity of a resource: its limit, else its request."""
    limits, requests = container.resources.limits, container.resources.requests
    if limits is not None and name in limits:
        return limits[name]
    if requests is not None and name in requests:
        return requests[name]
    return None


def whole_number(
    container: Container, name: str, unit: str = "", bounds: tuple[int, int] | None = (0, LARGEST_AMOUNT)
) -> int | None:
    """A container's quantity of a device resource as a number that fits device plugins; nothing if not given."""
    quantity = limit(container, name)
    if quantity is None:
        return None
    try:
        number = exact(quantity)
    except QuantityError as error:
        raise RequestError(f"container {container.name!r}: {name}: {error}") from error
    if number is None or (bounds is not None and not bounds[0] <= number <= bounds[1]):
        span = f" from {bounds[0]} to {bounds[1]}" if bounds is not None else ""
        hint = f"; {name} counts in {unit}, so write it without a unit" if unit else ""
        raise RequestError(f"container {container.name!r}: {name}: {quantity} is not a whole number{span}{hint}")
    return number


def words(text: str) -> list[str]:
    """The entries of a comma-separated annotation, blanks and empty entries left out."""
    return [word.strip() for word in text.split(",") if word.strip()]


def uuid_lists(annotations: Mapping[str, str], use: str, refuse: str) -> tuple[frozenset[str] | None, frozenset[str]]:
    """The usual pair of annotations that name cards; an empty one constrains nothing."""
    wanted = words(annotations.get(use, ""))
    return (frozenset(wanted) if wanted else None, frozenset(words(annotations.get(refuse, ""))))


def type_allowed(type_: str, annotations: Mapping[str, str], use: str, refuse: str) -> bool:
    """Whether the usual pair of annotations that name card types by a part of their name lets a type pass."""
    shown = type_.upper()
    wanted = words(annotations.get(use, "").upper())
    if wanted and not any(word in shown for word in wanted):
        return False
    return not any(word in shown for word in words(annotations.get(refuse, "").upper()))
