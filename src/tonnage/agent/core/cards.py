"""The node's cards: their replicas for the kubelet, their health, and their registration for schedulers."""

from collections.abc import Iterable, Sequence

import msgspec

from tonnage.agent.core.links import CardLinks
from tonnage.devices.base import Device, MigPlacement

PASSING_XIDS = frozenset((13, 31, 43, 45, 68, 109))
"""Errors of a program, not of its card."""
RESET_XIDS = frozenset((48, 62, 64, 74, 79, 95, 119, 120, 140, 154))
"""Errors after which a card needs a reset; it is not well again by itself."""
QUIET = 600.0
"""Seconds without an error after which a card counts as well again."""


class CardLoad(msgspec.Struct, gc=False, frozen=True):
    """What a card does; None is what its driver does not say."""

    used: int | None = None
    """Bytes, of all processes."""
    compute: int | None = None
    """Percent of the time in which a kernel ran."""
    bandwidth: int | None = None
    """Percent of the time in which memory was read or written."""


class MigInstance(msgspec.Struct, gc=False, frozen=True):
    """An instance into which a card has been cut."""

    uuid: str
    profile: str
    memory: int
    """MiB."""
    placement: MigPlacement
    gpu: int
    """The number of the GPU instance."""
    compute: int
    """The number of the compute instance in it."""
    slices: int = 1
    """Of the seven slices of a card's compute."""


class Card(msgspec.Struct, gc=False, frozen=True):
    """A card as NVML shows it, with what the configuration makes of it."""

    device: Device
    """As it is registered."""
    minor: int
    """The number of its device file."""
    numa: int | None = None
    """Its NUMA node, if the kubelet is to know it."""
    model: str = ""
    """As its driver calls it."""
    instances: tuple[MigInstance, ...] = ()
    """Those that it has been cut into."""
    links: CardLinks | None = None
    """Those to the node's other cards, if they are known."""

    def instance_at(self, placement: MigPlacement) -> MigInstance | None:
        """The instance at that place."""
        return next((one for one in self.instances if one.placement == placement), None)

    @property
    def uuid(self) -> str:
        return self.device.uuid

    def replicas(self) -> list[str]:
        """The ids under which the kubelet counts it."""
        return [f"{self.uuid}-{number}" for number in range(self.device.count)]


def uuid_of(replica: str) -> str:
    """The card of a replica's id."""
    return replica.rpartition("-")[0]


class Ailment(msgspec.Struct):
    """Why a card is unhealthy."""

    xid: int
    last: float
    needs_reset: bool


class CardHealth:
    """Which cards are unhealthy, and since when."""

    def __init__(self, passing: frozenset[int] = PASSING_XIDS, quiet: float = QUIET) -> None:
        self._passing = passing
        self._quiet = quiet
        self._ill: dict[str, Ailment] = {}

    def is_well(self, uuid: str) -> bool:
        return uuid not in self._ill

    def reason(self, uuid: str) -> str:
        """Why a card is unhealthy; empty if it is well."""
        ill = self._ill.get(uuid)
        if ill is None:
            return ""
        return f"XID {ill.xid}, which needs a reset of the card" if ill.needs_reset else f"XID {ill.xid}"

    def struck(self, uuids: Iterable[str], xid: int, now: float) -> list[str]:
        """Take an error of cards into account; those that were well before."""
        if xid in self._passing:
            return []
        before = [uuid for uuid in uuids if uuid not in self._ill]
        for uuid in uuids:
            known = self._ill.get(uuid)
            needs_reset = xid in RESET_XIDS or (known is not None and known.needs_reset)
            self._ill[uuid] = Ailment(xid, now, needs_reset)
        return before

    def recovered(self, now: float) -> list[str]:
        """The cards that have been quiet for long enough; they are well from now on."""
        well = [u for u, ill in self._ill.items() if not ill.needs_reset and now - ill.last >= self._quiet]
        for uuid in well:
            del self._ill[uuid]
        return well


def preferred(
    wanted: Sequence[str], available: Sequence[str], must_include: Sequence[str], size: int
) -> tuple[str, ...]:
    """So many ids, of the wanted cards as far as there are any: then the kubelet's book names the right cards."""
    chosen = list(dict.fromkeys(must_include))[:size]
    free = [one for one in sorted(available) if one not in chosen]
    missing = list(wanted)
    for one in chosen:
        if uuid_of(one) in missing:
            missing.remove(uuid_of(one))
    for uuid in missing:
        found = next((one for one in free if uuid_of(one) == uuid), None)
        if found is not None and len(chosen) < size:
            chosen.append(found)
            free.remove(found)
    return (*chosen, *free[: size - len(chosen)])
