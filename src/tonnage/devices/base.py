"""Devices, requests for devices, and `Vendor`, the interface behind which vendors differ.

A card is one physical GPU or other accelerator of a node. Everything here is common to all vendors.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod
from tonnage.model.quantity import QuantityError, exact, whole

if TYPE_CHECKING:
    # A node needs vendors' formats without the weight of NumPy.
    from numpy.typing import NDArray

Total = TypeVar("Total", int, "NDArray[Any]")

WHOLE_CARD = 100
"""A percentage or a number of cores that means all of a card."""
PERCENTAGE_UNSET = 101
"""The percentage of a request that gives its memory in MiB."""
LARGEST_AMOUNT = 2**31 - 1
"""Device plugins keep memory, cores and counts in 32 bits."""
MIG_MODE = "mig"
"""The mode of cards that are cut into instances instead of being shared, for every vendor."""
PLAIN_MODE = "plain"
"""The mode of cards that no plugin registers: the kubelet hands them out whole, and only annotations share them."""
MOST_DEVICES = 128
"""A node that registers more devices than this is taken to have a broken registration."""
GIVEN_UP = "Deleted"
"""The word in a handshake by which a scheduler writes off a node's devices of one vendor."""


class DecodeError(ValueError):
    """An annotation that cannot be decoded, with the position in it and what was expected there."""

    def __init__(self, message: str, position: str = "", expected: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.expected = expected


class RequestError(ValueError):
    """A container's request for devices that is invalid, whatever the cluster."""


class AdmissionError(ValueError):
    """A container that admission refuses; the message is for the author of the pod."""


class MigPlacement(msgspec.Struct, gc=False, frozen=True):
    """The memory slices of a card that one MIG instance occupies."""

    start: int
    size: int

    def overlaps(self, other: "MigPlacement") -> bool:
        return self.start < other.start + other.size and other.start < self.start + self.size


class InstanceIds(msgspec.Struct, gc=False, frozen=True):
    """By what NVML knows an instance: its UUID, and the numbers of its GPU instance and its compute instance."""

    uuid: str
    gpu: int
    compute: int


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
    """Number of containers that may share the card."""
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
    """Facts of this vendor alone, such as the network group of an Ascend card."""
    memory_known: bool = True
    """Whether the memory is known; otherwise it is an assumption by which shares are counted, and shown nowhere."""

    def share(self, memory: int) -> str:
        """So much of the card as messages show it: in MiB, or as a share if its memory is not known."""
        if self.memory_known:
            return f"{memory} MiB"
        return f"{memory / self.memory:.2g} of the card"


class DeviceRequest(msgspec.Struct, gc=False, frozen=True, cache_hash=True):
    """One container's request for cards of one vendor."""

    vendor: str
    count: int
    """Number of different cards."""
    memory: int
    """MiB on each card; 0 if given as a percentage."""
    percentage: int
    """Of each card's memory; PERCENTAGE_UNSET if given in MiB."""
    cores: int
    fraction: tuple[int, int] = (0, 1)
    """Of each card's memory, as numerator and denominator, if a pod gives that instead of MiB or a percentage."""
    shares: bool = False
    """Whether an annotation asks for a part of a card, so that even a plain card is not given whole."""
    slices: int = 0
    """Size of the part in equal slices of a card; 0 if the request is for memory and compute."""
    scales: bool = False
    """Whether cores are a percentage of the card's own number of compute units, which need not be 100."""

    def memory_on(self, total: Total) -> Total | int:
        """MiB that this request takes of a card with that much memory, or of each card of an array."""
        if self.fraction[0]:
            return total * self.fraction[0] // self.fraction[1]
        if self.memory > 0 or self.percentage == PERCENTAGE_UNSET:
            return self.memory
        return total * self.percentage // 100

    def most_memory_on(self, total: int) -> int:
        """The same for one card, rounded up: schedulers round shares of a card differently."""
        if self.fraction[0]:
            return -(-total * self.fraction[0] // self.fraction[1])
        if self.memory > 0 or self.percentage == PERCENTAGE_UNSET:
            return self.memory
        return -(-total * self.percentage // 100)

    def cores_on(self, total: Total) -> Total | int:
        """Compute that this request takes of a card with that many compute units, or of each card of an array."""
        if not self.scales:
            return self.cores
        share: Total = total * self.cores // 100
        # A small share of few cores is still one of them.
        result: Total = share + (share == 0)
        return result

    @property
    def memory_asked(self) -> str:
        """The memory on each card, as messages show it."""
        if self.slices:
            return f"{self.slices} slices"
        if self.fraction[0]:
            return f"{self.fraction[0] / self.fraction[1]:.9g} of the memory"
        return f"{self.memory} MiB" if self.memory else f"{self.percentage} % of the memory"


class CardGroup(msgspec.Struct, gc=False, frozen=True):
    """A group of pods that share one card without naming it, as one of its pods describes it."""

    name: str
    card: str = ""
    """The card's UUID; empty if the pod does not name it."""
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
"""The slices of each container in annotation order (init containers first); empty for a container without any."""


class Handover(msgspec.Struct, gc=False, frozen=True):
    """The facts that a vendor may pass to its device plugin besides the cards that a pod was given."""

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
    """One change that admission makes: to a limit, request or environment variable of a container, or to its pod."""

    field: str
    """`limits`, `requests`, `env`, `annotations` or `runtimeClassName`."""
    key: str
    value: str


class Admission(msgspec.Struct, gc=False, frozen=True):
    """A vendor's answer about one container at admission."""

    matched: bool
    """Whether the container requests this vendor's devices, so that Tonnage must schedule its pod."""
    changes: tuple[AdmissionChange, ...] = ()


NOT_MATCHED = Admission(matched=False)


class Vendor(ABC):
    """One kind of devices of one vendor: its names, its requests, its records and its rules."""

    name: str
    """The vendor's key in pod annotations, such as NVIDIA."""
    count_resource: str
    """The resource that counts cards and that the kubelet accounts for."""
    side_resources: tuple[str, ...]
    """Resources that only qualify the count, such as memory and cores, and that no node offers."""
    memory_resource: str = ""
    """The side resource that is the memory on each card; empty if there is none."""
    memory_unit: int = 1
    """MiB in one unit of the memory resource."""
    cores_resource: str = ""
    """The side resource that is the compute on each card, in percent; empty if there is none."""
    to_allocate: str
    """The pod annotation that the device plugin consumes; empty if the plugin reads other annotations."""
    allocated: str
    """The pod annotation that stays as the record of the pod's devices."""
    plugin_annotations: tuple[str, ...] = ()
    """Pod annotations that `encode_pod` writes besides the record; a final `*` stands for any ending."""
    policy_annotations: tuple[str, ...] = ()
    """Pod annotations that change which of this vendor's cards a pod accepts."""
    register_annotations: tuple[str, ...] = ()
    """Node annotations from which devices are read."""
    sharing_annotations: tuple[str, ...] = ()
    """Pod annotations that ask for parts of this vendor's cards in place of the containers' resources."""
    handshake_annotation: str = ""
    """The node annotation in which scheduler and device plugin ask and answer; empty if the vendor has none."""
    lock_annotation: str = ""
    """The node annotation that the device plugin needs, with the time, while a pod waits for it; mostly none."""
    has_set_rules: bool = False
    """Whether `pick` may have an opinion."""
    scores_nodes: bool = False
    """Whether `node_score` may have an opinion."""
    is_choosy: bool = False
    """Whether it matters which containers share a card, so that `tenancy` and `tenancy_conflict` are called."""
    init_has_tenancy: bool = True
    """Whether init containers matter to those who share a card with them."""
    fits_by_instance: bool = False
    """Whether `instance` alone knows if a card has enough compute left, as compute is rounded up in the record."""
    enabled_by: str = ""
    """The extender's option without which it does not serve this vendor; empty if it always does."""
    is_served_by_agent: bool = False
    """Whether `tonnage agent` can take the place of the vendor's device plugin."""
    one_set_per_pod: bool = False
    """Whether all containers of a pod must get the same cards, because the device plugin reads one set per pod."""

    @abstractmethod
    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        """The request of a container, given its pod's annotations; None if there is none, RequestError if invalid.

        It depends on `policy_annotations` alone: when others change, a pod's requests are not read again.
        """

    @abstractmethod
    def devices(self, node: Node) -> list[Device]:
        """The cards that the node registers, in their order; DecodeError if the registration cannot be decoded."""

    def plain_devices(self, node: Node, count: int) -> list[Device]:
        """The cards of a node that offers `count` of them and on which no plugin has registered this vendor's cards.

        Empty unless the vendor knows the properties of such cards.
        """
        return []

    def shared_request(self, pod: Pod) -> tuple[int, DeviceRequest] | None:
        """The request that annotations make, and the position of its container; RequestError if it is invalid."""
        return None

    def groups(self, pod: Pod) -> tuple[CardGroup, ...]:
        """The groups through which a running pod shares cards."""
        return ()

    def is_offered(self, node: Node) -> bool:
        """Whether the node's kubelet offers this vendor's cards, as it does while the device plugin is connected."""
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
        """A score for the link between every two cards of the node; DecodeError if it cannot be decoded."""
        return {}

    def mode_mismatch(self, request: DeviceRequest, mode: str, profiles: Sequence[MigProfile]) -> str:
        """Why cards of that mode, cut into these profiles, can never serve such a request; empty if they can."""
        return ""

    def accepts_type(self, type_: str, mode: str, annotations: Mapping[str, str]) -> bool:
        """Whether the pod's annotations allow cards of that type and mode."""
        return True

    @abstractmethod
    def uuid_lists(self, annotations: Mapping[str, str]) -> tuple[frozenset[str] | None, frozenset[str]]:
        """The UUIDs that a pod insists on (None for any) and the UUIDs that it refuses."""

    def wants_one_numa(self, annotations: Mapping[str, str]) -> bool:
        """Whether all cards of a container must belong to one NUMA node."""
        return False

    def pick(
        self, request: DeviceRequest, candidates: Sequence[Device], annotations: Mapping[str, str]
    ) -> list[int] | None:
        """The positions of the cards to take among `candidates`, which fit and are in order of preference.

        None means that the vendor has no rule: the first candidates are taken. An empty list means that no set will do.
        """
        return None

    def is_particular(self, request: DeviceRequest) -> bool:
        """Whether `pick` may refuse a set, so that counting fitting cards is not enough to know that a node fits."""
        return False

    def node_score(self, node: Node, cards: int, spreads: bool) -> int:
        """The vendor's addition to the score of a node for that many cards: `binpack` prefers more, `spread` less."""
        return 0

    def tenancy(self, memory: int, annotations: Mapping[str, str]) -> str:
        """The tenancy of a container with that much of a card's memory: a word that `tenancy_conflict` compares."""
        return ""

    def tenancy_conflict(self, tenancy: str, others: frozenset[str]) -> str:
        """The reason why a container of that tenancy may not share a card with containers of these; empty if it may."""
        return ""

    def instance(
        self, device: Device, request: DeviceRequest, taken: Sequence[MigPlacement], memory: int, cores: int
    ) -> DeviceUse | None:
        """The next instance to cut out of a card in MIG mode, given the taken placements and the free amounts."""
        return None

    def compute_given(self, asked: int, free: int) -> int:
        """The compute that a request takes of a card; other than `asked` if each bit of compute is one core."""
        return asked

    @abstractmethod
    def admit(self, container: Container, annotations: Mapping[str, str] = {}) -> Admission:
        """The changes that admission makes to a container, given its pod's annotations; AdmissionError to refuse it."""

    @abstractmethod
    def encode_pod(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        """The annotations that tell the vendor's device plugin which devices a pod was given."""

    @property
    def record_annotations(self) -> tuple[str, ...]:
        """The pod annotations in which `decode_pod` finds the devices of a pod."""
        return (self.allocated,)

    def most_cards(self, request: DeviceRequest) -> int:
        """The most cards that any scheduler gives a container with this request."""
        return request.count

    def most(self, container: Container, request: DeviceRequest, device: Device) -> tuple[int, int]:
        """The most MiB and compute that any scheduler gives a container with this request of a card.

        What the container leaves to defaults may be all of the card, because defaults change.
        """
        return all_of(device)

    @abstractmethod
    def decode_pod(self, pod: Pod) -> PodUses | None:
        """The devices that the pod's annotations record; None without a record, DecodeError if it cannot be decoded."""


def all_of(device: Device) -> tuple[int, int]:
    """Memory and compute of a whole card; without a limit where the card does not say what it has."""
    return device.memory or LARGEST_AMOUNT, max(device.cores, WHOLE_CARD)


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
    """A container's quantity of a device resource as a whole number within bounds; None if it is not given."""
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
    """The usual pair of annotations that name cards; an empty one constrains nothing, one of commas names no card."""
    wanted = annotations.get(use, "")
    return (frozenset(words(wanted)) if wanted.strip() else None, frozenset(words(annotations.get(refuse, ""))))


def type_allowed(type_: str, annotations: Mapping[str, str], use: str, refuse: str) -> bool:
    """Whether the usual pair of annotations, which name card types by substrings, allows a type."""
    shown = type_.upper()
    wanted = annotations.get(use, "").upper()
    if wanted.strip() and not any(word in shown for word in words(wanted)):
        return False
    return not any(word in shown for word in words(annotations.get(refuse, "").upper()))
