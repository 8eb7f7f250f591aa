"""Found cards, as NVML or a file of invented cards describes them, and the cards that the settings make of them."""

from collections.abc import Iterable

import msgspec

from tonnage.agent.core.cards import Card, MigInstance
from tonnage.agent.core.links import CardLinks
from tonnage.agent.core.nodesettings import CardSettings
from tonnage.devices.base import LARGEST_AMOUNT, MIG_MODE, WHOLE_CARD, Device, MigProfile

_MIB = 2**20
_PREFIX = "NVIDIA"
_SLICES = 7
"""Of compute, in every card that can be cut."""


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
    instances: tuple[MigInstance, ...] = ()
    """Those that it has been cut into."""
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
        if one.is_mig and not one.instances:
            left.append(
                LeftOut(one.index, "it is in MIG mode and has no instances; cut it, or take it out of MIG mode")
            )
            continue
        scaling = 1.0 if one.is_mig else settings.memory_scaling
        memory = settings.preconfigured_memory if one.memory is None else int(one.memory // _MIB * scaling)
        if memory <= 0:
            left.append(LeftOut(one.index, "its memory is not known; preConfiguredDeviceMemory states it"))
            continue
        device = Device(
            uuid=one.uuid,
            index=one.index,
            count=len(one.instances) if one.is_mig else settings.split,
            memory=min(memory, LARGEST_AMOUNT),
            cores=WHOLE_CARD if one.is_mig else int(100 * settings.core_scaling),
            type=one.name if one.name.startswith(_PREFIX) else f"{_PREFIX}-{one.name}",
            numa=max(one.numa or 0, 0),
            mode=MIG_MODE if one.is_mig else settings.mode,
            profiles=_profiles(one.instances),
        )
        numa = one.numa if settings.numa_topology and one.numa is not None and one.numa >= 0 else None
        cards.append(Card(device, one.minor, numa, one.name, instances=one.instances, links=one.links))
    return cards, left


def _profiles(instances: Iterable[MigInstance]) -> tuple[MigProfile, ...]:
    """The kinds of instances, with no other places than those where one is: then schedulers choose what there is."""
    kinds: dict[str, list[MigInstance]] = {}
    for one in instances:
        kinds.setdefault(one.profile, []).append(one)
    return tuple(
        MigProfile(
            name, same[0].memory, WHOLE_CARD * same[0].slices // _SLICES, same[0].slices,
            tuple(one.placement for one in same),
        )
        for name, same in sorted(kinds.items())
    )  # fmt: skip
