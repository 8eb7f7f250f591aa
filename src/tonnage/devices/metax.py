"""MetaX GPUs: whole cards, which register nothing, and sGPUs, which share cards under rules of their own.

All sGPUs of one card have the same QoS policy. A pod may have the class `online` or `offline`. Such pods share no card
with pods without a class, and an offline pod does not join online pods, which would suspend it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec

from tonnage.devices._plain import PlainVendor, WholeVendor
from tonnage.devices._sets import smallest_group
from tonnage.devices.base import (
    LARGEST_AMOUNT,
    MOST_DEVICES,
    NOT_MATCHED,
    WHOLE_CARD,
    Admission,
    AdmissionChange,
    AdmissionError,
    DecodeError,
    Device,
    DeviceRequest,
    Handover,
    PodUses,
    RequestError,
    Vendor,
    limit,
)
from tonnage.devices.codec import check_identifier, decode_json
from tonnage.devices.entry import Flags, Name, Section, SectionKeys, VendorEntry, from_flags
from tonnage.model.node import Node
from tonnage.model.pod import Container
from tonnage.model.quantity import QuantityError, exact
from tonnage.model.wire import WireError, decode, encode

REGISTER = "metax-tech.com/node-gpu-devices"
LOSSES = "metax-tech.com/gpu.topology.losses"
SCORES = "metax-tech.com/gpu.topology.scores"
_BEST = 2000
USE_UUID = "metax-tech.com/use-gpuuuid"
REFUSE_UUID = "metax-tech.com/nouse-gpuuuid"
QOS = "metax-tech.com/sgpu-qos-policy"
CLASS = "metax-tech.com/sgpu-app-class"
BEST_EFFORT = "best-effort"
POLICIES = (BEST_EFFORT, "fixed-share", "burst-share")
ONLINE, OFFLINE = "online", "offline"
ZONE = "LinkZone"
"""The custom fact that names a card's zone of linked cards; 0 if it is linked with none."""
GIB, MIB = 1024, 2**20


class Metax(WholeVendor):
    """MetaX GPUs that are allocated whole."""

    scores_nodes = True
    stem = "metax"
    card_memory = 65536

    def __init__(self, *, count_resource: str = "metax-tech.com/gpu") -> None:
        super().__init__(
            name="Metax-GPU",
            count_resource=count_resource,
            record="hami.io/metax-gpu-devices",
            use_uuids=USE_UUID,
            refuse_uuids=REFUSE_UUID,
        )

    def node_score(self, node: Node, cards: int, spreads: bool) -> int:
        """2000 minus the loss of links among the other cards, or under `spread` minus the score of that many cards."""
        told = node.annotations.get(SCORES if spreads else LOSSES)
        return 0 if told is None else _BEST - _by_count(told).get(cards, 0)


_Worth = Annotated[int, msgspec.Meta(ge=-LARGEST_AMOUNT, le=LARGEST_AMOUNT)]


@lru_cache(maxsize=4096)
def _by_count(text: str) -> dict[int, int]:
    """The values by number of cards; empty if the node's annotation cannot be decoded."""
    try:
        return decode(text.encode("utf-8", "surrogatepass"), dict[int, _Worth])
    except WireError:
        return {}


_Amount = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_AMOUNT)]


class _Registered(msgspec.Struct, gc=False, frozen=True, rename="camel"):
    """A card as MetaX's device plugin writes it: fields that are zero or false are left out."""

    uuid: str
    total_dev_count: _Amount = 0
    total_compute: _Amount = 0
    total_memory: _Amount = msgspec.field(default=0, name="totalVRam")
    numa: Annotated[int, msgspec.Meta(ge=-1, le=LARGEST_AMOUNT)] = 0
    healthy: bool = False
    link_zone: int = 0


class _Given(msgspec.Struct, gc=False, frozen=True, omit_defaults=True):
    """One card of a container in the annotation for MetaX's device plugin."""

    uuid: str
    compute: int = 0
    memory: int = msgspec.field(default=0, name="vRam")


