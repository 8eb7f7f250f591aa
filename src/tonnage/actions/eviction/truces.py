"""Truces: who was stopped for whom, so that jobs never stop each other in turn.

Each action has its own reasons, and plugins may be anybody's, so two of them may each find that the other's job has to
go. A job that was stopped for another one does not have that one stopped, nor the ones that it was stopped for in turn.
So the relation has no circles, some job is stopped for no other, and evictions end once no more jobs arrive. A truce
ends when a job arrives half an hour later or more: things have changed then.
"""

from collections.abc import Iterable

from tonnage.cluster.jobs.job import Job

TRUCE_SECONDS = 1800.0


class Truces:
    """The evictions of the last while, by the lineages of jobs."""

    def __init__(self) -> None:
        self._stopped_for: dict[str, dict[str, float]] = {}
        """For whom each was stopped, and when that was."""
        self._known: set[str] = set()
        """The lineages that waited in the last cycle or have a truce."""

    def saved(self) -> "Truces":
        """A copy."""
        copy = Truces()
        copy._stopped_for = {lineage: dict(others) for lineage, others in self._stopped_for.items()}
        copy._known = set(self._known)
        return copy

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._stopped_for)

    def begin(self, waiting: Iterable[Job], now: float) -> None:
        """Begin a cycle with these waiting jobs; old truces end if one of them has just arrived."""
        lineages = {job.lineage for job in waiting}
        if not lineages <= self._known:
            for lineage, others in list(self._stopped_for.items()):
                kept = {other: when for other, when in others.items() if now - when < TRUCE_SECONDS}
                self._stopped_for[lineage] = kept
            self._stopped_for = {lineage: others for lineage, others in self._stopped_for.items() if others}
        self._known |= lineages

    def stopped(self, victim: str, beneficiary: str, now: float) -> None:
        """A job was stopped for another one; both are given by lineage."""
        self._stopped_for.setdefault(victim, {})[beneficiary] = now
        self._known |= {victim, beneficiary}

    def spared_by(self, job: Job) -> frozenset[str]:
        """The lineages of jobs that are not stopped for a job."""
        if not self._stopped_for:
            return frozenset()
        found: set[str] = set()
        left = [job.lineage]
        while left:
            for other in self._stopped_for.get(left.pop(), ()):
                if other not in found:
                    found.add(other)
                    left.append(other)
        return frozenset(found)
