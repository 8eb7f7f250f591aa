"""The snapshot of a live scheduler: read as manifests, it leads to the decisions that the scheduler would take."""

import asyncio
import json
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from tests.groups import group, kai_group, kai_queue, members, priority_class, queue
from tests.properties.crowds import Crowd, plugins, worlds
from tests.properties.worlds import examples, nodes, phases, pods, running_pods
from tests.scenario import node, part, plain, pod, running
from tests.scheduler.watching import Watching, manifests_in, replayed, said, text_of
from tonnage.kube.kinds import BATCH_KINDS, WatchedKind
from tonnage.model.group import PriorityClass, VolcanoPodGroup
from tonnage.model.hypernode import HyperNode
from tonnage.model.kinds import BY_HEADER
from tonnage.model.pod import Pod
from tonnage.model.wire import convert, decode_object, encode, manifest
from tonnage.plugins.defaults import default_plugins


def shown(live: Watching) -> bytes:
    return asyncio.run(text_of(live.objects()))


# -- decisions


@settings(max_examples=examples(80), phases=phases())
@given(worlds, st.sampled_from([("allocate",), ("enqueue", "allocate", "backfill")]), st.randoms(use_true_random=False))
def test_a_replay_decides_as_the_scheduler_would(
    world: dict[str, Any], actions: tuple[str, ...], chance: Random
) -> None:
    """Pods come and go in some order, some places are reserved, some became real, and some that ran have left."""
    things = Crowd(world).objects()
    chance.shuffle(things)
    late = [thing for thing in things if isinstance(thing, Pod) and thing.node is None and chance.random() < 0.4]
    live = Watching(plugins(world), actions, [thing for thing in things if thing not in late])
    for decision in live.decide():
        if decision.outcome == "placed" and chance.random() < 0.5:
            live.tell(live.bound(decision))
    for task in list(live.cluster.running.values()):
        if chance.random() < 0.3:
            live.gone(task.pod)
    live.tell(*late)
    text = shown(live)
    reserved = set(live.cluster.reserved)
    expected = said(live.decide())
    assert said(replayed(text, plugins(world), actions)) == expected
    assert not reserved & expected.keys(), "what has its place is not decided again"


@settings(max_examples=examples(80), phases=phases())
@given(
    st.lists(nodes(), max_size=4, unique_by=lambda node: node.name),
    st.lists(running_pods(), max_size=6, unique_by=lambda pod: pod.key),
    st.lists(pods(), max_size=6, unique_by=lambda pod: pod.key),
    st.randoms(use_true_random=False),
)
def test_devices_of_many_vendors_are_replayed(
    found: list[Any], held: list[Pod], wanted: list[Pod], chance: Random
) -> None:
    things = [*found, *held, *wanted]
    chance.shuffle(things)
    late = [one for one in wanted if chance.random() < 0.5]
    live = Watching(default_plugins(), things=[thing for thing in things if thing not in late])
    for decision in live.decide():
        if decision.outcome == "placed" and chance.random() < 0.3:
            live.tell(live.bound(decision))
    live.tell(*late)
    text = shown(live)
    assert said(replayed(text, default_plugins())) == said(live.decide())


def test_a_place_that_is_reserved_is_taken_in_the_replay() -> None:
    leftover = {"hami.io/vgpu-devices-allocated": "a/0,NVIDIA,8000,0:;", "hami.io/dcu-devices-allocated": "d,DCU,9,9:;"}
    live = Watching(default_plugins(), things=[node("a", gpus=2), pod("p", 1, memory=5000, annotations=leftover)])
    (placed,) = live.decide()
    assert placed.devices[0].uuid == "a/1"
    live.tell(pod("late", 1, memory=8000), pod("none", 1, memory=8000, created="2026-01-01T00:00:00Z"))
    (p,) = [one for one in manifests_in(shown(live)).pods if one.node]
    assert p.annotations["hami.io/vgpu-devices-allocated"] == "a/1,NVIDIA,5000,0:;"
    assert "hami.io/dcu-devices-allocated" not in p.annotations, "left over from an attempt that came to nothing"
    again = {decision.task.name: decision for decision in replayed(shown(live), default_plugins())}
    assert [device.uuid for device in again["late"].devices] == ["a/0"]
    assert again["none"].node is None
    assert "p" not in again


def test_pods_keep_the_plain_cards_they_have_without_naming_them() -> None:
    """Which card a pod has that names none depends on who was there before: here the first card is free again."""
    first, second = pod("first", 1, on="a"), pod("second", 1, on="a")
    live = Watching(default_plugins(), things=[plain("a", 2, gpu_memory=1000), first, second])
    live.gone(first)
    live.tell(part("half", 0.5))
    assert [device.uuid for device in replayed(shown(live), default_plugins())[0].devices] == ["a/0"]
    assert [device.uuid for device in live.decide()[0].devices] == ["a/0"]


