"""Which cards pods have that do not name theirs: whole cards of plain nodes, and the cards of groups of pods.

A plain card has no identity, so any free one will do: a pod or group gets the lowest when it comes and keeps it until
it goes. A card that another pod names is that pod's, and whoever was put there moves. On other nodes only a group whose
card is known has a seat; what has none counts as unknown.
"""

from collections.abc import Iterator, Sequence

from tonnage.cluster.columns import SLOTS, Columns
from tonnage.cluster.holding import CardUse, Holding, Seat, VendorUse
from tonnage.cluster.nodestate import NodeState
from tonnage.devices.base import MOST_DEVICES, PLAIN_MODE

_GROUP = -1


def _wanted(key: str, holding: Holding) -> Iterator[tuple[Seat, str]]:
    """What a pod needs seats for, with the card if it is known."""
    for use in holding.vendors:
        for group in use.groups:
            yield (use.vendor, group.group, _GROUP), group.card
        for number in range(min(use.unknown, MOST_DEVICES)):
            yield (use.vendor, key, number), ""


def assign(state: NodeState, columns: Columns, key: str, holding: Holding, before: Sequence[str] = ()) -> None:
    """Give a pod's unnamed cards seats as far as there are any, on the cards it had before if they are free."""
    taken = set(state.seats.values())
    unused = _unused_cards(state, columns)
    order = [*(card for card in unused if card[1] in before), *unused]
    for seat, card in _wanted(key, holding):
        vendor = seat[0]
        known = card if state.position(card, vendor) is not None else ""
        if seat in state.seats and known in ("", state.seats[seat]):
            continue
        found: str | None = known
        if not known or known in taken:
            found = next((uuid for owner, uuid in order if owner == vendor and uuid not in taken), None)
        if found is not None:
            state.seats[seat] = found
            taken.add(found)


def _unused_cards(state: NodeState, columns: Columns) -> list[tuple[int, str]]:
    """Vendors and UUIDs of the plain cards of which nothing is used, the lowest first."""
    unused = columns.card_free[SLOTS, :, state.row] == columns.card_total[SLOTS, :, state.row]
    return [
        (vendor, device.uuid)
        for device, vendor, is_unused in zip(state.devices, state.vendors, unused.tolist(), strict=False)
        if is_unused and device.mode == PLAIN_MODE
    ]


def found_uses(state: NodeState, key: str, holding: Holding) -> tuple[VendorUse, ...]:
    """What a pod holds with the cards that it and its groups have, and how many it has without any."""
    result = []
    for use in holding.vendors:
        cards, unknown = list(use.cards), 0
        for group in use.groups:
            uuid = state.seats.get((use.vendor, group.group, _GROUP))
            if not group.holds:
                continue
            if uuid is None:
                unknown += 1
                continue
            asked, device = group.request, state.devices[state.positions[uuid]]
            memory, cores = (asked.memory_on(device.memory), asked.cores) if asked is not None else (0, 0)
            cards.append(CardUse(uuid, 1, memory, cores))
        own = [state.seats.get((use.vendor, key, number)) for number in range(min(use.unknown, MOST_DEVICES))]
        whole = [state.devices[state.positions[uuid]] for uuid in own if uuid is not None]
        cards += [CardUse(device.uuid, 1, device.memory, device.cores) for device in whole]
        unknown += use.unknown - len(whole)
        result.append(VendorUse(use.vendor, tuple(cards), unknown))
    return tuple(result)


def make_way(state: NodeState, holding: Holding) -> list[str]:
    """Take the seats away that are on cards which a newcomer names, or not where it says; the pods that had them."""
    claimed: dict[str, Seat | None] = {card.uuid: None for use in holding.vendors for card in use.cards}
    claimed |= {card: seat for seat, card in _wanted("", holding) if card}
    lost = {seat for seat, uuid in state.seats.items() if uuid in claimed and claimed[uuid] != seat}
    for card, seat in claimed.items():
        if seat is not None and state.seats.get(seat, card) != card and state.position(card, seat[0]) is not None:
            lost.add(seat)
    for seat in lost:
        del state.seats[seat]
    return [key for key in state.loose if any(seat in lost for seat, _ in _wanted(key, state.holdings[key]))]


def release(state: NodeState, key: str, holding: Holding) -> None:
    """Take a pod's seats away, those of its groups only if it was the last of them."""
    needed = {seat for other in state.loose if other != key for seat, _ in _wanted(other, state.holdings[other])}
    for seat, _ in _wanted(key, holding):
        if seat not in needed:
            state.seats.pop(seat, None)


def keep_seats(state: NodeState) -> None:
    """After a node has changed, forget seats on cards that are no longer there; whole cards must still be plain."""
    modes = {device.uuid: device.mode for device in state.devices}
    state.seats = {
        seat: uuid
        for seat, uuid in state.seats.items()
        if modes.get(uuid) == PLAIN_MODE or (uuid in modes and seat[2] == _GROUP)
    }
