"""The objects that the reference keeps: nodes with their cards, what pods ask for, and what they hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tonnage.devices.base import Device, DeviceRequest, DeviceUse, MigPlacement
from tonnage.model.node import Node
from tonnage.model.pod import Pod

ENOUGH = 2**62
"""What a node is taken to have of a resource that it does not state and that is not checked there."""
LARGEST = 2**52
"""Larger amounts are taken for this one."""
NATIVE_REASONS = {
    "cpu": "InsufficientCpu",
    "memory": "InsufficientMemory",
    "ephemeral-storage": "InsufficientEphemeralStorage",
    "pods": "InsufficientPods",
}
Slice = tuple[str, DeviceUse]
"""A vendor's name and what a container gets of one of its cards."""
Shares = list[list[Slice]]
"""Per container in annotation order, what it gets."""


@dataclass(eq=False, slots=True)
class Card:
    """One card and what is in use of it."""

    vendor: str
    device: Device
    cordoned: bool = False
    slots: int = 0
    memory: int = 0
    cores: int = 0
    placements: list[MigPlacement] = field(default_factory=list)

    def copy(self) -> "Card":
        return Card(self.vendor, self.device, self.cordoned, self.slots, self.memory, self.cores, list(self.placements))

    def take(self, use: DeviceUse) -> None:
        self.slots += 1
        self.memory += use.memory
        self.cores += use.cores
        if use.placement is not None:
            self.placements.append(use.placement)


@dataclass(eq=False, slots=True)
class Host:
    """One node: what it offers, its cards, and what is in use of both."""

    node: Node
    offers: dict[str, int] = field(default_factory=dict)
    cards: list[Card] = field(default_factory=list)
    links: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    """Per vendor, slots held by pods that do not say which of the node's cards they hold."""

    def card(self, vendor: str, uuid: str) -> Card | None:
        return next((c for c in self.cards if c.device.uuid == uuid and c.vendor == vendor), None)

    def free(self, name: str, counts: set[str]) -> int:
        missing = ENOUGH if name in NATIVE_REASONS or name in counts else 0
        offered = min(self.offers[name], LARGEST) if name in self.offers else missing
        return offered - self.used.get(name, 0)


@dataclass(eq=False, slots=True)
class Wish:
    """A pod with its requests read."""

    pod: Pod
    kinds: list[str]
    needs: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[int, DeviceRequest]] = field(default_factory=list)
    """Container and what it asks of one vendor, in the order in which they are served."""
    fault: bool = False
    policy: tuple[str, ...] = ()
    uuids: dict[str, tuple[frozenset[str] | None, frozenset[str]]] = field(default_factory=dict)
    """Per vendor, the cards that the pod wants (nothing: any) and those that it refuses."""
    types: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    """Whether the pod takes cards of a vendor, type and mode, as far as that was asked."""


@dataclass(eq=False, slots=True)
class Held:
    """What a pod holds: resources, slices of cards, and slots of vendors whose cards it does not name."""

    node: str
    needs: dict[str, int]
    kinds: list[str]
    shares: dict[str, list[list[DeviceUse]]]
    unknown: dict[str, int]
    most: dict[str, int] = field(default_factory=dict)
    """Per vendor, how many of the named cards may count."""


@dataclass(slots=True)
class Answer:
    """A decision: where, which cards, how good each feasible node is, and why the others will not do."""

    node: str | None
    shares: Shares
    scores: dict[str, float]
    reasons: dict[str, str]


def phases(kinds: Sequence[str], containers: Sequence[list[DeviceUse]]) -> Iterator[list[DeviceUse]]:
    """What runs at the same time: each init container with the sidecars before it, then everything that stays."""
    if len(kinds) != len(containers):
        kinds = ["app"] * len(containers)
    staying: list[DeviceUse] = []
    for kind, uses in zip(kinds, containers, strict=True):
        if kind == "init":
            yield staying + uses
        else:
            staying = staying + uses
    yield staying


def peaks(kinds: Sequence[str], containers: Sequence[list[DeviceUse]]) -> dict[str, tuple[int, int, int]]:
    """Slots, memory and cores that a pod needs of each card in its worst phase."""
    result: dict[str, tuple[int, int, int]] = {}
    for uses in phases(kinds, containers):
        now: dict[str, list[int]] = {}
        for use in uses:
            load = now.setdefault(use.uuid, [0, 0, 0])
            load[0] += 1
            load[1] += use.memory
            load[2] += use.cores
        for uuid, load in now.items():
            before = result.get(uuid, (0, 0, 0))
            result[uuid] = (max(before[0], load[0]), max(before[1], load[1]), max(before[2], load[2]))
    return result


def placement(wish: Wish, node: str, shares: Shares) -> Held:
    """What a pod holds once it was given these shares."""
    vendors = {vendor for container in shares for vendor, _ in container}
    by_vendor = {
        name: [[use for vendor, use in container if vendor == name] for container in shares] for name in vendors
    }
    return Held(node, wish.needs, wish.kinds, by_vendor, {})
