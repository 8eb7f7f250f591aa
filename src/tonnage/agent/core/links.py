"""Links between the cards of a node, and the scores by which schedulers choose cards that are close to each other.

The scores are HAMi's: one part for the way over PCI, and 100 for each NVLink, direct or through switches.
"""

from collections.abc import Mapping

import msgspec

PCI_SCORES = {50: 10, 40: 20, 30: 30, 20: 40, 10: 50, 0: 60}
"""By NVML's level of the common ancestor: from another CPU to the same board."""
NVLINK = 100
MOST_NVLINKS = 18
"""More than this count as none."""

PairScores = dict[str, dict[str, int]]


class CardLinks(msgspec.Struct, frozen=True):
    """The links of one card; other cards by UUID."""

    ancestors: dict[str, int] = {}
    """NVML's level of the ancestor that both have in common."""
    direct: dict[str, int] = {}
    """NVLinks that end at the other card."""
    switched: int = 0
    """NVLinks that end at a switch."""


def pair_scores(links: Mapping[str, CardLinks]) -> tuple[PairScores, list[tuple[str, str]]]:
    """The score of every two cards, and the pairs of which only one card is linked to the other: they score 0."""
    scores: PairScores = {uuid: {} for uuid in links}
    lopsided = []
    for one in links:
        for other in links:
            if one == other:
                continue
            there, back = _nvlinks(links, one, other), _nvlinks(links, other, one)
            if bool(there) != bool(back):
                scores[one][other] = 0
                if one < other:
                    lopsided.append((one, other))
            else:
                scores[one][other] = PCI_SCORES.get(links[one].ancestors.get(other, -1), 0) + NVLINK * there
    return scores, lopsided


def _nvlinks(links: Mapping[str, CardLinks], one: str, other: str) -> int:
    count = links[one].direct.get(other, 0) or min(links[one].switched, links[other].switched)
    return count if count <= MOST_NVLINKS else 0
