"""KAI's reclaim rules: which queue may reclaim, from which others, and how much.

A job may reclaim if its queue stays within its fair share of what the job asks for. Where the victim's branch of the
tree parts from the job's, victims may be taken as long as, of a resource that they give up,

* the victim's branch holds more than its fair share, what it deserves and its limit allow; or
* the victim's branch holds more than it deserves, and the job's branch stays within what it deserves.

Pods that would be served before the job's queue once they wait again are spared: the next cycle would give them the
resources back. Finally, on every level, an ancestor of the job that would exceed its fair share of a requested or lost
resource must still hold a smaller part of it than each sibling that gives something up.
"""

from collections.abc import Iterator, Sequence

from tonnage.framework.decision import Reason
from tonnage.plugins.queues._dominantshare import order_key
from tonnage.plugins.queues._queuerules import Loss
from tonnage.plugins.queues._queuetable import Amounts, plus
from tonnage.plugins.queues._queueusage import QueueUsage, first_above


def why_beyond_fair_share(usage: QueueUsage, queue: int, request: Amounts) -> Reason | None:
    """Why a queue must not reclaim that much; ancestors are checked once the victims are known."""
    held, fair = usage.allocated[queue], usage.fair[queue]
    place = first_above(plus(held, request), fair, request)
    if place is None:
        return None
    return Reason(
        "QueueBeyondFairShare",
        f"queue {usage.name(queue)} holds {usage.show(place, held[place])} of its share of "
        f"{usage.show(place, fair[place])} {usage.dimensions[place].name}; "
        f"the job asks for {usage.show(place, request[place])} more",
    )


def reclaimable(
    usage: QueueUsage,
    queue: int,
    request: Amounts,
    following: Amounts,
    losses: Sequence[Loss],
    multiplier: float,
) -> list[bool]:
    """For each loss whether a job of the queue that asks for so much may take it.

    The queue's turn comes with the job that it would run next, which may be another one and asks for `following`. Other
    losses may depend on a loss that is given back, so they are decided again without it.
    """
    allowed = [True] * len(losses)
    while True:
        reclaim = _Reclaim(usage, queue, request)
        taken = [may and reclaim.take(loss) for may, loss in zip(allowed, losses, strict=True)]
        spared = set(reclaim.less_saturated(multiplier))
        allowed = [
            may and not reclaim.would_come_back(loss, following) and spared.isdisjoint(usage.table.path(loss.row))
            for may, loss in zip(taken, losses, strict=True)
        ]
        if allowed == taken:
            return allowed


class _Reclaim:
    """What queues have left while losses are taken one after another."""

    def __init__(self, usage: QueueUsage, queue: int, request: Amounts) -> None:
        self._usage, self._queue, self._request = usage, queue, request
        self._wanted = [place for place, amount in enumerate(request) if amount > 0]
        self._involved = set(self._wanted)
        self._left: dict[int, list[int]] = {}
        self._starved: dict[int, bool] = {}
        """Whether a branch of the job stays within what it deserves."""

    def take(self, loss: Loss) -> bool:
        """Take a loss if the rules allow it."""
        usage = self._usage
        mine, other = usage.table.branches(self._queue, loss.row)
        left = self._left.get(other, usage.allocated[other])
        given = [place for place, lost in enumerate(loss.amounts) if lost]
        if mine == other or not (
            _is_above(left, usage.allocatable[other], given)
            or (self._is_starved(mine) and _is_above(left, usage.deserved[other], given))
        ):
            return False
        for row in usage.table.path(loss.row):
            if row not in self._left:
                self._left[row] = list(usage.allocated[row])
            left = self._left[row]
            for place in given:
                left[place] -= loss.amounts[place]
        self._involved.update(given)
        return True

    def would_come_back(self, loss: Loss, following: Amounts) -> bool:
        """Whether the queue that loses would be served before the reclaiming queue, so that nothing is won."""
        usage = self._usage
        mine, other = usage.table.branches(self._queue, loss.row)
        back = order_key(usage, other, loss.amounts, self._left[other])
        return back < order_key(usage, mine, following)

    def _is_starved(self, branch: int) -> bool:
        known = self._starved.get(branch)
        if known is None:
            held, deserved = self._usage.allocated[branch], self._usage.deserved[branch]
            known = all(held[place] + self._request[place] <= deserved[place] for place in self._wanted)
            self._starved[branch] = known
        return known

    def less_saturated(self, multiplier: float) -> Iterator[int]:
        """Queues that give something up and would keep a smaller part of their fair share than the job's branch."""
        usage, parent = self._usage, self._usage.table.parent
        for row in usage.table.path(self._queue):
            held = plus(self._left.get(row, usage.allocated[row]), self._request)
            fair = usage.fair[row]
            over = [place for place in self._involved if held[place] > fair[place]]
            siblings = [one for one in self._left if parent[one] == parent[row] and one != row] if over else ()
            for sibling in siblings:
                left, share = self._left[sibling], usage.fair[sibling]
                # A queue without a share cannot have too small a part of it.
                if any(
                    share[place] and held[place] * multiplier * share[place] >= left[place] * fair[place]
                    for place in over
                ):
                    yield sibling


def _is_above(held: Amounts, bounds: Amounts, places: Sequence[int]) -> bool:
    # A plain loop, because this runs for every potential victim.
    for place in places:  # noqa: SIM110
        if held[place] > bounds[place]:
            return True
    return False
