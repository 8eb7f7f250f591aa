"""KAI's topology: all pods of a job in one domain, such as a rack or a zone, required or preferred.

A domain is the nodes that share the value of a label and of the labels of all wider levels. Domains are tried from the
preferred level up to the required one, at each level the tightest first that may hold the job; without a required level
all nodes come last. If a job must span several domains of the preferred level, as few as possible are filled. Pods that
have a node pin a job to their domain of the required level.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tonnage.cluster.columns import Array
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.subgroups import Path, SubGroupRule
from tonnage.cluster.jobs.topologyconstraint import LabelConstraint, network_field
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason
from tonnage.framework.nodesets import NodeSet, NodeSets
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import NODE_SETS
from tonnage.framework.session import Session
from tonnage.model.problem import Problem
from tonnage.plugins.topology._fillorder import filling_order, filling_scores
from tonnage.plugins.topology._jobroom import JobRoom, PodKinds
from tonnage.plugins.topology._levels import TopologyLevels

NETWORK = "network-topology-aware"
_EVERYWHERE = "all nodes"


class _Plan(NamedTuple):
    """The levels between which a job searches for a domain; without a widest one any nodes do in the end."""

    levels: TopologyLevels
    narrowest: int
    widest: int | None
    prefers: bool
    """Whether the narrowest level is only preferred, so that wider domains are filled by its domains."""


class JobTopology(Plugin, trusted=True):
    """Keeps the pods of a job together, by node labels."""

    name = "topology"

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster
        self._kinds = PodKinds(session)
        self._known: Memo[tuple[int, tuple[str, ...]], TopologyLevels] = Memo()
        session.add_node_sets(self._node_sets)
        session.add_subgroup_node_sets(self._subgroup_node_sets)

    def _node_sets(self, job: Job, tasks: Sequence[Task]) -> NodeSets | None:
        constraint = job.constraint
        if job.group is not None and job.group.network is not None:
            self._tell_of_network(job, (), constraint)
        return None if constraint is None else self._search(job, (), tasks, constraint)

    def _subgroup_node_sets(self, job: Job, path: Path, tasks: Sequence[Task]) -> NodeSets | None:
        rule = job.subgroups.rule(path) if job.subgroups is not None else SubGroupRule()
        if rule.network is not None:
            self._tell_of_network(job, path, None)
        return None if rule.near is None else self._search(job, path, tasks, rule.near)

    def _search(self, job: Job, path: Path, tasks: Sequence[Task], constraint: LabelConstraint) -> NodeSets | None:
        plan = self._plan(job, path, constraint)
        if isinstance(plan, Reason):
            return NodeSets((), plan)
        if plan is None:
            return None
        return _Search(plan, JobRoom(self._session, self._kinds, job, tasks, path)).node_sets()

    def _tell_of_network(self, job: Job, path: Path, constraint: LabelConstraint | None) -> None:
        """Report a network topology of a group, or of a subgroup, that no plugin reads."""
        if constraint is not None:
            message = f"has no effect beside {constraint.field}"
        elif (NETWORK, NODE_SETS.name) not in self._session.registered:
            message = f"has no effect: the configuration does not name the plugin {NETWORK}, or switches it off"
        else:
            return
        self._session.report(Problem(f"PodGroup/{job.key}", network_field(path), "", "", message))

    # -- constraints

    def _plan(self, job: Job, path: Path, said: LabelConstraint) -> _Plan | Reason | None:
        """The levels of a constraint; a reason if the required one is invalid, nothing if only the preferred is."""
        labels = self._labels(said)
        if isinstance(labels, str):
            return self._refuse(job, path, said, labels)
        required, preferred = said.required, said.preferred
        levels = self._levels(labels)
        for label in (required, preferred):
            fault = ""
            if label and label not in labels:
                fault = f"Topology {said.topology} has no level {label}; its levels are {', '.join(labels)}"
            elif label and not levels.count(labels.index(label)):
                wider = " and of all wider levels" if labels.index(label) else ""
                fault = f"no node has the label {label}{wider}"
            if fault and label == required:
                return self._refuse(job, path, said, fault)
            if fault:
                self._report(job, path, said, f"{fault}; it is not preferred")
                preferred = ""
        widest = labels.index(required) if required else None
        if preferred and widest is not None and labels.index(preferred) < widest:
            wider = f"the preferred level {preferred} is wider than the required {required}; left out"
            self._report(job, path, said, wider)
            preferred = ""
        if not preferred and widest is None:
            return None
        narrowest = labels.index(preferred or required)
        return _Plan(levels, narrowest, widest, bool(preferred))

    def _labels(self, said: LabelConstraint) -> tuple[str, ...] | str:
        """The labels of the levels, the widest first; or what is wrong."""
        if said.topology is None:
            return tuple(dict.fromkeys(label for label in (said.required, said.preferred) if label))
        if not said.topology:
            return "it names a level, but no Topology"
        known = self._cluster.topologies.get(said.topology)
        return f"there is no Topology {said.topology}" if known is None else known.labels

    def _levels(self, labels: tuple[str, ...]) -> TopologyLevels:
        self._cluster.settle()
        memo, key = self._known.at(self._cluster.columns.layout), (self._cluster.topology.version, labels)
        known = memo.get(key)
        return memo.keep(key, TopologyLevels(self._cluster, labels)) if known is None else known

    def _refuse(self, job: Job, path: Path, said: LabelConstraint, fault: str) -> Reason | None:
        if not said.required:
            self._report(job, path, said, f"{fault}; nothing is preferred")
            return None
        self._report(job, path, said, f"{fault}; the pods wait")
        return Reason("InvalidTopology", f"{job.key}: {fault}")

    def _report(self, job: Job, path: Path, said: LabelConstraint, message: str) -> None:
        by_group = bool(path) or (job.group is not None and job.group.near is not None)
        name = f"PodGroup/{job.key}" if by_group else f"Pod/{min(job.tasks, default=job.key)}"
        field = f"spec.subGroups[{path[-1]}].topologyConstraint" if path else said.field
        self._session.report(Problem(name, field, "", "a level of a Topology, or a label of nodes", message))


class _Search:
    """The search for domains that may hold some pods of one job, or of a subgroup."""

    def __init__(self, plan: _Plan, room: JobRoom) -> None:
        self._plan = plan
        self._levels = plan.levels
        self._room = room
        self._held = room.held
        self._counted: dict[int, tuple[list[float], list[float]]] = {}

    def node_sets(self) -> NodeSets:
        """The candidate domains, and why the job waits if it fits into none."""
        plan = self._plan
        sets = [one for level in range(plan.narrowest, (plan.widest or 0) - 1, -1) for one in self._at(level)]
        if plan.widest is not None:
            return NodeSets(sets, self._why_none(plan.widest))
        sets.append(NodeSet(_EVERYWHERE, np.ones(len(self._held), np.bool_), True, self._scores(-1, None)))
        label = self._levels.labels[plan.narrowest]
        message = f"{self._room.subject} prefers one value of the node label {label}, and fits nowhere"
        return NodeSets(sets, Reason("TopologyNotMet", message))

    def _at(self, level: int) -> Iterator[NodeSet]:
        """The domains of a level that may hold the job, then the others; more of its pods, the tighter, by name."""
        levels, fit = self._levels, self._room.fit(self._levels.totals(level))
        inside = levels.totals(level)(self._held).tolist()
        enough, tightness, holds = fit.enough.tolist(), fit.tightness.tolist(), fit.holds.tolist()

        def order(domain: int) -> tuple[bool, float, float, int]:
            near = tightness[domain] if enough[domain] else holds[domain]
            return not enough[domain], -inside[domain], -near, domain

        for domain in sorted(self._allowed(level), key=order):
            mask = levels.numbers[level] == domain
            scores = self._scores(level, mask) if enough[domain] else None
            yield NodeSet(levels.names[level][domain], mask, enough[domain], scores)

    def _allowed(self, level: int) -> list[int]:
        """The domains of a level; if the job has pods with a node, those in the same required domains."""
        widest, domains = self._plan.widest, range(1, len(self._levels.names[level]))
        if widest is None or not self._held.any():
            return list(domains)
        pinned = self._levels.totals(widest)(self._held) > 0
        around = pinned.take(self._levels.above(level, widest)).tolist()
        return [domain for domain in domains if around[domain]]

    def _scores(self, level: int, mask: Array | None) -> Array | None:
        """Scores that fill few of the preferred domains within a wider one, or of all without a mask."""
        if not self._plan.prefers:
            return None
        layers: list[tuple[Array, list[int]]] = []
        for narrower in range(level + 1, self._plan.narrowest + 1):
            numbers = self._levels.numbers[narrower]
            parts = np.unique(numbers if mask is None else numbers[mask]).tolist()
            order = filling_order([part for part in parts if part], *self._count(narrower), self._room.needed)
            layers.append((numbers, order))
        return filling_scores(layers)

    def _count(self, level: int) -> tuple[list[float], list[float]]:
        """How many pods each domain of a level has room for, and how many of the job it has."""
        if level not in self._counted:
            totals = self._levels.totals(level)
            self._counted[level] = self._room.capacity(totals).tolist(), totals(self._held).tolist()
        return self._counted[level]

    def _why_none(self, level: int) -> Reason:
        """What the job needs, and what the domain nearest to holding it lacks."""
        totals = self._levels.totals(level)
        fit, names = self._room.fit(totals), self._levels.names[level]
        message = f"{self._room.subject} needs {self._room.needed} pods in one domain of {self._levels.labels[level]}"
        domains = self._allowed(level)
        if not domains:
            return Reason("TopologyNotMet", f"{message}, and has pods on nodes that are in none")
        if self._held.any():
            message += f", beside those that it has in {', '.join(names[domain] for domain in domains[:3])}"
        if not fit.enough[domains].any():
            best = self._room.nearest(fit, domains)
            message += f"; the best one, {names[best]}, {self._room.shortage(totals, fit, best)}"
        return Reason("TopologyNotMet", message)