def test_who_leaves_who_is_done_and_what_stands_beside_pods_is_in_it() -> None:
    done = members("train", 2, 1, on="a", phase="Succeeded")
    leaves = running("leaves", on="a", gpu=0, memory=100, terminating=True)
    volume = convert(
        {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": "1Gi"}}},
        BY_HEADER["v1", "PersistentVolume"].struct,
    )
    things = [
        *(node("a", gpus=1), leaves, *done, queue("team"), kai_queue("team"), group("train", 3), volume),
        *(kai_group("train", 2), priority_class("urgent", 7)),
    ]
    live = Watching(default_plugins(), things=things)
    found = manifests_in(shown(live))
    assert not found.problems
    assert {pod.metadata.name for pod in found.pods} == {"leaves", "train-0", "train-1"}
    assert next(pod for pod in found.pods if pod.metadata.name == "leaves").is_leaving
    assert len(found.groups) == 3
    kinds = {type(thing).__name__ for thing in found.groups}
    assert kinds == {"VolcanoQueue", "VolcanoPodGroup", "PriorityClass"}, "of two of one name, Volcano's counts"
    assert found.surroundings == [volume]


def test_a_group_that_was_let_in_says_so_before_the_api_server_does() -> None:
    thing = group("train", 2, phase="Pending", minResources={"cpu": "1"})
    live = Watching(
        default_plugins(), ("enqueue", "allocate"), [node("a", cpu="1"), *members("train", 2, cpu=1), thing]
    )
    live.decide()
    (found,) = manifests_in(shown(live)).groups
    assert isinstance(found, VolcanoPodGroup)
    assert found.status.phase == "Inqueue"


@pytest.mark.parametrize("kind", BATCH_KINDS, ids=lambda kind: kind.resource.name)
def test_every_kind_that_is_followed_is_in_it(kind: WatchedKind) -> None:
    said = {HyperNode: {"spec": {"tier": 1}}, PriorityClass: {"value": 1}}.get(kind.resource.type, {})
    thing = convert({"metadata": {"name": "x", "namespace": "team"}, **said}, kind.resource.type)
    live = Watching(default_plugins(), things=[thing])
    (written,) = json.loads(shown(live))["items"]
    assert convert(written, kind.resource.type) == thing
    assert BY_HEADER[written["apiVersion"], written["kind"]].struct is kind.resource.type


def test_what_was_heard_of_and_is_gone_is_not_in_it() -> None:
    live = Watching(default_plugins(), things=[node("a"), queue("team"), pod("p", cpu="1"), pod("q", cpu="1")])
    live.gone(pod("p"))
    found = manifests_in(shown(live))
    assert [one.metadata.name for one in found.pods] == ["q"]


def test_what_kubectl_remembers_is_left_out() -> None:
    made = pod("p", 1, annotations={"kubectl.kubernetes.io/last-applied-configuration": "hush", "team": "x"})
    text = shown(Watching(default_plugins(), things=[made])).decode()
    assert "hush" not in text
    assert json.loads(text)["items"][0]["metadata"]["annotations"] == {"team": "x"}


def test_an_empty_cluster_is_an_empty_list() -> None:
    assert json.loads(asyncio.run(text_of([])))["items"] == []


# -- objects


def anything(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Any value of a type of the model."""
    match kind:
        case inspect.StructType():
            fields = {field.name: anything(field.type) for field in kind.fields}
            needed = {field.name for field in kind.fields if field.required}
            given = {name: part for name, part in fields.items() if name in needed}
            others = {name: part for name, part in fields.items() if name not in needed}
            return st.fixed_dictionaries(given, optional=others).map(lambda values: kind.cls(**values))
        case inspect.UnionType():
            return st.one_of([anything(part) for part in kind.types])
        case inspect.ListType():
            return st.lists(anything(kind.item_type), max_size=2)
        case inspect.DictType():
            return st.dictionaries(anything(kind.key_type), anything(kind.value_type), max_size=2)
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.IntType():
            return st.integers(-(2**63) if kind.ge is None else kind.ge, 2**63 - 1 if kind.le is None else kind.le)
        case inspect.FloatType():
            return st.floats(kind.ge, kind.le, allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            return st.text(max_size=3)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.AnyType() | inspect.CustomType():
            return st.sampled_from([1, "text", ["a"], {"key": "value"}])
    raise AssertionError(kind)


@pytest.mark.parametrize("header", BY_HEADER, ids=lambda header: header[1] + " " + header[0])
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_an_object_is_the_same_after_it_was_written_and_read(header: tuple[str, str], data: st.DataObject) -> None:
    thing = data.draw(anything(inspect.type_info(BY_HEADER[header].struct)))
    written = manifest(thing)
    assert (written["apiVersion"], written["kind"]) == header
    assert decode_object(encode(written), BY_HEADER[header].struct) == thing
