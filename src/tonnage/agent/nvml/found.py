"""Found cards, as NVML or a file of invented cards describes them, and the cards that the settings make of them."""

from collections.abc import Iterable

import msgspec

from tonnage.agent.core.cards import Card
from tonnage.agent.core.links import CardLinks
from tonnage.agent.core.nodesettings import CORE_MODE, CardSettings
from tonnage.devices.base import LARGEST_AMOUNT, Device

_MIB = 2**20
_PREFIX = "NVIDIA"


class FoundCard(msgspec.Struct, frozen=True):
    """A card as its driver describes it."""

    index: int
    uuid: str
    name: str
    memory: int | None
    """Bytes; None if the driver does not say."""
    minor: int
    numa: int | None = None
    is_mig: bool = False
    """Whether it is cut into MIG instances."""
    links: CardLinks | None = None


class LeftOut(msgspec.Struct, frozen=True):
    """A card that is not offered, and why."""

    index: int
    why: str


def cards_of(found: Iterable[FoundCard], settings: CardSettings) -> tuple[list[Card], list[LeftOut]]:
    """The cards to offer, in the order of their indexes, and those left out."""
    cards: list[Card] = []
    left: list[LeftOut] = []
    for one in sorted(found, key=lambda card: card.index):
        if one.uuid in settings.hidden_uuids or one.index in settings.hidden_indexes:
            left.append(LeftOut(one.index, "the node configuration hides it"))
            continue
        if one.is_mig and settings.mode == CORE_MODE:
            left.append(LeftOut(one.index, "it is in MIG mode, and the node configuration says hami-core"))
            continue
        memory = (
            settings.preconfigured_memory if one.memory is None else int(one.memory // _MIB * settings.memory_scaling)
        )
        if memory <= 0:
            left.append(LeftOut(one.index, "its memory is not known; preConfiguredDeviceMemory states it"))
            continue
        device = Device(
            uuid=one.uuid,
            index=one.index,
            count=settings.split,
            memory=min(memory, LARGEST_AMOUNT),
            cores=int(100 * settings.core_scaling),
            type=one.name if one.name.startswith(_PREFIX) else f"{_PREFIX}-{one.name}",
            numa=max(one.numa or 0, 0),
            mode=settings.mode,
        )
        numa = one.numa if settings.numa_topology and one.numa is not None and one.numa >= 0 else None
        cards.append(Card(device, one.minor, numa, one.name, links=one.links))
    return cards, left
