"""Queue rules as `QueueShares` needs them; KAI has one set, Volcano two."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from tonnage.framework.decision import Reason
from tonnage.plugins.queues._queuetable import Amounts, QueueTable


class Loss(NamedTuple):
    """Pods that a queue would lose together: the row of the queue, and what they hold."""

    row: int
    amounts: Amounts


class QueueRules(Protocol):
    """The entitlements and holdings of queues; a queue is named by its row in the table."""

    takes_gangs_whole: bool
    """Whether the pods without which a gang cannot run are lost together."""

    @property
    def table(self) -> QueueTable:
        """All queues."""

    @property
    def deserved(self) -> Sequence[Sequence[float]]:
        """What each queue deserves."""

    @property
    def fair(self) -> Sequence[Sequence[float]]:
        """The fair share of each queue."""

    @property
    def allocated(self) -> list[list[int]]:
        """What each queue holds."""

    def apart(self) -> Self:
        """A copy that may be charged separately."""

    def charge(self, row: int, amounts: Amounts, *, fixed: bool) -> None:
        """Charge a queue for a job that gets resources, or gives them up if the amounts are negative."""

    def give_up(self, row: int, amounts: Amounts) -> None:
        """Count what a queue gives up to others; asked of a copy that is compared in the order of victims."""

    def forget(self, row: int) -> None:
        """Drop what is remembered of a queue that changed, or whose next job did."""

    def compare(self, one: int, other: int) -> int:
        """Below 0 if the first is served before the second."""

    def why_overused(self, row: int) -> Reason | None:
        """Why a queue is overused."""

    def why_not_allocatable(self, row: int, amounts: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not get what a pod asks for."""

    def why_not_reclaimer(self, row: int, request: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not reclaim what a job asks for."""

    def reclaimable(self, row: int, request: Amounts, losses: Sequence[Loss]) -> list[bool]:
        """For each loss whether the queue may take it for a job, after the permitted ones before it."""

    def may_enqueue(self, row: int, request: Amounts, inqueue: Mapping[int, Amounts]) -> bool | None:
        """Whether a job may be enqueued beside the inqueue resources of others, by row; nothing without such a rule."""
