"""Volcano's network-topology-aware: fill one HyperNode before the next.

A HyperNode's share in use, over the requested resources that have a weight, is

    Σ weight × (requested + used) / allocatable ÷ Σ weight

over the sums of its nodes, and 0 if a resource would overflow. A node's score is 100 × the plugin's weight × the mean
of the shares of the HyperNodes that contain it, one for each tier, where each tier counts `fading` times as much as the
one below. A tier at which the node is in no HyperNode counts as full, so that nodes outside are taken first. The root
HyperNode contains every node.

Any placement changes the HyperNodes around it, so every change rescores all nodes.

Pods of a job that must be within one HyperNode are not scored this way; `_hypernodesets` holds the search for it.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tonnage.cluster.columns import Array, Nodes
from tonnage.cluster.jobs.job import HAVE_PLACES, Job
from tonnage.cluster.jobs.subgroups import Path
from tonnage.cluster.jobs.topologyconstraint import HyperNodeConstraint, network_field
from tonnage.cluster.memo import Memo
from tonnage.cluster.task import Requests, Task
from tonnage.framework.decision import Reason
from tonnage.framework.nodesets import NodeSets
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.framework.session import Session
from tonnage.model.problem import Problem
from tonnage.model.resources import CPU, MEMORY
from tonnage.plugins.helpers.unknownresources import NamedResource, UnknownResources
from tonnage.plugins.helpers.weights import Warn, check_keys, integer, resource_weights, weight_in
from tonnage.plugins.topology._domainusage import DomainUsage
from tonnage.plugins.topology._hypernodesets import HyperNodeSearch, HyperNodeTiers, highest_tier
from tonnage.plugins.topology._jobroom import JobRoom, PodKinds

WEIGHT_KEY = "weight"
CPU_KEY = "hypernode.binpack.cpu"
MEMORY_KEY = "hypernode.binpack.memory"
RESOURCES_KEY = "hypernode.binpack.resources"
ENABLE_KEY = "hypernode.binpack.normal-pod.enable"
FADING_KEY = "hypernode.binpack.normal-pod.fading"
EVICT_KEY = "hypernode.gradient.evict.max-hypernodes"
ROOT = "<cluster-top-hypernode>"
"""Volcano's name for the HyperNode that contains every node."""
_KEYS = (WEIGHT_KEY, CPU_KEY, MEMORY_KEY, RESOURCES_KEY, ENABLE_KEY, FADING_KEY, EVICT_KEY)
_OWN = {CPU: CPU_KEY, MEMORY: MEMORY_KEY}
_FADING = 0.8
_EVICT = 8
_MOST = 100


class _WeightedRequest(NamedTuple):
    """The scored part of requests, as columns; and whether they contain a resource that no node knows."""

    rows: Array
    amounts: Array
    weights: Array
    weight_sum: int
    lost: bool


class _HyperNodeMap(NamedTuple):
    """The HyperNodes of nodes: for each tier and set of nodes in the same ones, the index of the domain."""

    domains: DomainUsage
    tiers: list[int]
    """The tier of each domain."""
    levels: list[int]
    """The distinct tiers."""
    places: Array
    sets: Array
    """The set of each node."""
    tier_weights: list[float]
    """The weight of each tier."""
    between: float
    """The weight of tiers between the lowest and highest that no HyperNode has."""


