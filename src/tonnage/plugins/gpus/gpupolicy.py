"""HAMi's GPU policy: which of a node's fitting cards a container gets.

A card's score is 10 × (slots + cores + memory in use with the request added, each as a share of the card's total),
weighted if the pod says so, as an exact fraction. `binpack` takes the highest first, `spread` the lowest, `mutex` only
idle cards, `numa` the highest NUMA node, `topology-aware` the set with the best links; a comma-separated chain sorts by
its members in turn. Among equals the last registered card comes first, as in HAMi; in a chain the highest index.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Literal, NamedTuple

import numpy as np

from tonnage.cluster.columns import CORES, MEMORY, SLOTS, Array, Cards
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.task import Task
from tonnage.devices.base import LARGEST_AMOUNT, DeviceRequest, words
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin, PluginArguments
from tonnage.framework.points import Reads
from tonnage.framework.session import Session
from tonnage.model.excerpt import quoted
from tonnage.model.number import whole_number
from tonnage.model.problem import Problem, annotation_field

BINPACK, SPREAD, MUTEX, NUMA, TOPOLOGY = "binpack", "spread", "mutex", "numa", "topology-aware"
POLICIES = (BINPACK, SPREAD, MUTEX, NUMA, TOPOLOGY)
ANNOTATION = "hami.io/gpu-scheduler-policy"
WEIGHTS_ANNOTATION = "hami.io/device-scoring-weights"
NUMA_FIRST = "first"
_EQUAL_WEIGHTS = (1, 1, 1)
_EXPECTED_WEIGHTS = "expected slot=N,core=N,memory=N, whole numbers from 0 up of which one is above 0"
_LONGEST_TEXT = 256
"""Characters of an annotation that count, so that memos stay small."""
_SCORE, _NUMA, _INDEX = range(3)
# Above this many sets of cards the set grows greedily, card by card, instead of comparing all sets.
_MOST_SETS = 200_000


class CardPolicy(NamedTuple):
    """The members of a GPU policy, and whether it was written as a chain, with a comma."""

    members: tuple[str, ...]
    is_chain: bool


def is_policy(text: str) -> bool:
    """Whether the text is a GPU policy or a chain of policies."""
    chain = words(text)
    return bool(chain) and all(word in POLICIES for word in chain)


def read_policy(text: str) -> CardPolicy:
    """The members of a chain; HAMi treats an unknown one as spread. Of a long text only the beginning counts."""
    return _policy(text[:_LONGEST_TEXT])


@lru_cache(maxsize=1024)
def _policy(text: str) -> CardPolicy:
    return CardPolicy(tuple(word for word in words(text) if word in POLICIES) or (SPREAD,), "," in text)


def read_weights(text: str) -> tuple[int, int, int]:
    """Weights of slots, memory and cores from `slot=1,core=1,memory=3`; ValueError if malformed."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"{quoted(text)}: {_EXPECTED_WEIGHTS}")
    return _weights(text)


@lru_cache(maxsize=1024)
def _weights(text: str) -> tuple[int, int, int]:
    weights: dict[str, int] = {}
    for part in words(text):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in ("slot", "core", "memory") or name in weights:
            raise ValueError(f"{part!r} in {text!r}: {_EXPECTED_WEIGHTS}")
        weight = whole_number(number, 0, LARGEST_AMOUNT)
        if weight is None:
            raise ValueError(f"{part!r} in {text!r}: {_EXPECTED_WEIGHTS}")
        weights[name] = weight
    if len(weights) != 3 or not any(weights.values()):
        raise ValueError(f"{text!r}: {_EXPECTED_WEIGHTS}")
    return weights["slot"], weights["memory"], weights["core"]


