"""Plans: pods that have to go, and the pods that get the places which become free."""

from collections.abc import Iterable

from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, Eviction

STAYS, ASKED, LEAVES, SPARED = "stays", "asked", "leaves", "spared"
"""How far a victim has come: nothing was written; whether it goes is not known; it goes or is gone; it may stay."""


class Victim:
    """A pod that has to go."""

    __slots__ = ("eviction", "job", "outcome", "state", "task")

    def __init__(self, eviction: Eviction, task: Task, job: str) -> None:
        self.eviction = eviction
        self.task = task
        self.job = job
        """The job that it belongs to."""
        self.state = STAYS
        self.outcome = ""
        """What became of it, as it was told."""

    @property
    def key(self) -> str:
        return self.task.key


class EvictionPlan:
    """Victims for one job. A plan without promised places is for the sake of the victims' own job."""

    __slots__ = ("against", "decisions", "is_over", "known", "nominated", "number", "seen", "victims")

    def __init__(
        self, number: int, victims: list[Victim], decisions: Iterable[Decision], known: frozenset[str] = frozenset()
    ) -> None:
        self.number = number
        self.victims = victims
        self.decisions = {decision.task.key: decision for decision in decisions}
        """The promised places, by pod."""
        self.nominated = {
            key: decision.task.pod.status.nominatedNodeName or "" for key, decision in self.decisions.items()
        }
        """The node that each pod names as the one that is made free for it."""
        self.known = known
        """Jobs that waited when it was made: it was decided with them in view, so they do not take it over."""
        self.is_over = False
        """Whether nobody is to be stopped for it any more."""
        self.seen: object = None
        """What its pods and their nodes looked like when the places were found."""
        self.against = ""
        """Why somebody could not be stopped so far."""

    @property
    def priority(self) -> int:
        return max((decision.job.priority for decision in self.decisions.values()), default=0)

    def why_not(self, decision: Decision) -> str:
        """Why a pod of it waits."""
        return f"{decision.why_not()}; {self.against}" if self.against else decision.why_not()

    def spareable(self) -> list[list[Victim]]:
        """Victims that could stay, by job: of a job that has lost a pod already nobody is spared."""
        jobs: dict[str, list[Victim]] = {}
        for victim in self.victims:
            jobs.setdefault(victim.job, []).append(victim)
        return [victims for victims in jobs.values() if all(victim.state == STAYS for victim in victims)]

    def end(self) -> list[Victim]:
        """Nobody is stopped for it from here on; those who stay for that reason."""
        self.is_over = True
        spared = [victim for victim in self.victims if victim.state == STAYS]
        for victim in spared:
            victim.state = SPARED
        return spared