class MetaxShared(PlainVendor):
    """MetaX's sGPUs."""

    has_set_rules = True
    is_choosy = True
    plugin_annotations = ("metax-tech.com/gpu-devices-allocated", "metax-tech.com/predicate-time")

    def __init__(
        self,
        *,
        count_resource: str = "metax-tech.com/sgpu",
        memory_resource: str = "metax-tech.com/vmemory",
        cores_resource: str = "metax-tech.com/vcore",
    ) -> None:
        super().__init__(
            name="Metax-SGPU",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource=cores_resource,
            record="hami.io/metax-sgpu-devices",
            register=REGISTER,
            use_uuids=USE_UUID,
            refuse_uuids=REFUSE_UUID,
            memory_unit=GIB,
            default_cores=WHOLE_CARD,
        )
        self.policy_annotations = (*self.policy_annotations, QOS, CLASS)

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        request = super().request(container, annotations)
        if request is None or annotations.get(CLASS) != ONLINE:
            return request
        return msgspec.structs.replace(request, cores=0)

    def memory(self, container: Container) -> int | None:
        """A number without a unit counts in GiB."""
        quantity = limit(container, self.memory_resource)
        if quantity is None or not any(letter.isalpha() for letter in str(quantity)):
            return super().memory(container)
        try:
            size = exact(quantity)
        except QuantityError as error:
            raise RequestError(f"container {container.name!r}: {self.memory_resource}: {error}") from error
        if size is None or not MIB <= size <= LARGEST_AMOUNT * MIB:
            raise RequestError(
                f"container {container.name!r}: {self.memory_resource}: {quantity} is not from 1Mi to "
                f"{LARGEST_AMOUNT}Mi; a number without a unit counts in GiB"
            )
        return size // MIB

    def devices(self, node: Node) -> list[Device]:
        text = node.annotations.get(REGISTER)
        if text is None:
            return []
        registered = decode_json(text, list[_Registered], "device")
        if len(registered) > MOST_DEVICES:
            raise DecodeError(f"{len(registered)} devices on one node", "", f"at most {MOST_DEVICES} devices")
        for number, card in enumerate(registered, 1):
            check_identifier(card.uuid, f"device {number}, uuid")
        return [
            Device(
                uuid=card.uuid,
                index=index,
                count=card.total_dev_count,
                memory=card.total_memory,
                cores=card.total_compute,
                type=self.name,
                numa=card.numa,
                healthy=card.healthy,
                custom=((ZONE, max(card.link_zone, 0)),),
            )
            for index, card in enumerate(registered)
        ]

    def tenancy(self, memory: int, annotations: Mapping[str, str]) -> str:
        if annotations.get(CLASS) == ONLINE:
            return ONLINE
        policy = annotations.get(QOS, BEST_EFFORT)
        policy = policy if policy in POLICIES else BEST_EFFORT
        return f"{OFFLINE} {policy}" if annotations.get(CLASS) == OFFLINE else policy

    def tenancy_conflict(self, tenancy: str, others: frozenset[str]) -> str:
        welcome = (ONLINE, OFFLINE) if tenancy == ONLINE else (OFFLINE,) if tenancy.startswith(OFFLINE) else POLICIES
        if not all(other.startswith(welcome) for other in others):
            return "CardAppClassMismatch"
        return "" if tenancy == ONLINE or others <= {tenancy} else "CardQosPolicyMismatch"

    def pick(
        self, request: DeviceRequest, candidates: Sequence[Device], annotations: Mapping[str, str]
    ) -> list[int] | None:
        """Whole cards come from the smallest zone of linked cards that has enough."""
        if request.cores != WHOLE_CARD or CLASS in annotations:
            return None
        return smallest_group(request.count, candidates, ZONE)

    def admit(self, container: Container, annotations: Mapping[str, str] = {}) -> Admission:
        admission = super().admit(container, annotations)
        if not admission.matched:
            return NOT_MATCHED
        kind, policy = annotations.get(CLASS), annotations.get(QOS)
        if kind not in (None, ONLINE, OFFLINE):
            raise AdmissionError(f"annotation {CLASS}: {kind!r} is neither {ONLINE} nor {OFFLINE}")
        if kind is not None and exact(limit(container, self.count_resource) or 0) != 1:
            raise AdmissionError(
                f"container {container.name!r}: {self.count_resource}: a pod with {CLASS} gets one card"
            )
        if kind == ONLINE or policy in POLICIES:
            return admission
        if policy is not None:
            raise AdmissionError(f"annotation {QOS}: {policy!r} is none of {', '.join(POLICIES)}")
        return Admission(True, (*admission.changes, AdmissionChange("annotations", QOS, BEST_EFFORT)))

    def extras(self, uses: PodUses, handover: Handover) -> dict[str, str]:
        given = [[_Given(use.uuid, use.cores, use.memory) for use in container] for container in uses]
        return {
            "metax-tech.com/gpu-devices-allocated": encode(given).decode(),
            "metax-tech.com/predicate-time": handover.nanoseconds,
        }


class _Keys(SectionKeys, frozen=True, rename="camel"):
    """Whole GPUs, and sGPUs under names with a `V`."""

    resource_count_name: Name = ""
    resource_v_count_name: Name = ""
    resource_v_memory_name: Name = ""
    resource_v_core_name: Name = ""
    sgpu_topology_aware: bool = False


def _warnings(section: _Keys) -> Iterator[str]:
    if section.sgpu_topology_aware:
        yield "sgpuTopologyAware: Tonnage does not score nodes by the links of sGPUs yet"


def _configured(section: _Keys) -> Iterator[Vendor]:
    if section.resource_count_name:
        yield Metax(count_resource=section.resource_count_name)
    if section.resource_v_count_name:
        yield MetaxShared(
            count_resource=section.resource_v_count_name,
            memory_resource=section.resource_v_memory_name,
            cores_resource=section.resource_v_core_name,
        )


def _usual(flags: Flags) -> Iterator[Vendor]:
    yield Metax(**from_flags(flags, count_resource="metax_name"))
    names = from_flags(
        flags, count_resource="metax_vcount", memory_resource="metax_vmemory", cores_resource="metax_vcore"
    )
    yield MetaxShared(**names)


ENTRY = VendorEntry(
    sections=(
        Section(
            "metax",
            _Keys,
            _configured,
            any_of=("resource_count_name", "resource_v_count_name"),
            warnings=_warnings,
        ),
    ),
    usual=_usual,
)