class GpuPolicy(Plugin, trusted=True):
    """Orders the cards of a node; a pod's annotations override the defaults."""

    name = "gpupolicy"

    class Arguments(PluginArguments):
        """The defaults of pods without annotations, and whether NUMA breaks ties or precedes the policy."""

        policy: str = SPREAD
        numa_order: Literal["tie", "first"] = "tie"

        def __post_init__(self) -> None:
            if not is_policy(self.policy):
                raise ValueError(f"{self.policy!r} is none of {', '.join(POLICIES)}, nor several with commas between")

    def on_session_open(self, session: Session) -> None:
        self._default = read_policy(self.args.policy)
        self._numa_first = self.args.numa_order == NUMA_FIRST
        self._session = session
        self._cluster = session.cluster
        session.add_pre_predicate(self._why_invalid)
        session.add_card_predicate(self._busy, key=self._key, reads=Reads.LOOK)
        session.add_gpu_order(self._rank, key=self._key)
        session.add_gpu_set(self._best_linked)

    def _policy(self, task: Task) -> CardPolicy:
        wanted = task.annotations.get(ANNOTATION)
        return self._default if wanted is None else read_policy(wanted)

    def _key(self, task: Task) -> Hashable:
        return self._policy(task), task.annotations.get(WEIGHTS_ANNOTATION)

    def _why_invalid(self, task: Task, job: Job) -> Reason | None:
        wanted = task.annotations.get(ANNOTATION)
        if wanted is not None and not is_policy(wanted):
            message = f"{wanted!r} is no GPU policy; {','.join(read_policy(wanted).members)} is used"
            expected = f"{', '.join(POLICIES)}, or several of them with commas between"
            self._session.report(Problem(f"Pod/{task.key}", annotation_field(ANNOTATION), "", expected, message))
        text = task.annotations.get(WEIGHTS_ANNOTATION)
        if text is not None and task.demands:
            try:
                read_weights(text)
            except ValueError as error:
                return Reason("InvalidDeviceScoringWeights", f"annotation {WEIGHTS_ANNOTATION}: {error}")
        return None

    def _busy(self, task: Task, request: DeviceRequest, cards: Cards) -> Array | None:
        if MUTEX not in self._policy(task).members:
            return None
        return np.asarray(cards.free[SLOTS] < cards.total[SLOTS])

    def _rank(
        self, task: Task, request: DeviceRequest, node: NodeState, free: Sequence[Sequence[int]], fitting: Sequence[int]
    ) -> Sequence[float]:
        """The rank of each card in HAMi's order, which is consumed from its end."""
        columns: list[Sequence[float]] = []
        for kind, downwards in _sort_keys(self._policy(task), self._wants_one_numa(task, request), self._numa_first):
            if kind == _SCORE:
                column: Sequence[float] = self._scores(task, request, node, free, fitting)
            elif kind == _NUMA:
                column = [node.devices[card].numa for card in fitting]
            else:
                column = [node.devices[card].index for card in fitting]
            columns.append([-value for value in column] if downwards else column)
        ranks = [0] * len(fitting)
        for rank, place in enumerate(sorted(range(len(fitting)), key=list(zip(*columns, strict=True)).__getitem__)):
            ranks[place] = rank
        return ranks

    def _wants_one_numa(self, task: Task, request: DeviceRequest) -> bool:
        if not task.constraints:
            return False
        vendor = self._cluster.vendors[self._cluster.vendor_numbers[request.vendor]]
        return vendor.wants_one_numa(task.annotations)

    def _scores(
        self, task: Task, request: DeviceRequest, node: NodeState, free: Sequence[Sequence[int]], fitting: Sequence[int]
    ) -> list[float]:
        """10 × the weighted shares in use of each card, with the request added.

        Each score is one exact fraction, rounded once, so that cards with equal shares tie.
        """
        text = task.annotations.get(WEIGHTS_ANNOTATION)
        weights = _EQUAL_WEIGHTS if text is None else read_weights(text)
        slots, memory, cores = free[SLOTS], free[MEMORY], free[CORES]
        known = {capacity: _factors(request, capacity, weights) for capacity in node.kinds_of_capacity}
        if len(known) == 1:
            (base, by_slot, by_memory, by_core, whole) = next(iter(known.values()))
            return [
                (base - by_slot * slots[card] - by_memory * memory[card] - by_core * cores[card]) / whole
                for card in fitting
            ]
        result: list[float] = []
        for card in fitting:
            base, by_slot, by_memory, by_core, whole = known[node.capacities[card]]
            result.append((base - by_slot * slots[card] - by_memory * memory[card] - by_core * cores[card]) / whole)
        return result

    def _best_linked(
        self, task: Task, request: DeviceRequest, row: int, candidates: Sequence[int]
    ) -> Sequence[int] | None:
        """topology-aware: the card with the weakest links for a single one, else the best linked set."""
        if TOPOLOGY not in self._policy(task).members:
            return None
        if len(candidates) <= request.count:
            return candidates if len(candidates) == request.count else None
        links = self._links(request, row, candidates)
        if request.count == 1:
            return [candidates[int(links.sum(axis=1).argmin())]]
        if comb(len(candidates), request.count) > _MOST_SETS:
            return [candidates[position] for position in _grow(links, request.count)]
        sets = np.array(list(combinations(range(len(candidates)), request.count)), np.intp)
        member = np.zeros((len(sets), len(candidates)), np.int64)
        np.put_along_axis(member, sets, 1, axis=1)
        strength = ((member @ links) * member).sum(axis=1)
        return [candidates[position] for position in sets[int(strength.argmax())].tolist()]

    def _links(self, request: DeviceRequest, row: int, candidates: Sequence[int]) -> Array:
        """How well the candidates are linked to each other."""
        state = self._cluster.states[row]
        scores = state.pair_scores.get(self._cluster.vendor_numbers[request.vendor], {})
        uuids = [state.devices[position].uuid for position in candidates]
        return np.array([[scores.get(a, {}).get(b, 0) if a != b else 0 for b in uuids] for a in uuids], np.int64)


