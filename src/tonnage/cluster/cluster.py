"""The cluster state: nodes, pods, jobs and all that decides where pods may go, kept current by events.

Nodes and pods are added, changed and removed; placements are reserved, confirmed and released. Each event writes only
the rows it concerns, so that no decision recounts usage. The parts that the cluster consists of can be used by name:
`rows`, `holdings`, `quotas`, `groups`, `topology`, `placed` and `surroundings`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tonnage.cluster.claims import ClaimReading, PodClaims
from tonnage.cluster.closures.deviceplugins import DevicePlugins
from tonnage.cluster.closures.refusals import Refusals
from tonnage.cluster.holding import Holding, VendorUse, VolumeReservation, card_uses
from tonnage.cluster.holdings import Holdings
from tonnage.cluster.jobs.group import Link, link_of
from tonnage.cluster.jobs.index import JobIndex
from tonnage.cluster.jobs.job import PodStatus
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.podindex import PodIndex
from tonnage.cluster.quotas import Quotas
from tonnage.cluster.rows import Rows
from tonnage.cluster.surroundings import Surroundings
from tonnage.cluster.task import INIT, Task, TaskMaker
from tonnage.cluster.topology import TopologyIndex
from tonnage.devices.base import PodUses, Vendor
from tonnage.model.hypernode import HyperNode
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.problem import Problem
from tonnage.model.quota import PodDisruptionBudget
from tonnage.model.storage import Namespace, Surrounding
from tonnage.model.topology import Topology

Grant = tuple[tuple[int, PodUses], ...]
"""Per vendor, the slices that a pod's containers were given."""


class PodReading(NamedTuple):
    """All that was read of a pod."""

    task: Task
    link: Link | None
    """The job that it names."""
    holding: Holding | None = None
    """What it holds; nothing if it has no node."""
    problems: tuple[Problem, ...] = ()
    claim: ClaimReading | None = None
    """What it says about its devices; nothing if it has no node, or if that could not be read."""