class NetworkTopologyAware(Plugin, trusted=True):
    """Orders nodes by the share in use of the HyperNodes that contain them."""

    name = "network-topology-aware"

    class Arguments(PluginArguments):
        """The weights, named `weight`, `hypernode.binpack.cpu` and so on in a configuration."""

        weight: int = 1
        """The factor of the score; 0 switches it off."""
        cpu: int = 1
        memory: int = 1
        resources: dict[str, int] = msgspec.field(default_factory=dict)
        """Further resources and their weights; `cpu` and `memory` are ignored here."""
        normal_pods: bool = True
        """Whether pods of jobs without a topology are scored."""
        fading: float = _FADING
        """The weight of a tier relative to the one below."""
        evict_max_hypernodes: int = _EVICT
        """Has no effect yet."""

    def __init__(self, args: PluginArguments | None = None) -> None:
        super().__init__(args)
        self.weights: dict[str, int] = {**self.args.resources, CPU: self.args.cpu, MEMORY: self.args.memory}
        """The weight of every resource that has one."""
        checked = {WEIGHT_KEY: self.args.weight, FADING_KEY: self.args.fading}
        for key, value in (checked | {_key_of(name): weight for name, weight in self.weights.items()}).items():
            if not 0 <= value < np.inf:
                raise ArgumentError(key, f"{value} is below 0" if value < 0 else f"expects a number, not {value}")

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Warn) -> Arguments:
        """Volcano's keys; where Volcano falls back to a default, the default applies with a warning."""
        check_keys(cls.name, given, _KEYS, RESOURCES_KEY)
        args = cls.Arguments(
            weight=weight_in(given, WEIGHT_KEY, warn),
            cpu=weight_in(given, CPU_KEY, warn),
            memory=weight_in(given, MEMORY_KEY, warn),
            resources=resource_weights(given, RESOURCES_KEY, _OWN, warn),
            normal_pods=_switch(given, ENABLE_KEY),
            fading=_fading(given, warn),
            evict_max_hypernodes=integer(given, EVICT_KEY, _EVICT),
        )
        if args.weight == 0:
            warn(WEIGHT_KEY, "0 switches the plugin off")
        elif not any((args.cpu, args.memory, *args.resources.values())):
            warn(WEIGHT_KEY, "every resource has weight 0, so that all HyperNodes count as empty")
        if EVICT_KEY in given:
            warn(EVICT_KEY, "has no effect here yet: Tonnage does not evict")
        if args.evict_max_hypernodes <= 0:
            args.evict_max_hypernodes = _EVICT
        return args

    def written_arguments(self) -> dict[str, Any]:
        args = self.args
        named = {WEIGHT_KEY: args.weight, CPU_KEY: args.cpu, MEMORY_KEY: args.memory}
        named |= {RESOURCES_KEY: ", ".join(args.resources)}
        named |= {f"{RESOURCES_KEY}.{name}": weight for name, weight in args.resources.items()}
        return named | {ENABLE_KEY: args.normal_pods, FADING_KEY: args.fading, EVICT_KEY: args.evict_max_hypernodes}

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._cluster = session.cluster
        self._kinds = PodKinds(session)
        self._known: Memo[Requests, _WeightedRequest] = Memo()
        self._around: tuple[tuple[int, int], _HyperNodeMap | None] = (-1, -1), None
        self._factor = float(_MOST * self.args.weight)
        effect = "its weight {} makes every HyperNode full for pods that request it"
        named = [
            NamedResource(_key_of(name), name, effect.format(weight)) for name, weight in self.args.resources.items()
        ]
        self._unknown_resources = UnknownResources(session, self.name, named)
        if self.args.weight and self.args.normal_pods:
            session.add_batch_node_order(self._score, key=self._key, fresh=True)
        if self.args.weight:
            session.add_node_sets(self._node_sets)
            session.add_subgroup_node_sets(self._subgroup_node_sets)

    def _key(self, task: Task) -> Hashable:
        return None if self._is_in_network(task) else task.requests

    def _is_in_network(self, task: Task) -> bool:
        """Whether the pod's job must be within one HyperNode, or a subgroup that the pod is in."""
        job = self._cluster.groups.of_pod.get(task.key)
        if job is None or job.group is None:
            return False
        if job.group.network is not None or job.subgroups is None:
            return job.group.network is not None
        return job.subgroups.rule(job.subgroup_of(task)).network is not None

    def _node_sets(self, job: Job, tasks: Sequence[Task]) -> NodeSets | None:
        """The candidate HyperNodes of a job with a network topology."""
        said = job.group.network if job.group is not None else None
        return None if said is None or job.constraint is not None else self._search(job, (), tasks, said)

    def _subgroup_node_sets(self, job: Job, path: Path, tasks: Sequence[Task]) -> NodeSets | None:
        """The candidate HyperNodes of a subgroup with a network topology."""
        said = job.subgroups.rule(path).network if job.subgroups is not None else None
        return None if said is None else self._search(job, path, tasks, said)

    def _search(self, job: Job, path: Path, tasks: Sequence[Task], said: HyperNodeConstraint) -> NodeSets | None:
        highest = highest_tier(said, self._cluster.hypernodes)
        around = self._hypernodes()
        fault = highest if isinstance(highest, str) else "there are no HyperNodes" if around is None else ""
        if fault or isinstance(highest, str) or around is None:
            message = f"{fault}; {'the pods wait' if said.hard else 'nothing is preferred'}"
            self._session.report(Problem(f"PodGroup/{job.key}", network_field(path), "", "HyperNodes", message))
            return NodeSets((), Reason("InvalidTopology", f"{job.key}: {fault}")) if said.hard else None
        tiers = HyperNodeTiers(
            around.domains.names,
            around.tiers,
            around.domains.member,
            dict(zip(around.levels, around.places.take(around.sets, axis=1), strict=True)),
        )
        room = JobRoom(self._session, self._kinds, job, tasks, path)
        scores = self.hypernode_scores(tasks[: room.needed], placed=job.inside(path, *HAVE_PLACES))
        return HyperNodeSearch(tiers, scores, room).node_sets(highest if said.hard else None)

    def hypernode_scores(
        self, tasks: Sequence[Task], among: Iterable[str] | None = None, placed: Sequence[Task] = ()
    ) -> dict[str, float]:
        """The score of each HyperNode for pods of a job together; ties go to the one with more of the job's pods.

        Without `among` all HyperNodes are scored, the root included. `placed` are the job's pods that have a node.
        """
        around = self._hypernodes()
        if around is None:
            return {}
        total: dict[str, int] = {}
        for task in tasks:
            for name, amount in task.requests:
                total[name] = total.get(name, 0) + amount
        domains = around.domains
        shares = dict(zip(domains.names, self._shares(domains, tuple(sorted(total.items()))).tolist(), strict=True))
        if among is not None:
            shares = {name: shares[name] for name in among if name in shares}
        best = [name for name, share in shares.items() if share == max(shares.values())]
        if len(best) > 1:
            everyone = [*tasks, *placed]
            held = [self._cluster.nodes.get(self._cluster.holders.get(task.key, "")) for task in everyone]
            rows = [state.row for state in held if state is not None]
            inside = domains.member[:, rows].sum(axis=1).tolist()
            for name in best:
                shares[name] += inside[domains.names.index(name)] / max(1, len(everyone))
        return {name: share * self._factor for name, share in shares.items()}

    def _score(self, task: Task, nodes: Nodes) -> Array | None:
        self._unknown_resources.report()
        if self._is_in_network(task):
            return None
        around = self._hypernodes()
        if around is None:
            self._report_none()
            return None
        shares = self._shares(around.domains, task.requests)
        full = np.append(shares, 1.0)
        score = np.full(around.places.shape[1], around.between)
        # Tier by tier instead of a matrix product, whose last digit would depend on a node's position.
        for counts, places in zip(around.tier_weights, around.places, strict=True):
            score += full.take(places) * counts
        score *= self._factor / (sum(around.tier_weights) + around.between)
        return nodes.pick(score.take(around.sets))

    def _report_none(self) -> None:
        message = "there are no HyperNodes, so that the plugin scores nothing"
        self._session.report(Problem(f"Plugin/{self.name}", "hypernodes", "", "HyperNode objects", message))

    def _shares(self, domains: DomainUsage, requests: Requests) -> Array:
        """The share of each domain that would be in use; 0 where a resource would overflow."""
        wanted = self._weighted(requests)
        if wanted.lost or not wanted.weight_sum:
            return np.zeros(len(domains.names))
        after = domains.used.take(wanted.rows, axis=0) + wanted.amounts
        offered = domains.offered.take(wanted.rows, axis=0)
        shares = after / np.where(offered > 0, offered, 1) * wanted.weights
        result: Array = np.add.accumulate(shares, axis=0)[-1] / wanted.weight_sum
        result[(after > offered).any(axis=0)] = 0
        return result

    def _weighted(self, requests: Requests) -> _WeightedRequest:
        memo = self._known.at(self._cluster.columns.layout)
        known = memo.get(requests)
        if known is None:
            resources = self._cluster.columns.resources
            asked = [name for name, _ in requests if name in self.weights]
            scored = [name for name in asked if name in resources]
            rows = np.array([resources[name] for name in scored], np.intp)
            weights = np.array([float(self.weights[name]) for name in scored])
            amounts = self._cluster.vector(requests).take(rows)
            weight_sum = sum(self.weights[name] for name in asked)
            lost = len(scored) < len(asked)
            known = memo.keep(requests, _WeightedRequest(rows, amounts[:, None], weights[:, None], weight_sum, lost))
        return known

    def _hypernodes(self) -> _HyperNodeMap | None:
        """The current HyperNodes; nothing if there are none."""
        cluster = self._cluster
        if not cluster.hypernodes:
            return None
        version, around = self._around
        current = cluster.columns.layout, cluster.topology.version
        if version != current or around is None:
            around = self._map_hypernodes()
            self._around = (cluster.columns.layout, cluster.topology.version), around
        return around

    def _map_hypernodes(self) -> _HyperNodeMap:
        hypernodes = self._cluster.hypernodes
        nodes = dict(self._cluster.topology.membership().nodes) | {ROOT: frozenset(self._cluster.nodes)}
        domains = DomainUsage(self._cluster, nodes)
        tiers = [hypernodes[name].spec.tier for name in domains.names[:-1]]
        tiers.append(max(tiers) + 1)
        levels = sorted(set(tiers))
        places = np.full((len(levels), domains.member.shape[1]), len(tiers))
        # From the last name on, so that the first by name wins if several of one tier contain a node.
        for place in range(len(tiers) - 1, -1, -1):
            places[levels.index(tiers[place]), domains.member[place]] = place
        distinct, sets = np.unique(places, axis=1, return_inverse=True)
        tier_weights, between = _tier_weights(levels, self.args.fading)
        return _HyperNodeMap(domains, tiers, levels, distinct, sets.reshape(-1), tier_weights, between)


