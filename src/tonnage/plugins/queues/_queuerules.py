"""What a plugin that keeps shares asks of the rules it goes by: KAI's, or one of Volcano's two kinds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from tonnage.framework.decision import Reason
from tonnage.plugins.queues._queuetable import Amounts, QueueTable


class Loss(NamedTuple):
    """Pods that a queue would lose at once: the row of the queue, and what they hold."""

    row: int
    amounts: Amounts


class QueueRules(Protocol):
    """What queues may have and what they hold; queues are named by their row in the table."""

    takes_gangs_whole: bool
    """Whether the pods without which a gang cannot run are lost together."""

    @property
    def table(self) -> QueueTable:
        """All queues."""

    @property
    def deserved(self) -> Sequence[Sequence[float]]:
        """What each queue has a right to."""

    @property
    def fair(self) -> Sequence[Sequence[float]]:
        """What each queue can count on now."""

    @property
    def allocated(self) -> list[list[int]]:
        """What each queue holds."""

    def apart(self) -> Self:
        """The same rules about what queues hold now, which may be charged without a trace here."""

    def charge(self, row: int, amounts: Amounts, *, fixed: bool) -> None:
        """A job of the queue gets something, or gives it up if the amounts are below 0."""

    def forget(self, row: int) -> None:
        """The queue or its next job has changed."""

    def compare(self, one: int, other: int) -> int:
        """Below 0 if the first is served before the second."""

    def why_overused(self, row: int) -> Reason | None:
        """Why a queue has had its share."""

    def why_not_allocatable(self, row: int, amounts: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not get what a pod asks for."""

    def why_not_reclaimer(self, row: int, request: Amounts, *, fixed: bool) -> Reason | None:
        """Why a queue must not take back from others what a job asks for."""

    def reclaimable(self, row: int, request: Amounts, losses: Sequence[Loss]) -> list[bool]:
        """For each loss whether it may be taken for a job of the queue, after those before it that may."""

    def may_enqueue(self, row: int, request: Amounts, inqueue: Mapping[int, Amounts]) -> bool | None:
        """Whether a job may be enqueued beside the inqueue resources of others, by row; nothing without such a rule."""
