"""Feedback between containers that share a card: whose launches are held up, and for whom the limit of compute holds.

The rules are those of HAMi's monitor. HAMi-core since March 2026 marks a launch only while the limit holds, so that a
container that was alone once would never count as active again; the time of its last kernel, which every launch
writes, counts beside the mark.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from tonnage.agent.monitor.regions import SharedRegion

PASS = 5.0
"""Seconds between two passes."""
ACTIVE = 10.0
"""Seconds for which a launched kernel makes a container active."""
HELD, LET_GO = -1, 0


class RegionWords(msgspec.Struct, frozen=True):
    """The two words of a region that feedback writes."""

    recent: int
    """Of the last kernel: above 0 if there was one lately, -1 if launches are held up."""
    switch: int
    """1 if the limit of compute holds."""


class Feedback(msgspec.Struct, frozen=True):
    """What one pass says about the containers."""

    words: dict[str, RegionWords]
    """Of those whose words change."""
    blocked: frozenset[str]
    limited: frozenset[str]


def feedback(regions: Mapping[str, SharedRegion], now: float) -> Feedback:
    """One pass over all containers of the node, at a time in unix seconds."""
    recents = {name: region.recent - 1 if region.recent > 0 else region.recent for name, region in regions.items()}
    active: dict[str, Counter[int]] = {}
    for name, region in regions.items():
        if recents[name] > 0 or abs(now - region.last_kernel) <= ACTIVE:
            for uuid in set(region.uuids):
                active.setdefault(uuid, Counter())[region.priority] += 1
    words, blocked, limited = {}, set(), set()
    for name, region in regions.items():
        rivals = [active[uuid] for uuid in region.uuids if uuid in active]
        is_blocked = any(priority < region.priority for counts in rivals for priority in counts)
        is_limited = is_blocked or any(counts[region.priority] > 1 for counts in rivals)
        if is_blocked:
            recent = HELD
            blocked.add(name)
        else:
            recent = max(recents[name], LET_GO)
        if is_limited:
            limited.add(name)
        if (recent, int(is_limited)) != (region.recent, region.switch):
            words[name] = RegionWords(recent, int(is_limited))
    return Feedback(words, frozenset(blocked), frozenset(limited))
