"""The state of one node: its registered devices, and what pods hold on it."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tonnage.cluster.holding import Holding, ImplicitDevice, VendorUse
from tonnage.devices.base import DecodeError, Device, MigPlacement, Vendor
from tonnage.model.node import Node
from tonnage.model.problem import Problem, annotation_field
from tonnage.model.quantity import QuantityError
from tonnage.model.resources import Amounts, amount

_READ = (
    "name",
    "problems",
    "offers",
    "devices",
    "vendors",
    "positions",
    "pair_scores",
    "cordoned",
    "capacities",
    "kinds_of_capacity",
)
"""What `NodeState.read` gets from a node object, beside the object itself."""


class NodeState:
    """A node, its row in the columns, its cards by position, and the pods on it."""

    __slots__ = (
        "assigned",
        "capacities",
        "cordoned",
        "devices",
        "holdings",
        "implicit_uses",
        "kinds_of_capacity",
        "mig",
        "name",
        "node",
        "offers",
        "pair_scores",
        "positions",
        "problems",
        "row",
        "tenancy",
        "vendors",
    )

    def __init__(self) -> None:
        self.row = -1
        """Its row in the columns; negative until it has one."""
        self.name = ""
        self.node: Node
        self.offers: Amounts = {}
        self.devices: list[Device] = []
        self.vendors: list[int] = []
        """The vendor of each device."""
        self.capacities: list[tuple[int, int, int]] = []
        """Slots, memory and cores of each device."""
        self.kinds_of_capacity: frozenset[tuple[int, int, int]] = frozenset()
        self.positions: dict[str, int] = {}
        """The position of each device by UUID."""
        self.cordoned: frozenset[str] = frozenset()
        self.pair_scores: dict[int, Mapping[str, Mapping[str, int]]] = {}
        self.mig: dict[int, list[MigPlacement]] = {}
        """MIG placements in use, by device position."""
        self.tenancy: dict[int, Counter[str]] = {}
        """The tenants of each card whose vendor cares who shares it, by device position."""
        self.holdings: dict[str, Holding] = {}
        self.assigned: dict[ImplicitDevice, str] = {}
        """The UUID of the card that is assigned to each implicit device."""
        self.implicit_uses: dict[str, tuple[VendorUse, ...]] = {}
        """What each pod with implicit devices holds of cards, given the assignments."""
        self.problems: list[Problem] = []

    def uses(self, key: str) -> tuple[VendorUse, ...]:
        """What a pod on this node holds of cards."""
        return self.implicit_uses.get(key) or self.holdings[key].vendors

    def position(self, uuid: str, vendor: int) -> int | None:
        """The position of a card, or nothing if the node has no card of that vendor and UUID."""
        position = self.positions.get(uuid)
        return position if position is not None and self.vendors[position] == vendor else None

    def adopt(self, news: "NodeState") -> None:
        """Take over what was read of the node; the object comes last, so that it tells what was taken over wholly."""
        for name in _READ:
            setattr(self, name, getattr(news, name))
        self.node = news.node

    def read(self, node: Node, vendors: Sequence[Vendor]) -> None:
        """Read a node object; an unreadable part becomes a problem and hides only itself."""
        self.node, self.name = node, node.name
        self.problems = []
        self.offers = self._read_offers(node)
        self.devices, self.vendors, self.positions = [], [], {}
        cordoned: set[str] = set()
        self.pair_scores = {}
        for number, vendor in enumerate(vendors):
            key = vendor.register_annotations[0] if vendor.register_annotations else ""
            try:
                devices = vendor.devices(node)
                if devices and vendor.is_given_up(node):
                    self._given_up(vendor, len(devices))
                    devices = []
                if devices:
                    self._add_devices(devices, number, key)
                    cordoned |= vendor.cordoned(node)
            except DecodeError as error:
                effect = f"the {vendor.name} devices of this node are hidden until it is mended"
                self._unreadable(key, error, effect)
                continue
            if not devices and self.offers.get(vendor.count_resource, 0) > 0:
                self._add_plain_devices(vendor, number)
            try:
                scores = vendor.pair_scores(node) if devices else {}
            except DecodeError as error:
                effect = "its cards are taken as not linked to each other until it is mended"
                self._unreadable(vendor.register_annotations[-1], error, effect)
                scores = {}
            if scores:
                self.pair_scores[number] = scores
        self.cordoned = frozenset(cordoned)
        self.capacities = [(device.count, device.memory, device.cores) for device in self.devices]
        self.kinds_of_capacity = frozenset(self.capacities)

    def _read_offers(self, node: Node) -> Amounts:
        offers: Amounts = {}
        stated = node.status.allocatable if node.status.allocatable is not None else node.status.capacity
        for name, quantity in (stated or {}).items():
            try:
                offers[name] = max(0, amount(name, quantity))
                fault = "" if amount(name, quantity) >= 0 else f"{quantity} is negative"
            except QuantityError as error:
                offers[name], fault = 0, str(error)
            if fault:
                field = f"status.allocatable[{name}]"
                self.problems.append(self._about(field, "", "a quantity from 0 up", f"{fault}; taken as 0"))
        return offers

    def _add_devices(self, devices: Sequence[Device], vendor: int, key: str) -> None:
        for position, device in enumerate(devices):
            if device.uuid in self.positions:
                self.problems.append(
                    self._about(
                        annotation_field(key),
                        f"device {position + 1}",
                        "every UUID once",
                        f"{device.uuid} is registered twice on this node; only the first counts",
                    )
                )
                continue
            self.positions[device.uuid] = len(self.devices)
            self.devices.append(device)
            self.vendors.append(vendor)

    def _add_plain_devices(self, vendor: Vendor, number: int) -> None:
        count = self.offers[vendor.count_resource]
        try:
            self._add_devices(vendor.plain_devices(self.node, count), number, "")
        except DecodeError as error:
            message = f"{error.message}; none of them is used"
            self.problems.append(self._about(error.position, "", error.expected, message))

    def _given_up(self, vendor: Vendor, number: int) -> None:
        said = self.node.annotations[vendor.handshake_annotation]
        message = (
            f"{said[:40]!r}: the device plugin does not answer and the kubelet offers no {vendor.count_resource}; "
            f"its registered cards ({number}) are left out until one of the two returns"
        )
        expected = "a device plugin that runs"
        self.problems.append(self._about(annotation_field(vendor.handshake_annotation), "", expected, message))

    def _unreadable(self, key: str, error: DecodeError, effect: str) -> None:
        message = f"{error.message}; {effect}"
        self.problems.append(self._about(annotation_field(key), error.position, error.expected, message))

    def _about(self, field: str, position: str, expected: str, message: str) -> Problem:
        return Problem(f"Node/{self.name}", field, position, expected, message)
