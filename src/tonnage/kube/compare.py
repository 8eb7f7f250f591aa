"""The comparison of an informer's cluster with one made from a fresh list: the differences, by object.

Two clusters of the same objects may number resources, card models and taints differently, so these are compared by
meaning. No list shows reservations, nor which plain cards the kubelet gave to pods; the fresh cluster takes both from
the informer's before comparing.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
import numpy as np

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import COUNTED, UNLIMITED, Array
from tonnage.cluster.handlers import HANDLERS
from tonnage.devices.base import Vendor
from tonnage.kube.client import Client
from tonnage.kube.errors import StatusError
from tonnage.kube.kinds import EXTENDER_KINDS, WatchedKind
from tonnage.kube.watch import FORBIDDEN, NOT_FOUND, listing
from tonnage.model.kinds import KindRole, structs_of
from tonnage.model.storage import CSINode, Namespace

_JOB_OBJECTS = structs_of(KindRole.POD_GROUP, KindRole.QUEUE, KindRole.PRIORITY)
_OTHERS = structs_of(KindRole.BUDGET, KindRole.HYPERNODE, KindRole.TOPOLOGY, KindRole.NAMESPACE, KindRole.STORAGE)
_KEPT: dict[type[Any], str] = {Namespace: "labels", CSINode: "limits"}
"""What the cluster keeps of an object, where that is not everything it says."""
_CARD_ARRAYS = ("card_total", "card_free")
_NODE_ARRAYS = ("foreign", "node_used", "node_total", "vendor_cards", "particular")


class Difference(msgspec.Struct, frozen=True):
    """A field in which the informer's cluster differs from a fresh list."""

    object: str
    field: str
    live: str
    fresh: str

    def __str__(self) -> str:
        return f"{self.object}: {self.field} is {self.live}, a fresh list says {self.fresh}"


async def fresh_cluster(
    client: Client, vendors: Sequence[Vendor], kinds: Sequence[WatchedKind] = EXTENDER_KINDS
) -> Cluster:
    """A cluster as a complete list shows it now; KubeError if it cannot be listed.

    It leaves out kinds that are not installed, or not vital and forbidden to list, as the informer does.
    """
    cluster = Cluster(vendors)
    for kind in kinds:
        try:
            await _list_into(cluster, client, kind)
        except StatusError as error:
            is_missing = error.status == NOT_FOUND and kind.resource.is_custom
            if not is_missing and (error.status != FORBIDDEN or kind.is_vital):
                raise
    return cluster


async def _list_into(cluster: Cluster, client: Client, kind: WatchedKind) -> None:
    async for batch, _ in listing(client, kind.resource):
        for change in batch.changes:
            if change.object is not None:
                kind.handler.put(cluster, change.object)


async def lasting_differences(
    client: Client, live: Cluster, tries: int = 5, pause: float = 1.0, kinds: Sequence[WatchedKind] = EXTENDER_KINDS
) -> list[Difference]:
    """Differences that several comparisons share; a change that is on its way to the informer is in one at most."""
    lasting: list[Difference] | None = None
    for attempt in range(tries):
        if attempt:
            await asyncio.sleep(pause)
        found = compare(live, await fresh_cluster(client, live.vendors, kinds))
        lasting = found if lasting is None else [difference for difference in lasting if difference in found]
        if not lasting:
            break
    return lasting or []


def compare(live: Cluster, fresh: Cluster) -> list[Difference]:
    """All differences, nodes and pods first; the fresh cluster is given the reservations of the live one."""
    for key, task in sorted(live.reserved.items()):
        holding = live.held(key)
        if holding is not None and key not in fresh.holders:
            fresh.reserve_holding(task, holding)
    # A fresh list does not show what pods said about their devices before.
    fresh.claims.copy(live.claims)
    for key in live.claims.ignored.keys() & fresh.running.keys():
        fresh.upsert_pod(fresh.running[key].pod)
    fresh.holdings.copy_assignments(live.holdings)
    live.settle()
    fresh.settle()
    differences = [*_nodes(live, fresh), *_pods(live, fresh), *_quotas(live, fresh), *_things(live, fresh)]
    if live.nodes.keys() == fresh.nodes.keys():
        differences += _columns(live, fresh)
    return differences


def _nodes(live: Cluster, fresh: Cluster) -> Iterator[Difference]:
    for name in sorted(live.nodes.keys() | fresh.nodes.keys()):
        one, other = live.nodes.get(name), fresh.nodes.get(name)
        if one is None or other is None:
            yield Difference(f"Node/{name}", "node", _presence(one), _presence(other))
        elif one.node != other.node:
            yield Difference(f"Node/{name}", "node", repr(one.node), repr(other.node))


def _pods(live: Cluster, fresh: Cluster) -> Iterator[Difference]:
    for key in sorted(live.pods() | fresh.pods()):
        mine, theirs = _state_of(live, key), _state_of(fresh, key)
        if mine != theirs:
            yield Difference(f"Pod/{key}", "state", mine, theirs)
        elif live.held(key) != fresh.held(key):
            yield Difference(f"Pod/{key}", "what it holds", repr(live.held(key)), repr(fresh.held(key)))
        elif key in live.waiting and live.waiting[key] != fresh.waiting[key]:
            yield Difference(f"Pod/{key}", "pod", repr(live.waiting[key].pod), repr(fresh.waiting[key].pod))


