"""EvictionPlan and Victim: the pods to evict for a job, and the places that its pods get then."""

from collections.abc import Callable, Iterable

from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, Eviction

STAYS, ASKED, LEAVES, SPARED = "stays", "asked", "leaves", "spared"
"""States of a victim: nothing was written; the outcome of the write is unknown; it terminates or is gone; it stays."""


class Victim:
    """A pod to evict."""

    __slots__ = ("eviction", "job", "outcome", "state", "task")

    def __init__(self, eviction: Eviction, task: Task, job: str) -> None:
        self.eviction = eviction
        self.task = task
        self.job = job
        """The victim's own job."""
        self.state = STAYS
        self.outcome = ""
        """The outcome as it was recorded; empty until then."""

    @property
    def key(self) -> str:
        return self.task.key


class EvictionPlan:
    """The victims for one job. A plan without nominated places is for the sake of the victims' own job."""

    __slots__ = ("against", "decisions", "is_over", "known", "nominated", "number", "seen", "victims")

    def __init__(
        self, number: int, victims: list[Victim], decisions: Iterable[Decision], known: frozenset[str] = frozenset()
    ) -> None:
        self.number = number
        self.victims = victims
        self.decisions = {decision.task.key: decision for decision in decisions}
        """The nominated places, by pod."""
        self.nominated = {
            key: decision.task.pod.status.nominatedNodeName or "" for key, decision in self.decisions.items()
        }
        """The nominated node of each pod in the API server."""
        self.known = known
        """Jobs that were pending when the plan was made: the plan was decided in view of them and is not theirs."""
        self.is_over = False
        """Whether no more victims are evicted for it."""
        self.seen: object = None
        """The state of its pods and their nodes when the places were found."""
        self.against = ""
        """Why a victim could not be evicted so far."""

    def saved(self) -> Callable[[], None]:
        """A function that brings the plan back to what it is now."""
        victims, states = list(self.victims), [victim.state for victim in self.victims]
        decisions, nominated, is_over, seen = dict(self.decisions), dict(self.nominated), self.is_over, self.seen

        def roll_back() -> None:
            self.victims = list(victims)
            for victim, state in zip(victims, states, strict=True):
                victim.state = state
            self.decisions, self.nominated = dict(decisions), dict(nominated)
            self.is_over, self.seen = is_over, seen

        return roll_back

    def concerns(self, job: str) -> bool:
        """Whether it nominates places for pods of a job."""
        return any(decision.job.key == job for decision in self.decisions.values())

    @property
    def priority(self) -> int:
        return max((decision.job.priority for decision in self.decisions.values()), default=0)

    def why_not(self, decision: Decision) -> str:
        """Why a pod of the plan is pending."""
        return f"{decision.why_not()}; {self.against}" if self.against else decision.why_not()

    def spareable(self) -> list[list[Victim]]:
        """Victims that could stay, by job; a job that has lost a pod already is not spared."""
        jobs: dict[str, list[Victim]] = {}
        for victim in self.victims:
            jobs.setdefault(victim.job, []).append(victim)
        return [victims for victims in jobs.values() if all(victim.state == STAYS for victim in victims)]

    def end(self) -> list[Victim]:
        """Evict no more victims; the victims that are spared by that."""
        self.is_over = True
        spared = [victim for victim in self.victims if victim.state == STAYS]
        for victim in spared:
            victim.state = SPARED
        return spared
