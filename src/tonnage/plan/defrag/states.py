"""States of nodes as a batch of columns, of which pods are taken away and to which pods are added, without the engine.

A plan weighs thousands of states that never come to be, so they are arrays: the row of each state's node, what is free
of its cards and of its resources, and how many pods it has. Which cards fit is decided by the engine's own card rules;
everything else that plugins check is left to the proof of the finished plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import Array, Cards, Nodes
from tonnage.cluster.task import Task
from tonnage.model.resources import CPU
from tonnage.plugins.fragmentation.trial import Trial
from tonnage.plugins.helpers.podneeds import lasting_requests


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """Nodes with some pods gone and others added; all arrays have the states on their last axis."""

    rows: Array
    """The row of each state's node."""
    cards: Array
    """What is free of each card, as (kinds of capacity, cards, states)."""
    free: Array
    """What is free of each resource, as (resources, states)."""
    pods: Array
    """How many pods that count are there."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: Array) -> "States":
        """Some of the states, in that order; one may be taken several times."""
        return States(
            self.rows.take(which),
            self.cards.take(which, axis=-1),
            self.free.take(which, axis=-1),
            self.pods.take(which),
        )

    def put(self, which: Array, states: "States") -> None:
        """Overwrite some of the states."""
        self.cards[..., which], self.free[..., which], self.pods[which] = states.cards, states.free, states.pods

    def copy(self) -> "States":
        return States(self.rows.copy(), self.cards.copy(), self.free.copy(), self.pods.copy())


def joined(parts: Sequence[States]) -> States:
    """The states of several batches, one after the other."""
    return States(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.cards for part in parts], axis=-1),
        np.concatenate([part.free for part in parts], axis=-1),
        np.concatenate([part.pods for part in parts]),
    )


class Holder(NamedTuple):
    """What one running pod holds of its node, as a column to give back."""

    cards: Array
    """As (kinds of capacity, cards)."""
    free: Array
    """By resource."""
    positions: tuple[int, ...]
    """The cards that it is on."""


class NodeStates:
    """The nodes of a cluster as states, and what pods take of them."""

    def __init__(self, cluster: Cluster, counts: Array, *, packs_cards: bool = True) -> None:
        cluster.settle()
        self.cluster = cluster
        self.columns = cluster.columns
        self.trial = Trial(cluster)
        self.packs_cards = packs_cards
        """Whether the configuration takes the fullest cards that fit, rather than the emptiest."""
        self.now = States(
            np.arange(self.columns.size),
            self.columns.card_free[..., : self.columns.size].copy(),
            self.columns.free[:, : self.columns.size].copy(),
            counts.copy(),
        )

    def cards_of(self, states: States) -> Cards:
        """The cards of states, as card rules take them."""
        return Cards(Nodes(self.columns, states.rows)).with_free(states.cards)

    def shares(self, states: States) -> Array:
        """The free share of each card, as (cards, states)."""
        return self.trial.shares.of(self.cards_of(states))

    def models(self, states: States) -> Array:
        """The model of each card, as (cards, states)."""
        return self.columns.model.take(states.rows, axis=-1)

    def cpu(self, states: States) -> Array:
        """The free CPU of each state, in millicores."""
        result: Array = states.free[self.columns.resources[CPU]]
        return result

    def holder(self, key: str) -> Holder:
        """What a running pod holds of its node."""
        state = self.cluster.nodes[self.cluster.holders[key]]
        cards = np.zeros(self.columns.card_free.shape[:2], np.int64)
        positions: list[int] = []
        for use in state.uses(key):
            for card in use.cards:
                position = state.position(card.uuid, use.vendor)
                if position is not None:
                    cards[:, position] += (card.slots, card.cores, card.memory)
                    positions.append(position)
        return Holder(cards, self.requests(state.holdings[key].requests), tuple(sorted(set(positions))))

    def requests(self, requests: Sequence[tuple[str, int]]) -> Array:
        """Amounts of resources as a column; resources that no node offers are left out."""
        column = np.zeros(self.columns.free.shape[0], np.int64)
        for name, amount in requests:
            if name in self.columns.resources:
                column[self.columns.resources[name]] += amount
        return column

    def without(self, states: States, holders: Sequence[Sequence[Holder]]) -> States:
        """The states once the pods of each are gone."""
        cards, free, pods = states.cards.copy(), states.free.copy(), states.pods.copy()
        for number, gone in enumerate(holders):
            for holder in gone:
                cards[:, :, number] += holder.cards
                free[:, number] += holder.free
            pods[number] -= len(gone)
        return States(states.rows, cards, free, pods)

    def added(self, states: States, task: Task, allowed: Array) -> tuple[Array, States]:
        """Where one more pod fits, by node rows that are allowed, and the states with it; others are as they were."""
        asked = self.requests(task.requests)[:, None]
        needed = asked > 0
        fits: Array = allowed.take(states.rows) & ((states.free >= asked) | ~needed).all(axis=0)
        free = states.cards
        for request in lasting_requests(task):
            now = States(states.rows, free, states.free, states.pods)
            cards = self.cards_of(now)
            may, _ = self.trial.each(task, request, cards)
            fits &= may.sum(axis=0) >= request.count
            shares = self.trial.shares.of(cards)
            unfit = np.iinfo(np.int64).max
            order = np.where(may, shares if self.packs_cards else -shares, unfit).argsort(axis=0, kind="stable")
            chosen = np.zeros_like(may)
            np.put_along_axis(chosen, order[: request.count], True, axis=0)
            left = self.trial.shares.left(request, free, cards.total, cards.model)
            free = np.where((chosen & may & fits)[None], left, free)
        after = States(states.rows, free, states.free - asked * fits, states.pods + fits)
        return fits, after
