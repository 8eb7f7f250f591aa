"""Implicit devices: the cards of pods that do not name theirs, and the assignment of cards to them.

Such pods hold whole cards of plain nodes, or share the card of a group of pods. A plain card has no identity, so any
free one will do: a pod or group is assigned the lowest when it comes and keeps it until it goes. A card that another
pod names belongs to that pod, and the implicit device that had it moves. On other nodes only a group whose card is
known has an assignment; implicit devices without one count as unknown.
"""

from collections.abc import Iterator, Sequence

from tonnage.cluster.columns import SLOTS, Columns
from tonnage.cluster.holding import CardUse, Holding, ImplicitDevice, VendorUse
from tonnage.cluster.nodestate import NodeState
from tonnage.devices.base import MOST_DEVICES, PLAIN_MODE

_GROUP = -1


def _implicit_devices(key: str, holding: Holding) -> Iterator[tuple[ImplicitDevice, str]]:
    """The implicit devices of a pod, each with its card if that is known."""
    for use in holding.vendors:
        for group in use.groups:
            yield (use.vendor, group.group, _GROUP), group.card
        for number in range(min(use.unknown, MOST_DEVICES)):
            yield (use.vendor, key, number), ""


def assign(state: NodeState, columns: Columns, key: str, holding: Holding, before: Sequence[str] = ()) -> None:
    """Assign free cards to a pod's implicit devices while there are some, first the cards it had before."""
    taken = set(state.assigned.values())
    unused = _unused_cards(state, columns)
    order = [*(card for card in unused if card[1] in before), *unused]
    for device, card in _implicit_devices(key, holding):
        vendor = device[0]
        known = card if state.position(card, vendor) is not None else ""
        if device in state.assigned and known in ("", state.assigned[device]):
            continue
        found: str | None = known
        if not known or known in taken:
            found = next((uuid for owner, uuid in order if owner == vendor and uuid not in taken), None)
        if found is not None:
            state.assigned[device] = found
            taken.add(found)


def _unused_cards(state: NodeState, columns: Columns) -> list[tuple[int, str]]:
    """Vendors and UUIDs of the unused plain cards, the lowest first."""
    unused = columns.card_free[SLOTS, :, state.row] == columns.card_total[SLOTS, :, state.row]
    return [
        (vendor, device.uuid)
        for device, vendor, is_unused in zip(state.devices, state.vendors, unused.tolist(), strict=False)
        if is_unused and device.mode == PLAIN_MODE
    ]


def resolved_uses(state: NodeState, key: str, holding: Holding) -> tuple[VendorUse, ...]:
    """What a pod holds of the cards assigned to it and its groups, and how many of its devices have no card."""
    result = []
    for use in holding.vendors:
        cards, unknown = list(use.cards), 0
        for group in use.groups:
            uuid = state.assigned.get((use.vendor, group.group, _GROUP))
            if not group.holds:
                continue
            if uuid is None:
                unknown += 1
                continue
            asked, device = group.request, state.devices[state.positions[uuid]]
            memory, cores = (asked.memory_on(device.memory), asked.cores) if asked is not None else (0, 0)
            cards.append(CardUse(uuid, 1, memory, cores))
        own = [state.assigned.get((use.vendor, key, number)) for number in range(min(use.unknown, MOST_DEVICES))]
        whole = [state.devices[state.positions[uuid]] for uuid in own if uuid is not None]
        cards += [CardUse(device.uuid, 1, device.memory, device.cores) for device in whole]
        unknown += use.unknown - len(whole)
        result.append(VendorUse(use.vendor, tuple(cards), unknown))
    return tuple(result)


def displace(state: NodeState, holding: Holding) -> list[str]:
    """Revoke assignments that contradict the cards that a new pod names; the pods that lose one."""
    claimed: dict[str, ImplicitDevice | None] = {card.uuid: None for use in holding.vendors for card in use.cards}
    claimed |= {card: device for device, card in _implicit_devices("", holding) if card}
    lost = {device for device, uuid in state.assigned.items() if uuid in claimed and claimed[uuid] != device}
    for card, device in claimed.items():
        if (
            device is not None
            and state.assigned.get(device, card) != card
            and state.position(card, device[0]) is not None
        ):
            lost.add(device)
    for device in lost:
        del state.assigned[device]
    holdings = state.holdings
    return [
        key for key in state.implicit_uses if any(device in lost for device, _ in _implicit_devices(key, holdings[key]))
    ]


def release(state: NodeState, key: str, holding: Holding) -> None:
    """Revoke a pod's assignments; a group keeps its card until its last pod goes."""
    needed = {
        device
        for other in state.implicit_uses
        if other != key
        for device, _ in _implicit_devices(other, state.holdings[other])
    }
    for device, _ in _implicit_devices(key, holding):
        if device not in needed:
            state.assigned.pop(device, None)


def drop_stale(state: NodeState) -> None:
    """Revoke assignments of cards that a changed node no longer has; whole cards must still be plain."""
    modes = {card.uuid: card.mode for card in state.devices}
    state.assigned = {
        device: uuid
        for device, uuid in state.assigned.items()
        if modes.get(uuid) == PLAIN_MODE or (uuid in modes and device[2] == _GROUP)
    }


def drop_unneeded(state: NodeState) -> None:
    """Revoke assignments that none of the node's pods needs."""
    needed = {device for key in state.implicit_uses for device, _ in _implicit_devices(key, state.holdings[key])}
    state.assigned = {device: uuid for device, uuid in state.assigned.items() if device in needed}
