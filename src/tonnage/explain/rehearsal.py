"""Rehearsal: a scheduling cycle on a cluster that is afterwards as before, and changes that are taken back.

A suggestion is proven by such a cycle: the change is made, the actions that place pods run over all waiting pods in
their order, and the pod asked about has a place or has none.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from tonnage.actions.allocate import Allocate
from tonnage.actions.backfill import Backfill
from tonnage.actions.catalog import make_actions
from tonnage.actions.enqueue import Enqueue
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.holding import Holding
from tonnage.cluster.jobs.group import Group
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.explain.moves import remade
from tonnage.framework.cycle import run_cycle
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.node import Node
from tonnage.model.pod import Pod

PLACING = (Enqueue.name, Allocate.name, Backfill.name)
"""The actions that evict nobody."""


class Rehearsal:
    """A cluster that nobody else uses, with what decides on it."""

    def __init__(self, cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[str]) -> None:
        self.cluster = cluster
        self.plugins = plugins
        self.actions = actions
        """The configured actions by name, those that evict included."""

    @contextmanager
    def cycle(
        self, ending: Sequence[str] = (), *, before: Sequence[tuple[Task, Holding]] = (), brief: bool = False
    ) -> Iterator[Session]:
        """A session after the placing actions have run, as if some running pods had ended; then all is undone.

        Some waiting pods may have got their places before.
        """
        cluster = self.cluster
        cluster.settle()
        waiting, reserved, leaving = dict(cluster.waiting), set(cluster.reserved), set(cluster.leaving)
        with Session(cluster, self.plugins, brief=brief) as session:
            try:
                for task, holding in before:
                    session.put_back(task, holding)
                for key in ending:
                    session.evict(cluster.running[key])
                cluster.look_ahead(bool(ending))
                cluster.supposes_gone = bool(ending)
                run_cycle(session, make_actions([name for name in self.actions if name in PLACING]))
                yield session
            finally:
                cluster.supposes_gone = False
                cluster.look_ahead(False)
                for key in [key for key in cluster.reserved if key not in reserved]:
                    session.unplace(key)
                for key in cluster.leaving - leaving:
                    cluster.restore(key)
                cluster.waiting.clear()
                cluster.waiting.update(waiting)

    @contextmanager
    def at_turn_of(self, session: Session, keys: Collection[str]) -> Iterator[None]:
        """The session as it was when these pods had their turn: places of pods after them are free for a while."""
        cluster, order = self.cluster, list(session.decisions)
        first = min(order.index(key) for key in keys if key in session.decisions)
        later = [key for key in order[first + 1 :] if key in cluster.reserved and key not in keys]
        taken = [(cluster.reserved[key], cluster.held(key), key in cluster.pipelined) for key in later]
        for key in later:
            session.unplace(key)
        try:
            yield
        finally:
            for task, held, is_ahead in taken:
                if held is not None:
                    cluster.look_ahead(is_ahead)
                    session.put_back(task, held)
            cluster.look_ahead(False)

    def place_of(self, key: str, ending: Sequence[str] = ()) -> Decision | None:
        """The decision that gives a pod a place in a cycle; nothing if it gets none."""
        with self.cycle(ending, brief=True) as session:
            decision = session.decisions.get(key)
            return decision if decision is not None and decision.node is not None else None

    def places_after_moves(self, key: str, moved: Sequence[str]) -> dict[str, str]:
        """The nodes that a waiting pod and the pods made in the place of others then get; empty if one gets none.

        Whoever moves pods closes their nodes until they have left. A controller makes a pod again as soon as the old
        one is told to leave, or once it has left, so that both must work; the places are those of the former.
        """
        cluster = self.cluster
        again = [remade(cluster, cluster.running[one].pod) for one in moved]
        wanted = [key, *(pod.key for pod in again)]
        with self.joined(again):
            with self.cycle(moved, brief=True) as session:
                if not _places(session, wanted):
                    return {}
            with self.closed({cluster.holders[one] for one in moved}), self.cycle(brief=True) as session:
                early = self._taken(session)
            with self.cycle(moved, before=early, brief=True) as session:
                return _places(session, wanted)

    def _taken(self, session: Session) -> list[tuple[Task, Holding]]:
        """The pods that a cycle has placed, with what they hold."""
        cluster = self.cluster
        placed = [key for key in session.decisions if key in cluster.reserved and key not in cluster.pipelined]
        holdings = [(cluster.reserved[key], cluster.held(key)) for key in placed]
        return [(task, holding) for task, holding in holdings if holding is not None]

    # -- changes

    @contextmanager
    def joined(self, pods: Sequence[Pod]) -> Iterator[None]:
        """Further waiting pods for a while."""
        try:
            for pod in pods:
                self.cluster.upsert_pod(pod)
            yield
        finally:
            for pod in pods:
                self.cluster.remove_pod(pod.key)

    @contextmanager
    def closed(self, names: Collection[str]) -> Iterator[None]:
        """Nodes that take no pods for a while."""
        before = [self.cluster.nodes[name].node for name in sorted(names)]
        try:
            for node in before:
                self.cluster.upsert_node(replace(node, spec=replace(node.spec, unschedulable=True)))
            yield
        finally:
            for node in before:
                self.cluster.upsert_node(node)
            self.cluster.settle()

    @contextmanager
    def edited(self, pods: Sequence[Pod]) -> Iterator[None]:
        """Waiting pods with other specifications for a while."""
        before = [self.cluster.waiting[pod.key].pod for pod in pods]
        try:
            for pod in pods:
                self.cluster.upsert_pod(pod)
            yield
        finally:
            for pod in before:
                self.cluster.upsert_pod(pod)

    @contextmanager
    def extended(self, nodes: Sequence[Node]) -> Iterator[None]:
        """Further nodes for a while."""
        try:
            for node in nodes:
                self.cluster.upsert_node(node)
            yield
        finally:
            for node in nodes:
                self.cluster.remove_node(node.name)
            self.cluster.settle()

    @contextmanager
    def regrouped(self, job: Job, group: Group) -> Iterator[None]:
        """A job with another group for a while."""
        before = job.group
        try:
            job.set_group(group, job.queue, job.class_priority)
            yield
        finally:
            job.set_group(before, job.queue, job.class_priority)


def _places(session: Session, keys: Sequence[str]) -> dict[str, str]:
    """The node of each pod; empty if one of them has none."""
    cluster = session.cluster
    return {key: cluster.holders[key] for key in keys} if cluster.reserved.keys() >= set(keys) else {}
