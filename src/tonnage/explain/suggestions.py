"""Suggestions: the changes that would let a waiting pod run, each found in an open session and proven by a cycle.

A search looks at the cluster as it is when the pod has its turn, the pods before it placed. What it finds is proven
from the beginning: the change is made, all waiting pods are placed in their order, and the pod has a place. What
cannot be proven is not said.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import msgspec

from tonnage.cluster.jobs.group import Group
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.explain.additions import copies_of, kinds_of_nodes
from tonnage.explain.attempt import Attempt, fits
from tonnage.explain.constraints import constraints_of
from tonnage.explain.departures import Departures
from tonnage.explain.edits import PodEdit
from tonnage.explain.holders import holding_of, names_of, owner_of
from tonnage.explain.moves import MoveSearch, PricedDeparture
from tonnage.explain.nearmisses import NearMisses
from tonnage.explain.owners import change_commands, delete_commands, group_commands, move_commands, whose
from tonnage.explain.record import PodHolding, RelocatedPod, Suggestion
from tonnage.explain.rehearsal import Rehearsal
from tonnage.explain.requests import alike, amounts_of, cut_down, largest_that_fits
from tonnage.framework.session import Session
from tonnage.framework.statement import successor
from tonnage.model.annotations import MIN_MEMBERS
from tonnage.model.node import Node
from tonnage.model.pod import Pod

MOST_COPIES = 64
_MOST_ENDS = 3
"""How many alternatives of pods to end are tried until one is proven."""


class SuggestedChange(msgspec.Struct, frozen=True):
    """A change that has yet to be proven, and the suggestion that it becomes."""

    suggestion: Suggestion
    pods: Sequence[Pod] = ()
    """Waiting pods as they would be."""
    ends: Sequence[str] = ()
    moves: Sequence[RelocatedPod] = ()
    """Where they go is not known yet."""
    nodes: Sequence[Node] = ()
    group: Group | None = None
    topic: str = ""
    """Of several with one topic only the first that is proven is said."""


class Prover:
    """Proves changes for one pod."""

    def __init__(self, rehearsal: Rehearsal, task: Task, job: Job) -> None:
        self._rehearsal, self._task, self._job = rehearsal, task, job

    def proven(self, changes: Sequence[SuggestedChange]) -> Iterator[Suggestion]:
        """The suggestions that hold; no session may be open."""
        topics: set[str] = set()
        for change in changes:
            if change.topic and change.topic in topics:
                continue
            if change.moves:
                yield from self._moved(change)
                continue
            place = self._place(change)
            if place:
                topics.add(change.topic)
                yield msgspec.structs.replace(change.suggestion, places=place)

    def _moved(self, change: SuggestedChange) -> Iterator[Suggestion]:
        """Moves after which the pod and all that moved have a place."""
        places = self._rehearsal.places_after_moves(self._task.key, [one.pod for one in change.moves])
        if places:
            moves = [msgspec.structs.replace(one, to=places[successor(one.pod)]) for one in change.moves]
            yield msgspec.structs.replace(change.suggestion, moves=moves, places=places[self._task.key])

    def _place(self, change: SuggestedChange) -> str:
        """The node that the pod gets in a cycle with the change; empty if it gets none."""
        rehearsal = self._rehearsal
        with ExitStack() as stack:
            if change.pods:
                stack.enter_context(rehearsal.edited(change.pods))
            if change.nodes:
                stack.enter_context(rehearsal.extended(change.nodes))
            if change.group is not None:
                stack.enter_context(rehearsal.regrouped(self._job, change.group))
            decision = rehearsal.place_of(self._task.key, change.ends)
            return decision.node or "" if decision is not None else ""


class Finder:
    """Finds changes for one pod in an open session, in which the waiting pods before it have had their turn."""

    def __init__(self, rehearsal: Rehearsal, session: Session, task: Task, job: Job, tasks: Sequence[Task]) -> None:
        self._rehearsal, self._session = rehearsal, session
        self._cluster = session.cluster
        self._task, self._job = task, job
        self._tasks = list(tasks)
        """The pods with which the job would start."""
        self._alike = alike(list(job.tasks.values()), task) if job.group is not None else [task.pod]
        self._alike = [pod for pod in self._alike if pod.key in self._cluster.waiting]
        self.too_small: dict[str, str] | None = None
        """If no empty node of this cluster could hold the pod: why, by kind of node; once additions were looked for."""

    def edits(self) -> Iterator[SuggestedChange]:
        """Changes of the request, then constraints to leave out."""
        found = False
        for amount in amounts_of(self._cluster, self._task):
            units = largest_that_fits(amount, self._fits)
            if units is not None:
                found = True
                words = f"{amount.resource}: {amount.shown(units)} instead of {amount.shown(amount.now)}"
                yield self._edited("request", amount.edit(units), words, amount.text)
        if not found:
            for edit, words in cut_down(NearMisses(self._session, self._task), self._cluster, self._task):
                if self._fits(edit):
                    yield self._edited("request", edit, words, "a smaller request")
                    break
        for constraint in constraints_of(self._cluster, self._task):
            if self._fits(constraint.edit):
                yield self._edited("constraint", constraint.edit, constraint.text, "")

    def _fits(self, edit: PodEdit) -> bool:
        pods = [edit.apply(pod) for pod in self._alike]
        with self._rehearsal.edited(pods):
            waiting = self._cluster.waiting
            tasks = [waiting.get(task.key, task) for task in self._tasks]
            return fits(self._session, self._job, tasks)

    def _edited(self, kind: str, edit: PodEdit, words: str, text: str) -> SuggestedChange:
        pod = self._task.pod
        many = f", in all {len(self._alike)} pods that are alike," if len(self._alike) > 1 else ""
        sentence = f"it fits with {text}: {words}{many} in {whose(pod)}" if text else f"it fits {words}"
        patch = edit.patch(pod)
        suggestion = Suggestion(
            kind, sentence, change_commands(self._alike, patch), [one.key for one in self._alike], patch
        )
        return SuggestedChange(suggestion, [edit.apply(one) for one in self._alike])

    def smaller_gang(self, attempt: Attempt) -> Iterator[SuggestedChange]:
        """A lower minimum of the gang, and a gang that need not stay together."""
        group, job = self._job.group, self._job
        if group is None:
            return
        fit = job.with_place() + attempt.fit
        if 0 < fit < job.minimum and not job.roles and attempt.fit:
            sentence = f"{job.key} starts with {fit} pods if its minimum is lowered from {job.minimum} to {fit}"
            yield SuggestedChange(
                self._with_minimum(sentence, fit, group), group=msgspec.structs.replace(group, minimum=fit)
            )
        if group.near is not None and group.near.required and group.near.field == "spec.topologyConstraint":
            sentence = f"it fits in more than one {group.near.required}: prefer that level instead of requiring it"
            levels = {"requiredTopologyLevel": None, "preferredTopologyLevel": group.near.required}
            patch = {"spec": {"topologyConstraint": levels}}
            near = msgspec.structs.replace(group.near, required="", preferred=group.near.required)
            yield SuggestedChange(
                Suggestion("topology", sentence, group_commands(job, patch), group=patch),
                group=msgspec.structs.replace(group, near=near),
            )
        if group.network is not None and group.network.hard:
            patch = {"spec": {"networkTopology": {"mode": "soft"}}}
            sentence = "it fits in more than one HyperNode: with mode: soft instead of hard"
            yield SuggestedChange(
                Suggestion("topology", sentence, group_commands(job, patch), group=patch),
                group=msgspec.structs.replace(group, network=msgspec.structs.replace(group.network, hard=False)),
            )

    def _with_minimum(self, sentence: str, minimum: int, group: Group) -> Suggestion:
        if group.is_object:
            patch = {"spec": {"minMember": minimum}}
            return Suggestion("gang", sentence, group_commands(self._job, patch), group=patch)
        noted = {"metadata": {"annotations": {MIN_MEMBERS: str(minimum)}}}
        pods = [one.pod for one in self._job.tasks.values()]
        return Suggestion("gang", sentence, change_commands(pods, noted), list(self._job.tasks), noted)

    def ends(self) -> Iterator[SuggestedChange]:
        """Pods whose end makes room, the fewest first."""
        departures = Departures(self._session, self._job)
        found: list[list[str]] = []
        if len(self._tasks) == 1:
            found = departures.alternatives(self._tasks[0], _MOST_ENDS)
        found = found or [departures.of_job(self._tasks)]
        for keys in found:
            if keys:
                yield self._ended(keys)

    def _ended(self, keys: Sequence[str]) -> SuggestedChange:
        pods = [self._held(key) for key in keys]
        nodes = sorted({self._cluster.holders[key] for key in keys})
        count = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
        where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
        sentence = f"it fits once {count} on {where} ended: {names_of(pods)}"
        return SuggestedChange(Suggestion("end", sentence, delete_commands(pods), ends=pods), ends=keys, topic="end")

    def moves(self, search: MoveSearch) -> Iterator[SuggestedChange]:
        """Pods that would run elsewhere as well, and whose moving makes room."""
        found = [self._relocated(one) for one in search.departures(self._session, self._job, self._tasks)]
        if not found:
            return
        count = "1 pod has" if len(found) == 1 else f"{len(found)} pods have"
        sentence = f"it fits once {count} moved elsewhere: {names_of([self._held(one.pod) for one in found])}"
        states = self._cluster.nodes
        nodes = sorted({one.node for one in found if not states[one.node].node.spec.unschedulable})
        yield SuggestedChange(Suggestion("move", sentence, move_commands(found, nodes)), moves=found)

    def _relocated(self, one: PricedDeparture) -> RelocatedPod:
        owner = owner_of(self._cluster.running[one.pod].pod.metadata)
        node = self._cluster.holders[one.pod]
        return RelocatedPod(one.pod, "/".join(owner or ()), node, "", one.gpu_hours, list(one.stops))

    def _held(self, key: str) -> PodHolding:
        state = self._cluster.nodes[self._cluster.holders[key]]
        cards = [card for use in state.uses(key) for card in use.cards]
        size = sum(card.memory for card in cards)
        plural = "" if len(cards) == 1 else "s"
        return holding_of(self._cluster, key, f"{len(cards)} card{plural}, {size:,} MiB" if cards else "no card")

    def additions(self, ahead: int) -> Iterator[SuggestedChange]:
        """Copies of the cluster's kinds of nodes, as few as possible; of equal numbers the smaller nodes.

        If that is not enough, because `ahead` pods wait before it, one more for each of them.
        """
        found: list[tuple[int, NodeState]] = []
        against: dict[str, str] = {}
        is_possible = False
        for state in kinds_of_nodes(self._cluster):
            reason = self._why_not_on(state)
            if reason:
                against[state.name] = reason
            else:
                is_possible = True
                count = self._copies(state, found[0][0] if found else MOST_COPIES)
                if count:
                    found = [(count, state)]
        self.too_small = None if is_possible else against
        for count, state in [(number + more, state) for number, state in found for more in dict.fromkeys((0, ahead))]:
            if count > MOST_COPIES:
                break
            cards = f"{len(state.devices)} × {state.devices[0].type}" if state.devices else "no cards"
            sentence = f"it fits with {count} more node{'s' if count > 1 else ''} like {state.name} ({cards})"
            suggestion = Suggestion("node", sentence, node=state.name, copies=count)
            yield SuggestedChange(suggestion, nodes=list(copies_of(state, count)), topic="node")

    def _why_not_on(self, state: NodeState) -> str:
        """The reason why an empty node of that kind would not hold the pod; empty if it would."""
        copies = list(copies_of(state, 1))
        with self._rehearsal.extended(copies):
            decision = self._session.decide(self._task, self._cluster.mask([copies[0].name]))
            return "" if decision.node is not None else decision.rejected[0].reason

    def _copies(self, state: NodeState, below: int) -> int:
        """How many copies the job needs; 0 if that is not fewer than the best so far."""
        low, high = 0, 1
        while not self._fits_with(state, high):
            low, high = high, high * 2
            if low >= min(below - 1, MOST_COPIES, max(len(self._tasks), 1)):
                return 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits_with(state, middle) else (middle, high)
        return high if high < below else 0

    def _fits_with(self, state: NodeState, count: int) -> bool:
        with self._rehearsal.extended(list(copies_of(state, count))):
            return fits(self._session, self._job, self._tasks)
