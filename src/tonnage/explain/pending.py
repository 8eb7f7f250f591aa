"""Explanation of a pending pod or job: the sentence, the funnel, the near misses, the gang, and what would help."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tonnage.actions.eviction.evictionaction import starting
from tonnage.cluster.jobs.job import PodStatus
from tonnage.cluster.task import Task, asked
from tonnage.explain.additions import described, kinds_of_nodes
from tonnage.explain.attempt import Attempt, try_out, why_never
from tonnage.explain.evictions import evictions_for, evicts
from tonnage.explain.holders import age_of, holding_of
from tonnage.explain.moves import MoveSearch
from tonnage.explain.nearmisses import NearMisses
from tonnage.explain.placed import fragmentation_cost
from tonnage.explain.queues import queue_explanation
from tonnage.explain.record import ExplainedKind, Explanation, FunnelStep, GangFit, NearMiss, Suggestion
from tonnage.explain.rehearsal import Rehearsal
from tonnage.explain.sentence import why_pending, with_waits
from tonnage.explain.suggestions import Finder, Prover, SuggestedChange
from tonnage.framework.decision import Decision, DecisionOutcome, Eviction, Reason
from tonnage.framework.reasons import known_reason
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement


class PendingExplainer:
    """Explains one pod without a node, or the job that it belongs to."""

    def __init__(self, rehearsal: Rehearsal, task: Task, kind: ExplainedKind, search: MoveSearch | None = None) -> None:
        self._rehearsal, self._task, self._kind, self._move_search = rehearsal, task, kind, search
        self._cluster = rehearsal.cluster
        self._job = self._cluster.groups.job_of(task)
        self._changes: list[SuggestedChange] = []
        self._is_searched = False
        self._parts: dict[str, Any] = {}
        """Parts of the explanation by name."""

    def explain(self, *, suggests: bool) -> Explanation:
        """The explanation; what would help only if it is wanted, because that takes longer."""
        waits: dict[str, Reason] = {}
        with self._rehearsal.cycle() as session:
            decision = session.decisions[self._task.key]
            self._parts |= self._facts(session, decision)
            if decision.node is not None:
                self._place(session, decision)
            else:
                never = why_never(session, self._job)
                with self._rehearsal.at_turn_of(session, self._job.tasks):
                    attempt = Attempt(0, decision) if never is not None else self._attempt(session)
                    self._nodes(session, attempt)
                    if never is not None:
                        self._parts["notes"] = [f"what takes it away: {known_reason(never[1].name).remedy.value}"]
                    elif suggests:
                        self._search(session, attempt)
                if never is None and suggests:
                    waits = self._evictions(session)
        proven = list(Prover(self._rehearsal, self._task, self._job).proven(self._changes))
        self._parts["suggestions"] = [*self._parts.get("suggestions", ()), *proven]
        self._parts["suggestions"].sort(key=lambda one: _KINDS.index(one.kind))
        if self._is_searched and not self._parts["suggestions"] and "impossible" not in self._parts:
            self._parts["notes"] = [*self._parts.get("notes", ()), self._nothing_helps()]
        message = with_waits(why_pending(decision), waits)
        return Explanation(self._kind, self._name, self._sentence(decision), message=message, **self._parts)

    @property
    def _name(self) -> str:
        return self._job.key if self._kind == ExplainedKind.JOB else self._task.key

    def _sentence(self, decision: Decision) -> str:
        if decision.outcome == DecisionOutcome.PLACED:
            return f"fits now: the next cycle places it on {decision.node}"
        return f"waits: {decision.why_not()}"

    def _facts(self, session: Session, decision: Decision) -> dict[str, Any]:
        task, job = self._task, self._job
        before = list(session.decisions)[: list(session.decisions).index(task.key)]
        mates = set(job.tasks)
        facts: dict[str, Any] = {
            "outcome": decision.outcome,
            "job": job.key,
            "queue": job.queue,
            "age": age_of(self._cluster, task.created),
            "nodes": self._cluster.columns.size,
            "ahead": sum(1 for key in before if session.decisions[key].node is None and key not in mates),
        }
        if session.queues.figures():
            facts["share"] = queue_explanation(session, job.queue, self._rehearsal.actions)
        if self._kind == ExplainedKind.JOB or job.group is not None:
            facts["members"] = members_of(job)
        return facts

    def _place(self, session: Session, decision: Decision) -> None:
        """A pod that fits, or that waits with a place."""
        self._parts |= {"node": decision.node, "devices": decision.devices, "scores": decision.scores}
        self._parts["holders"] = [holding_of(self._cluster, key, "the place") for key in decision.waits_for]
        self._parts["fragmentation"] = fragmentation_cost(self._rehearsal, session, self._task.key)

    # -- why it waits

    def _attempt(self, session: Session) -> Attempt:
        with Statement(session) as statement:
            return try_out(session, self._job, self._starting(session), statement)

    def _starting(self, session: Session) -> list[Task]:
        """The pods with which the job would start, the one asked about among them."""
        tasks = starting(session, self._job) if self._job.lacking() else []
        return tasks if any(one.key == self._task.key for one in tasks) else [*tasks, self._task]

    def _nodes(self, session: Session, attempt: Attempt) -> None:
        """The funnel and the near misses of the first pod without a place."""
        failed = attempt.failed
        if failed is None:
            return
        if failed.outcome == DecisionOutcome.UNSCHEDULABLE:
            self._parts["funnel"] = _funnel(failed)
            self._parts["misses"] = self._misses(session, attempt)
        if failed.task.key != self._task.key:
            self._parts["about"] = failed.task.key
        if self._job.group is not None:
            within = attempt.within.name if attempt.within is not None else ""
            self._parts["gang"] = GangFit(
                self._job.minimum,
                len(self._job.tasks) + len(self._job.finished),
                self._job.with_place(),
                attempt.fit,
                failed.task.key,
                failed.why_not(),
                within,
            )

    def _misses(self, session: Session, attempt: Attempt) -> list[NearMiss]:
        """The nearest nodes, once the pods of the job before the first one without a place have theirs."""
        assert attempt.failed is not None
        within = attempt.within
        with Statement(session) as statement:
            for task in self._starting(session)[: attempt.fit]:
                statement.place(task, within)
            return NearMisses(session, attempt.failed.task, None if within is None else within.mask).all()

    # -- what would help

    def _search(self, session: Session, attempt: Attempt) -> None:
        """Changes that may help."""
        self._is_searched = True
        failed = attempt.failed.task if attempt.failed is not None else self._task
        finder = Finder(self._rehearsal, session, failed, self._job, self._starting(session))
        self._changes += finder.edits()
        self._changes += finder.smaller_gang(attempt)
        self._changes += finder.ends()
        self._changes += finder.additions(self._parts["ahead"])
        if finder.too_small is not None:
            self._parts["impossible"] = self._impossible(failed, finder.too_small)
        elif self._move_search is not None:
            self._changes += finder.moves(self._move_search)

    def _nothing_helps(self) -> str:
        """That no change was found, although a node could hold the pod."""
        ahead = self._parts["ahead"]
        first = f"{ahead} waiting pod{'' if ahead == 1 else 's'} before it would take what comes free" if ahead else ""
        return f"nothing that was tried lets it run now{': ' if first else ''}{first}"

    def _evictions(self, session: Session) -> dict[str, Reason]:
        """The evictions that the rules allow; the result is why no action evicts anybody."""
        evictions, waits = evictions_for(session, self._job, self._rehearsal.actions)
        place = session.decisions[self._task.key].node
        if evictions and place is not None:
            self._parts["evictions"] = evictions
            self._parts["suggestions"] = [_preemption(session, evictions, place)]
        elif waits:
            self._parts["not_evicted"] = {name: reason.message or reason.name for name, reason in waits.items()}
        elif not evicts(self._rehearsal.actions):
            self._parts["notes"] = ["the configuration names no action that evicts pods, such as preempt or reclaim"]
        return waits

    def _impossible(self, task: Task, against: Mapping[str, str]) -> str:
        """That the pod fits on no node of this cluster, even an empty one, and why by kind of node."""
        says = f"no node of this cluster could hold {task.key} as it is, even an empty one"
        if not against:
            return says
        if _ABOUT_SIZE.issuperset(against.values()):
            numbers = self._cluster.vendor_numbers
            vendors = {numbers[request.vendor] for demand in task.demands for request in demand.requests}
            return f"{says}: it asks for {_asked(task)}; {described(kinds_of_nodes(self._cluster), vendors)}"
        kinds: dict[str, list[str]] = {}
        for node, reason in against.items():
            kinds.setdefault(reason, []).append(node)
        return f"{says}: " + ", ".join(f"{reason} (nodes like {', '.join(like)})" for reason, like in kinds.items())


_ABOUT_SIZE = frozenset(("CardInsufficientMemory", "NodeInsufficientDevice", "NodeUnregistered"))
"""The reasons that an empty node gives if its cards are too few or too small."""
_KINDS = ("request", "constraint", "gang", "topology", "end", "move", "preemption", "node")
"""The kinds of suggestions in their order."""


def _preemption(session: Session, evictions: Sequence[Eviction], place: str) -> Suggestion:
    held = [holding_of(session.cluster, one.pod, f"a place on {one.node}") for one in evictions]
    # They leave in the rehearsal only.
    pods = [msgspec.structs.replace(one, leaving=False) for one in held]
    moved = sum(1 for one in evictions if one.to)
    names = ", ".join(one.pod for one in evictions[:3]) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
    rest = f"; {moved} of them would run elsewhere" if moved else ""
    sentence = f"the rules allow {evictions[0].action} to evict {names} for it{rest}: {evictions[0].reason}"
    return Suggestion("preemption", sentence, ends=pods, places=place)


def _funnel(decision: Decision) -> list[FunnelStep]:
    left = sum(group.count for group in decision.rejected)
    steps: list[FunnelStep] = []
    for group in decision.rejected:
        left -= group.count
        steps.append(FunnelStep(group.reason, group.plugin, group.count, left, group.example, group.message))
    return steps


def _asked(task: Task) -> str:
    """What a pod asks for, with the memory on each card."""
    requests = [request for demand in task.demands for request in demand.requests]
    cards = [f"{one.memory_asked} on each" for one in requests if one.memory or one.fraction[0]]
    return asked(task.requests) + (f" ({', '.join(dict.fromkeys(cards))})" if cards else "")


def members_of(job: Any) -> dict[str, int]:
    """The pods of a job by status."""
    counts = {status.name.lower(): job.count(status) for status in PodStatus}
    return {name: count for name, count in counts.items() if count}