def _quotas(live: Cluster, fresh: Cluster) -> Iterator[Difference]:
    mine, theirs = (
        {(name, resource): quota for name, resource, quota in cluster.quotas.all()} for cluster in (live, fresh)
    )
    for name, resource in sorted(mine.keys() | theirs.keys()):
        one, other = mine.get((name, resource)), theirs.get((name, resource))
        if one != other:
            yield Difference(f"Namespace/{name}", f"quota on {resource}", repr(one), repr(other))


def _things(live: Cluster, fresh: Cluster) -> Iterator[Difference]:
    """Differences in objects that the cluster keeps by name, and in the jobs made of them."""
    mine, theirs = _named(live), _named(fresh)
    for (label, field), ones in mine.items():
        others = theirs[label, field]
        for name in sorted(ones.keys() | others.keys()):
            one, other = ones.get(name), others.get(name)
            if one != other:
                is_change = name in ones and name in others
                shown = (repr(one), repr(other)) if is_change else (_presence(one), _presence(other))
                yield Difference(f"{label}/{name}", field, *shown)


def _named(cluster: Cluster) -> dict[tuple[str, str], Mapping[str, object]]:
    groups = cluster.groups
    return {
        **_said(cluster, _JOB_OBJECTS),
        ("Queue", "what counts"): groups.queues,
        ("PodGroup", "what counts"): groups.groups,
        ("Job", "what is known"): {
            key: (sorted(job.tasks), sorted(job.finished), job.group, job.queue, job.priority, job.is_lost)
            for key, job in groups.jobs.items()
        },
        **_said(cluster, _OTHERS),
    }


def _said(cluster: Cluster, structs: Sequence[type[Any]]) -> dict[tuple[str, str], Mapping[str, object]]:
    """What the cluster keeps of each object, by kind, field and name."""
    kept = {struct: cast("Mapping[str, object]", HANDLERS[struct].known(cluster)) for struct in structs}
    return {(struct.__name__, _KEPT.get(struct, "what it says")): things for struct, things in kept.items()}


def _state_of(cluster: Cluster, key: str) -> str:
    if key in cluster.reserved:
        return "reserved"
    if key in cluster.holders:
        return f"on {cluster.holders[key]}"
    return "waiting" if key in cluster.waiting else "absent"


def _presence(thing: object) -> str:
    return "absent" if thing is None else "present"


def _columns(live: Cluster, fresh: Cluster) -> Iterator[Difference]:
    """Every column, node by node; both clusters have the same nodes in the same rows."""
    mine, theirs = live.columns, fresh.columns
    for name in sorted(mine.resources.keys() | theirs.resources.keys()):
        here, there = mine.resources.get(name), theirs.resources.get(name)
        if here is None or there is None:
            # The cluster adds a column with the first node that offers the resource, and keeps it after the last one.
            columns, position = (mine, here) if here is not None else (theirs, there)
            offered = columns.allocatable[position]
            missing = np.where(offered >= UNLIMITED, offered, 0)
            yield from _rows(live, f"allocatable[{name}]", offered, missing)
            continue
        yield from _rows(live, f"allocatable[{name}]", mine.allocatable[here], theirs.allocatable[there])
        yield from _rows(live, f"free[{name}]", mine.free[here], theirs.free[there])
        yield from _rows(live, f"counted[{name}]", mine.amounts[COUNTED, here], theirs.amounts[COUNTED, there])
    width = max(mine.width, theirs.width)
    for name in _CARD_ARRAYS:
        ones, others = _widened(getattr(mine, name), width), _widened(getattr(theirs, name), width)
        yield from _rows(live, name, ones, others)
    for name in _NODE_ARRAYS:
        yield from _rows(live, name, getattr(mine, name), getattr(theirs, name))
    for row, (one, other) in enumerate(zip(live.states, fresh.states, strict=True)):
        meant = [
            (
                [
                    cluster.columns.models[number]
                    for number in cluster.columns.model[: len(state.devices), row].tolist()
                ],
                cluster.labels.taint_sets[cluster.columns.taints[row]],
                {card: sorted(taken, key=repr) for card, taken in state.mig.items() if taken},
                {card: +present for card, present in state.tenancy.items() if +present},
            )
            for cluster, state in ((live, one), (fresh, other))
        ]
        if meant[0] != meant[1]:
            yield Difference(
                f"Node/{one.name}", "card models, taints, instances or tenancy", repr(meant[0]), repr(meant[1])
            )
    if mine.foreign_total != theirs.foreign_total:
        totals = str(mine.foreign_total), str(theirs.foreign_total)
        yield Difference("Cluster", "cards held by pods that do not say which", *totals)


def _widened(cards: Array, width: int) -> Array:
    """Card columns with room for more cards, as `Columns.widen` would make them."""
    return np.pad(cards, ((0, 0), (0, width - cards.shape[1]), (0, 0)))


def _rows(cluster: Cluster, field: str, ones: Array, others: Array) -> Iterator[Difference]:
    """The nodes in whose row two columns differ."""
    unlike = ones != others
    for row in np.flatnonzero(unlike.any(axis=tuple(range(unlike.ndim - 1))) if unlike.ndim > 1 else unlike).tolist():
        values = str(ones[..., row].tolist()), str(others[..., row].tolist())
        yield Difference(f"Node/{cluster.states[row].name}", field, *values)
