"""How often pods were tried in vain, so that the log does not say the same about a waiting pod again and again."""

from collections import OrderedDict
from collections.abc import Iterable

MOST_PODS = 20_000
"""Some megabytes; of more waiting pods than that, those not tried for the longest time are forgotten."""


class Tries:
    """Counts tries of each pod that found no node for the same reasons."""

    def __init__(self, most: int = MOST_PODS) -> None:
        self._most = most
        self._pods: OrderedDict[str, tuple[frozenset[str], int]] = OrderedDict()

    def failed(self, pod: str, reasons: Iterable[str]) -> int:
        """The pod found no node; how often in a row that was for just these reasons, this time included."""
        now = frozenset(reasons)
        before, times = self._pods.get(pod, (now, 0))
        times = times + 1 if before == now else 1
        self._pods[pod] = now, times
        self._pods.move_to_end(pod)
        while len(self._pods) > self._most:
            self._pods.popitem(last=False)
        return times

    def forget(self, pod: str) -> None:
        """The pod found a node, or is gone: what comes after is new."""
        self._pods.pop(pod, None)


def is_worth_saying(times: int) -> bool:
    """Whether it is the first, second, fourth, eighth time, and so on."""
    return times & (times - 1) == 0
