"""Suggestions applied to the objects of a cluster, as somebody would who follows them."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tests.plan.defrag.planning import NOW
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.handlers import HANDLERS
from tonnage.devices.catalog import default_vendors
from tonnage.explain.additions import copies_of
from tonnage.explain.record import Explanation, Suggestion
from tonnage.explain.rehearsal import PLACING
from tonnage.explain.settling import settle_places
from tonnage.framework.cycle import run_cycle
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.node import Node
from tonnage.model.pod import Pod, ReportedPodStatus
from tonnage.model.timestamp import rfc3339
from tonnage.model.wire import convert, manifest

KEYS = {"containers": ("name",), "initContainers": ("name",), "topologySpreadConstraints": ("topologyKey",)}
"""By what a strategic merge patch knows the elements of lists; all other lists are replaced."""


def merged(thing: Any, patch: Any, field: str = "") -> Any:
    """Plain data with a strategic merge patch."""
    if isinstance(thing, dict) and isinstance(patch, dict):
        result = dict(thing)
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(result.get(key), value, key)
        return result
    if isinstance(patch, dict):
        return merged({}, patch)
    if field in KEYS and isinstance(thing, list):
        return _merged_list(thing, patch, KEYS[field])
    return patch


def _merged_list(things: list[Any], patches: list[Any], keys: Sequence[str]) -> list[Any]:
    result = []
    for thing in things:
        about = [one for one in patches if all(one.get(key) == thing.get(key) for key in keys)]
        if any(one.get("$patch") == "delete" for one in about):
            continue
        for patch in about:
            thing = merged(thing, patch)
        result.append(thing)
    return result


def built(objects: Sequence[Any], now: float | None = None) -> Cluster:
    """A cluster of these objects."""
    cluster = Cluster(default_vendors())
    cluster.now = now
    for thing in objects:
        HANDLERS[type(thing)].put(cluster, thing)
    return cluster


def applied(objects: Sequence[Any], suggestion: Suggestion, job: str) -> list[Any]:
    """The objects after somebody has followed a suggestion."""
    gone = {one.pod for one in suggestion.ends}
    result: list[Any] = []
    for thing in objects:
        if isinstance(thing, Pod) and thing.key in gone:
            continue
        if isinstance(thing, Pod) and suggestion.patch and thing.key in suggestion.pods:
            thing = convert(merged(manifest(thing), suggestion.patch), Pod)
        elif suggestion.group and not isinstance(thing, Pod | Node) and getattr(thing, "key", None) == job:
            thing = convert(merged(manifest(thing), suggestion.group), type(thing))
        result.append(thing)
    if suggestion.node:
        like = built([thing for thing in objects if isinstance(thing, Node)]).nodes[suggestion.node]
        result += copies_of(like, suggestion.copies)
    return result


def place_after(
    objects: Sequence[Any], plugins: Sequence[Plugin], actions: Sequence[str], found: Explanation, one: Suggestion
) -> str | None:
    """Where a cycle puts the pod once the suggestion was followed; evictions are what the scheduler does by itself."""
    if one.moves:
        return _place_after_moves(objects, plugins, actions, found, one)
    by_scheduler = one.kind == "preemption"
    cluster = built(objects if by_scheduler else applied(objects, one, found.job), NOW)
    with Session(cluster, plugins) as session:
        run_cycle(session, make_actions([name for name in actions if by_scheduler or name in PLACING]))
        decision = session.decisions.get(found.name)
        return None if decision is None else decision.node


def _place_after_moves(
    objects: Sequence[Any], plugins: Sequence[Plugin], actions: Sequence[str], found: Explanation, one: Suggestion
) -> str | None:
    """Where the pod goes once others have moved, whose controllers make them late or early; all of them run again."""
    ways = {moved.pod: moved for moved in one.moves}
    again = {thing.key: _again(thing) for thing in objects if isinstance(thing, Pod) and thing.key in ways}
    assert len(again) == len(ways)
    assert all(thing.metadata.controller is not None for thing in again.values())
    rest = [thing for thing in objects if not (isinstance(thing, Pod) and thing.key in ways)]
    late = built([*rest, *again.values()], NOW)
    _cycle(late, plugins, actions)
    assert all(new.key in late.holders for new in again.values()), one.sentence
    assert found.name in late.holders, one.sentence
    closed = {moved.node for moved in one.moves}
    early = built([*(_closed(thing, closed) for thing in objects), *again.values()], NOW)
    _cycle(early, plugins, actions)
    settle_places(early)
    for key in ways:
        early.remove_pod(key)
    for thing in objects:
        if isinstance(thing, Node):
            early.upsert_node(thing)
    _cycle(early, plugins, actions)
    assert {key: early.holders.get(new.key) for key, new in again.items()} == {key: ways[key].to for key in ways}
    return early.holders.get(found.name)


def _cycle(cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[str]) -> None:
    with Session(cluster, plugins) as session:
        run_cycle(session, make_actions([name for name in actions if name in PLACING]))


def _again(pod: Pod) -> Pod:
    """The pod that a controller makes now from the template of another."""
    notes = {key: text for key, text in pod.annotations.items() if "-devices-" not in key}
    name = f"{pod.metadata.name} (again)"
    metadata = replace(pod.metadata, name=name, annotations=notes, uid=None, creationTimestamp=rfc3339(NOW))
    return Pod(metadata, replace(pod.spec, nodeName=None), ReportedPodStatus())


def _closed(thing: Any, nodes: set[str]) -> Any:
    if not isinstance(thing, Node) or thing.name not in nodes:
        return thing
    return replace(thing, spec=replace(thing.spec, unschedulable=True))