def _tier_weights(levels: Sequence[int], fading: float) -> tuple[list[float], float]:
    """The weight of each tier, and of the missing tiers between; the largest is 1."""
    lowest, highest = levels[0], levels[-1]
    step, start = (fading, lowest) if fading <= 1 else (1 / fading, highest)
    weights = [step ** abs(tier - start) for tier in levels]
    count = highest - lowest + 1
    everything = float(count) if step == 1 else (1 - step**count) / (1 - step)
    return weights, max(0.0, everything - sum(weights)) if count > len(levels) else 0.0


def _key_of(name: str) -> str:
    return _OWN.get(name, f"{RESOURCES_KEY}.{name}")


def _switch(given: Mapping[str, Any], key: str) -> bool:
    """A boolean, also in quotes, as Volcano accepts it."""
    value = given.get(key, True)
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise ArgumentError(key, f"expects true or false, not {value!r}")
    return value


def _fading(given: Mapping[str, Any], warn: Warn) -> float:
    value = given.get(FADING_KEY, _FADING)
    if type(value) not in (int, float) or not -np.inf < value < np.inf:
        raise ArgumentError(FADING_KEY, f"expects a number, not {value!r}")
    if value < 0:
        warn(FADING_KEY, f"{value} is below 0; {_FADING} is used, as in Volcano")
        return _FADING
    return float(value)