@lru_cache(maxsize=4096)
def _factors(
    request: DeviceRequest, capacity: tuple[int, int, int], weights: tuple[int, int, int]
) -> tuple[int, int, int, int, int]:
    """A card's score as one fraction: its value with nothing free, the deduction per free unit, the denominator.

    As in HAMi, a card that lacks a quantity has the score 0.
    """
    slots, memory, cores = capacity
    if not (slots and memory and cores):
        return 0, 0, 0, 0, 1
    slot_factor, memory_factor, core_factor = (
        weights[0] * memory * cores,
        weights[1] * slots * cores,
        weights[2] * slots * memory,
    )
    base = slot_factor * (slots + request.count)
    base += memory_factor * (memory + request.memory_on(memory))
    base += core_factor * (cores + request.cores_on(cores))
    return 10 * base, 10 * slot_factor, 10 * memory_factor, 10 * core_factor, slots * memory * cores


@lru_cache(maxsize=1024)
def _sort_keys(policy: CardPolicy, one_numa: bool, numa_first: bool) -> tuple[tuple[int, bool], ...]:
    """The sort keys of cards, the most significant first, and whether each is descending."""
    members = policy.members
    if not policy.is_chain and members[0] != NUMA:
        if members[0] == MUTEX:
            # All cards that fit are idle.
            return ((_NUMA, False),)
        packs = members[0] == BINPACK
        if one_numa or numa_first:
            return ((_NUMA, packs), (_SCORE, not packs))
        return ((_SCORE, not packs), (_NUMA, False))
    by_policy = {BINPACK: (_SCORE, False), SPREAD: (_SCORE, True), NUMA: (_NUMA, False)}
    keys = [by_policy[member] for member in members if member in by_policy] or [(_SCORE, True)]
    if one_numa:
        keys = [(_NUMA, False), *(key for key in keys if key[0] != _NUMA)]
    return (*keys, (_INDEX, False))


def _grow(links: Array, count: int) -> list[int]:
    """A well linked set, grown greedily by the best linked candidate."""
    first = int(links.sum(axis=1).argmax())
    chosen = [first]
    while len(chosen) < count:
        strength = links[chosen].sum(axis=0).astype(np.float64)
        strength[chosen] = -np.inf
        chosen.append(int(strength.argmax()))
    return sorted(chosen)