class Cluster:
    """Nodes, pods and jobs; attributes of parts that decisions read all the time are bound here once."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self.vendors = tuple(vendors)
        self.vendor_numbers = {vendor.name: number for number, vendor in enumerate(self.vendors)}
        self._tasks = TaskMaker(self.vendors)
        self._bind_rows(Rows(self.vendors))
        self.device_plugins = DevicePlugins(self.rows)
        """Nodes whose device plugins keep pods waiting."""
        self.refusals = Refusals(self.rows)
        """What kubelets refused."""
        self.quotas = Quotas(self.vendors)
        """Quotas on cards, and what is held of cards by namespace."""
        self.holdings = Holdings(self.rows, self.quotas)
        self.claims = PodClaims(self.vendors)
        """What running pods say about their devices."""
        self.holders = self.holdings.holders
        self.leaving = self.holdings.leaving
        self.held = self.holdings.get
        self.volumes = self.holdings.volumes
        """Volumes that are reserved for claims."""
        self.waiting: dict[str, Task] = {}
        """Pods without a node, which nothing was reserved for."""
        self.reserved: dict[str, Task] = {}
        """Pods whose placement was decided and is not confirmed yet."""
        self.running: dict[str, Task] = {}
        """Pods that have a node."""
        self.pipelined: set[str] = set()
        """Reserved pods whose place other pods have to leave first."""
        self.foreign: dict[str, Pod] = {}
        """Pods without a node that other schedulers are to place, the latest of them; not the gated ones."""
        self.topology = TopologyIndex(self.nodes)
        """HyperNodes and Topologies."""
        self.hypernodes = self.topology.hypernodes
        self.topologies = self.topology.topologies
        self.groups = JobIndex(self.status)
        """Jobs, queues and priority classes."""
        self.queues = self.groups.queues
        self.surroundings = Surroundings()
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.placed = PodIndex(self.columns, self.nodes, self.surroundings.namespaces, self._placed_tasks)
        """Pods with a node, by what rules about other pods ask."""
        self.now: float | None = None
        """Seconds since 1970, if the cluster's user sets it."""
        self.supposes_gone = False
        """Whether leaving pods count as gone while the columns look ahead, so that places need not wait for them."""
        self.is_ours: Callable[[Pod], bool] = lambda pod: True
        """Whether a pod is one of those that are placed here; pods of other schedulers are never evicted."""
        self._pod_problems: dict[str, tuple[Problem, ...]] = {}

    def _bind_rows(self, rows: Rows) -> None:
        self.rows = rows
        self.columns = rows.columns
        self.nodes = rows.nodes
        self.states = rows.states
        self.labels = rows.labels
        self.settle = rows.settle
        self.all_nodes = rows.all_nodes
        self.mask = rows.mask
        self.label = rows.label
        self.vector = rows.vector

    # -- nodes

    def upsert_node(self, node: Node) -> None:
        """Add a node or change it; an update without news costs nothing."""
        news = self.read_node(node)
        if news is not None:
            self.put_node(news)

    def read_node(self, node: Node) -> NodeState | None:
        """Read a node, which changes nothing; nothing if there is no news."""
        state = self.nodes.get(node.name)
        return self.rows.read(node) if state is None or state.node != node else None

    def put_node(self, news: NodeState) -> None:
        """Add or change a node that was read."""
        state = self.nodes.get(news.name)
        is_new = state is None
        if state is None:
            self.topology.version += 1
            state = news
            self.rows.add(state)
        else:
            self.topology.version += state.node.labels != news.node.labels
            self.rows.change(state, news)
        self.holdings.add_resources(self.rows.add_resources(state.offers))
        self.rows.write(state)
        for device, vendor in zip(state.devices, state.vendors, strict=True):
            self.quotas.seen(vendor, device)
        if is_new:
            self.holdings.add_node(state)
        else:
            self.holdings.recount(state)
        self._read_claims_again(state, is_new)
        self.columns.touch_node(state.row)

    def _read_claims_again(self, state: NodeState, is_new: bool) -> None:
        """Read again what pods on a node claim that does not count: what they may claim depends on its cards.

        Which cards init containers gave back depends on them too, so that it is not known before the node is.
        """
        for key in [key for key in state.holdings if key in self.running]:
            if key not in self.claims.ignored and not (is_new and INIT in self.running[key].kinds):
                continue
            claim = self.claims.read(self.running[key], state.name, state, self.held(key))
            self.claims.put(key, claim)
            self._pod_problems[key] = _problems(self.running[key], claim)
            self.holdings.replace(key, claim.holding)

    def remove_node(self, name: str) -> None:
        """Forget a node; the holdings of its pods are kept until they go or the node comes back."""
        state = self.rows.remove(name)
        if state is not None:
            self.topology.version += 1
            self.holdings.remove_node(state)
            for device, vendor in zip(state.devices, state.vendors, strict=True):
                self.quotas.gone(vendor, device)

    # -- HyperNodes

    def upsert_hypernode(self, hypernode: HyperNode) -> None:
        """Add a HyperNode or change it."""
        if self.hypernodes.get(hypernode.name) != hypernode:
            self.hypernodes[hypernode.name] = hypernode
            self._change_topology()

    def remove_hypernode(self, name: str) -> None:
        """Forget a HyperNode; its nodes stay."""
        if self.hypernodes.pop(name, None) is not None:
            self._change_topology()

    def upsert_topology(self, topology: Topology) -> None:
        """Add a Topology or change it."""
        self.topologies[topology.name] = topology

    def remove_topology(self, name: str) -> None:
        """Forget a Topology; jobs that require one of its levels wait."""
        self.topologies.pop(name, None)

    def _change_topology(self) -> None:
        self.topology.version += 1
        # Memoised answers about pods may depend on it although no row has changed.
        self.columns.layout += 1

    # -- pods

    def upsert_pod(self, pod: Pod) -> None:
        """Add a pod or change it."""
        if pod.holds_nothing:
            self.finish_pod(pod)
        else:
            self.put_pod(self.read_pod(pod))

    def finish_pod(self, pod: Pod) -> None:
        """Forget a pod that holds nothing any more; one that succeeded counts for its job until it is gone."""
        self.remove_pod(pod.key)
        if pod.has_succeeded:
            self.groups.finish(pod)

    def read_pod(self, pod: Pod) -> PodReading:
        """Read a pod, which changes nothing."""
        key = pod.key
        task = self._tasks.make(pod, self.running.get(key) or self.reserved.get(key) or self.waiting.get(key))
        link = link_of(pod)
        if pod.node is None:
            return PodReading(task, link)
        claim = self.claims.read(task, pod.node, self.nodes.get(pod.node), self.held(task.key))
        return PodReading(task, link, claim.holding, _problems(task, claim), claim)

    def put_pod(self, reading: PodReading) -> None:
        """Add or change a pod that was read; nothing here reads what users wrote."""
        if reading.holding is None:
            self._put_waiting(reading)
        else:
            self._put_running(reading, reading.holding)

    def _put_waiting(self, reading: PodReading) -> None:
        """Add or change a pod without a node; a device annotation left over from a failed attempt counts nothing."""
        task, key = reading.task, reading.task.key
        self.restore(key)
        self.running.pop(key, None)
        self.claims.forget(key)
        # A different pod of the same name gets nothing of what the other one was promised.
        if key in self.reserved and self.reserved[key].uid == task.uid:
            self.reserved[key] = task
            self._index_placed(task, self.holders[key])
        else:
            self.reserved.pop(key, None)
            self.pipelined.discard(key)
            self._drop_holding(key)
            self.waiting[key] = task
        self.groups.put(task, reading.link, self.status(key))
        self._pod_problems.pop(key, None)

    def _put_running(self, reading: PodReading, holding: Holding) -> None:
        task, key = reading.task, reading.task.key
        self.waiting.pop(key, None)
        self.reserved.pop(key, None)
        self.pipelined.discard(key)
        self.running[key] = task
        self.groups.put(task, reading.link, self.status(key))
        if reading.claim is not None:
            self.claims.put(key, reading.claim)
        if reading.problems:
            self._pod_problems[key] = reading.problems
        else:
            self._pod_problems.pop(key, None)
        self.holdings.replace(key, holding)
        self._index_placed(task, holding.node)
        if task.pod.is_leaving:
            self.evict(key)
        else:
            self.restore(key)

    def pods(self) -> set[str]:
        """Every pod that waits, or holds something, or has something reserved."""
        return {*self.waiting, *self.reserved, *self.holders}

    def remove_pod(self, key: str) -> None:
        """Forget a pod and free what it held."""
        for tasks in (self.waiting, self.reserved, self.running):
            tasks.pop(key, None)
        self.claims.forget(key)
        self._pod_problems.pop(key, None)
        self._drop_holding(key)
        self.leaving.discard(key)
        self.pipelined.discard(key)
        self.groups.drop(key)

    def status(self, key: str) -> PodStatus:
        """The status of a pod; one that is not known waits."""
        if key in self.leaving:
            return PodStatus.LEAVING
        if key in self.running:
            return PodStatus.RUNNING
        if key in self.reserved:
            return PodStatus.PIPELINED if key in self.pipelined else PodStatus.PLACED
        return PodStatus.WAITING

    def _status_changed(self, key: str) -> None:
        """Give a pod's job its new status."""
        job = self.groups.of_pod.get(key)
        if job is not None:
            job.move(key, self.status(key))

    def _drop_holding(self, key: str) -> None:
        if self.placed.pods:
            self.placed.drop(key)
        self.holdings.drop(key)

    def _placed_tasks(self) -> Iterator[tuple[Task, str]]:
        """Every pod with a node, known or not."""
        for key, node in self.holders.items():
            if self.holdings.counts(key):
                yield self.running.get(key) or self.reserved[key], node

    def _index_placed(self, task: Task, node: str) -> None:
        """Index a pod with a node for the rules of others; its labels may change while its holding does not."""
        if not self.holdings.counts(task.key):
            return
        if task.rules is not None or self.placed.indexes_labels or task.key in self.placed.pods:
            state = self.nodes.get(node)
            if self.placed.put(task, node) and state is not None:
                self.columns.touch(state.row)

    # -- placements

    def reserve(self, task: Task, node: str, grant: Grant, volumes: tuple[VolumeReservation, ...] = ()) -> None:
        """Hold a decided placement, with volumes for its claims; an earlier one of the same pod is released first."""
        vendors = tuple(
            [
                VendorUse(number, card_uses(task.kinds, uses, self.vendors[number], task.annotations))
                for number, uses in grant
            ]
        )
        self.reserve_holding(task, Holding(node, task.requests, vendors, task.unstated, volumes))

    def reserve_holding(self, task: Task, holding: Holding) -> None:
        """Hold for a pod what its reservation holds in another cluster state."""
        key = task.key
        if key in self.holders:
            self._drop_holding(key)
        self.leaving.discard(key)
        self.waiting.pop(key, None)
        self.running.pop(key, None)
        self.reserved[key] = task
        if self.makes_promises:
            self.pipelined.add(key)
        else:
            self.pipelined.discard(key)
        job = self.groups.of_pod.get(key)
        if job is not None:
            job.move(key, PodStatus.PIPELINED if self.makes_promises else PodStatus.PLACED)
        self.holdings.reserve(key, holding)
        if task.rules is not None or self.placed.indexes_labels:
            self.placed.put(task, holding.node)

    def pipeline(self, key: str) -> None:
        """Make a reserved pod wait after all, with the place that it has."""
        if key in self.reserved:
            self.pipelined.add(key)
            self._status_changed(key)

    def confirm(self, key: str) -> None:
        """Make a reserved placement real: the pod runs."""
        task = self.reserved.pop(key, None)
        if task is not None:
            self.running[key] = task
            self.pipelined.discard(key)
            self._status_changed(key)

    def release(self, key: str) -> None:
        """Undo a reservation; the pod waits again."""
        task = self.reserved.pop(key, None)
        if task is not None:
            self._drop_holding(key)
            self.waiting[key] = task
            self.leaving.discard(key)
            self.pipelined.discard(key)
            self._status_changed(key)

    # -- looking ahead

    @property
    def is_ahead(self) -> bool:
        """Whether the columns show the cluster as it will be once the leaving pods are gone."""
        return self.holdings.is_ahead

    @property
    def makes_promises(self) -> bool:
        """Whether a place that is found now has to wait until the leaving pods are gone."""
        return self.holdings.is_ahead and not self.supposes_gone

    @property
    def looks_tell_all(self) -> bool:
        """Whether nothing beyond `Columns.look` decides how much of a node's resources and cards pods may get."""
        exceptions = self.leaving or self.columns.foreign_total or self.device_plugins.are_closed or self.refusals
        return not exceptions

    def evict(self, key: str) -> bool:
        """Mark a running pod, or one that waits with a place, as leaving; whether it was not before."""
        if key in self.leaving or (key not in self.running and key not in self.pipelined):
            return False
        self._count_leaving(key, -1)
        self.leaving.add(key)
        self._status_changed(key)
        return True

    def restore(self, key: str) -> bool:
        """Keep a leaving pod after all; whether it was leaving."""
        if key not in self.leaving:
            return False
        self.leaving.discard(key)
        self._count_leaving(key, 1)
        self._status_changed(key)
        return True

    def look_ahead(self, ahead: bool) -> None:
        """Show the cluster as it will be once the leaving pods are gone, or as it is."""
        if ahead == self.holdings.is_ahead:
            return
        self.holdings.is_ahead = True
        for key in self.leaving:
            self._count_leaving(key, -1 if ahead else 1)
        self.holdings.is_ahead = ahead

    def _count_leaving(self, key: str, sign: int) -> None:
        """Add or subtract what a leaving pod holds, if the columns show the cluster without such pods."""
        self.holdings.count_leaving(key, sign)
        if not self.holdings.is_ahead:
            return
        task = self.running.get(key) or self.reserved[key]
        if sign < 0:
            self.placed.drop(key)
        elif task.rules is not None or self.placed.indexes_labels:
            self.placed.put(task, self.holders[key])

    # -- namespaces and storage

    def upsert_surrounding(self, thing: Surrounding) -> None:
        """Add a namespace or storage object or change it; an update without news costs nothing."""
        if self.surroundings.upsert(thing):
            self._forget_answers(thing)

    def remove_surrounding(self, thing: Surrounding) -> None:
        """Forget a namespace or storage object."""
        self.surroundings.remove(thing)
        self._forget_answers(thing)

    def _forget_answers(self, thing: Surrounding) -> None:
        """Make every memoised answer about nodes stale."""
        if isinstance(thing, Namespace):
            self.placed.forget()
        self.columns.layout += 1

    # -- all at once

    def force_pod(self, reading: PodReading, reserved: Holding | None = None, *, pipelined: bool = False) -> None:
        """Set what is known of a pod itself, with its reservation, but count nothing; `rebuild` must follow."""
        task, key = reading.task, reading.task.key
        self._forget_facts(key)
        if reading.holding is None:
            self.claims.forget(key)
        if reading.holding is not None:
            self.running[key] = task
            if reading.claim is not None:
                self.claims.put(key, reading.claim)
            if reading.problems:
                self._pod_problems[key] = reading.problems
            if task.pod.is_leaving:
                self.leaving.add(key)
        elif reserved is not None:
            self.reserved[key] = task
            if pipelined:
                self.pipelined.add(key)
        else:
            self.waiting[key] = task

    def forget_pod(self, key: str) -> None:
        """Forget what is known of a pod itself, but count nothing; `rebuild` must follow."""
        self._forget_facts(key)
        self.claims.forget(key)

    def _forget_facts(self, key: str) -> None:
        for tasks in (self.waiting, self.reserved, self.running, self._pod_problems):
            tasks.pop(key, None)
        for keys in (self.leaving, self.pipelined):
            keys.discard(key)

    def rebuild(self, held: Mapping[str, Holding], last: str = "") -> None:
        """Work out anew all that follows from the objects and from what each pod holds.

        A pod that an update failed at comes last, so that the others are in their jobs if it fails again.
        """
        self.topology.version += 1
        self.rows.rebuild()
        self.holdings.rebuild(held)
        self.placed.rebuild()
        tasks = [*self.waiting.values(), *self.reserved.values(), *self.running.values()]
        self.groups.rebuild(sorted(tasks, key=lambda task: task.key == last))

    def recount(self, reserved: Mapping[str, Holding]) -> None:
        """Count anew what running pods hold and what is reserved, whatever a decision that failed has left.

        Jobs stay the objects that they are, because earlier decisions name them.
        """
        self.leaving.intersection_update(self.running)
        self.pipelined.intersection_update(self.reserved)
        self.holdings.is_ahead = False
        held = {key: holding for key, holding in self.holdings.all().items() if key in self.running}
        self.rows.rebuild()
        self.holdings.rebuild({**held, **reserved})
        self.placed.rebuild()
        for job in self.groups.jobs.values():
            job.recount(self.status)

    # -- problems

    def problems(self) -> Iterator[Problem]:
        """All problems of nodes, HyperNodes, Topologies, groups, quotas and pods, each in the order of names."""
        yield from self.rows.problems()
        yield from self.refusals.problems()
        yield from self.topology.problems()
        yield from self.groups.problems()
        yield from self.quotas.problems()
        for key in sorted(self._pod_problems.keys() | self.holders.keys()):
            yield from self._pod_problems.get(key, ())
            if key in self.holders:
                yield from self.holdings.problems(key, is_readable=key not in self._pod_problems)


def _problems(task: Task, claim: ClaimReading) -> tuple[Problem, ...]:
    """What is wrong with a running pod."""
    if not task.fault:
        return tuple(claim.problems)
    fault = Problem(f"Pod/{task.key}", "spec.containers", "", "requests that can be read", task.fault)
    return (*claim.problems, fault)
