"""Sets of cards that belong together, by a custom fact of each card or by its index."""

from collections.abc import Sequence

from tonnage.devices.base import Device


def fewest_groups(count: int, candidates: Sequence[Device], fact: str) -> list[int] | None:
    """Cards of the groups with the most candidates; None unless every card has the fact that names its group."""
    groups: dict[object, list[int]] = {}
    for position, device in enumerate(candidates):
        facts = dict(device.custom)
        if fact not in facts:
            return None
        groups.setdefault(facts[fact], []).append(position)
    largest_first = sorted(groups.values(), key=len, reverse=True)
    return [position for group in largest_first for position in group][:count]


def smallest_group(count: int, candidates: Sequence[Device], fact: str) -> list[int]:
    """Cards of the smallest group that has enough, else of several groups, smallest first; ungrouped cards last."""
    groups: dict[object, list[int]] = {}
    alone: list[int] = []
    for position, device in enumerate(candidates):
        group = dict(device.custom).get(fact)
        (groups.setdefault(group, []) if group else alone).append(position)
    smallest_first = sorted(groups.values(), key=len)
    enough = next((group for group in smallest_first if len(group) >= count), None)
    chosen = enough or [position for group in smallest_first for position in group] + alone
    return chosen[:count]


def by_index(candidates: Sequence[Device]) -> dict[int, int]:
    """The positions of candidates by card index, in ascending order of the index."""
    return dict(sorted((device.index, position) for position, device in enumerate(candidates)))
