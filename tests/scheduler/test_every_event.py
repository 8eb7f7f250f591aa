"""Whoever could be let in is: a scheduler that decides when its triggers say so, and one that looks after every event.

Both are told of the same random events, and bind what they decide. After each event they have bound the same pods to
the same nodes, and let the same groups into the queue.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests import virtualtime
from tests.groups import group, member, priority_class, queue
from tests.scenario import node, pod
from tests.scheduler.podstore import PodStore, scheduling
from tonnage.model.group import VolcanoPodGroup
from tonnage.model.pod import Pod, SchedulingGate
from tonnage.model.quota import ResourceQuota
from tonnage.model.wire import convert
from tonnage.plugins.catalog import plugins_named
from tonnage.scheduler import service as module

PLUGINS = ("overcommit", "proportion")
ACTIONS = ("enqueue", "allocate", "backfill")
CALM = 1.5
"""Seconds after which nothing goes on any more that the last event started."""
FOREIGN = "default-scheduler-of-others"


class Event(NamedTuple):
    """One thing that happens: a word for it, what it happens to, and a number that varies it."""

    word: str
    name: str
    number: int


def changed(thing: Any, **parts: Any) -> Any:
    """An object with some fields of its parts exchanged."""
    return msgspec.structs.replace(
        thing, **{part: msgspec.structs.replace(getattr(thing, part), **fields) for part, fields in parts.items()}
    )


class Teller:
    """Tells one store of events."""

    def __init__(self, store: PodStore) -> None:
        self._store = store
        self._things: dict[tuple[type[Any], str], Any] = {}
        self._made = 0

    def tell(self, event: Event) -> None:
        words: dict[str, Callable[[str, int], None]] = {
            "node": self._node,
            "cordoned": lambda name, _: self._put(node(name, cpu="2", unschedulable=True)),
            "lost": lambda name, _: self._drop(type(node("n")), name),
            "pod": self._pod,
            "foreign": self._foreign,
            "group": self._group,
            "ungrouped": lambda name, _: self._drop(VolcanoPodGroup, name),
            "queue": self._queue,
            "unqueued": lambda name, _: self._drop(type(queue("q")), name),
            "class": lambda name, number: self._put(priority_class(name, number)),
            "unclassed": lambda name, _: self._drop(type(priority_class("c", 1)), name),
            "quota": self._quota,
            "unlimited": lambda name, _: self._drop(ResourceQuota, name),
            "phase": self._phase,
            "runs": lambda name, _: self._pod_changes(name, status={"phase": "Running"}),
            "over": lambda name, number: self._pod_changes(name, status={"phase": ("Succeeded", "Failed")[number % 2]}),
            "refused": lambda name, _: self._pod_changes(name, status={"phase": "Failed", "reason": "OutOfcpu"}),
            "ends": lambda name, _: self._pod_changes(name, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            "gone": lambda name, _: self._gone(name),
            "gated": lambda name, number: self._gated(name, number),
            "bound": lambda name, number: self._bound(name, number),
        }
        words[event.word](event.name, event.number)

    def _put(self, thing: Any) -> None:
        self._things[type(thing), thing.metadata.name] = thing
        self._store.add(thing)

    def _drop(self, kind: type[Any], name: str) -> None:
        thing = self._things.pop((kind, name), None)
        if thing is not None:
            self._store.remove(thing)

    def _node(self, name: str, number: int) -> None:
        self._put(node(name, cpu=str(1 + number % 3), gpus=number % 2))

    def _pod(self, name: str, number: int) -> None:
        if f"default/{name}" in self._store.pods:
            return
        self._made += 1
        wants: dict[str, Any] = {"cpu": 1 + number // 2 % 2, "gpus": 1 if number % 5 == 4 else None}
        made: Pod = member(name, name[0], **wants) if name[0] in "gh" else pod(name, priority=number, **wants)
        gates = [SchedulingGate("hold")] if number > 9 else None
        self._store.add(changed(made, metadata={"uid": f"u{self._made}"}, spec={"schedulingGates": gates}))

    def _foreign(self, name: str, number: int) -> None:
        if f"default/f-{name}" not in self._store.pods:
            self._made += 1
            made = member(f"f-{name}", name[0], cpu=1)
            self._store.add(changed(made, metadata={"uid": f"u{self._made}"}, spec={"schedulerName": FOREIGN}))

    def _group(self, name: str, number: int) -> None:
        before = self._things.get((VolcanoPodGroup, name))
        self._made += before is None
        created = f"2026-01-01T00:00:{self._made % 60:02}Z" if before is None else before.metadata.creationTimestamp
        phase = ("", "Pending", "Inqueue")[number // 2 % 3] if before is None else before.status.phase
        cpu = number // 6 % 5
        spec: dict[str, Any] = {"minResources": {"cpu": str(cpu)}} if cpu else {}
        spec |= {"queue": "q"} if number // 30 % 3 == 2 else {}
        spec |= {"priorityClassName": "c"} if number // 90 else {}
        self._put(group(name, 1 + number % 2, phase=phase, created=created, **spec))

    def _phase(self, name: str, number: int) -> None:
        before = self._things.get((VolcanoPodGroup, name))
        if before is not None:
            self._put(changed(before, status={"phase": ("Pending", "Inqueue", "Running", "Completed")[number % 4]}))

    def _queue(self, name: str, number: int) -> None:
        spec = {"capability": {"cpu": str(1 + number % 3)}} if number % 3 else {}
        self._put(queue(name, state="Closed" if number % 4 == 3 else "Open", weight=1 + number % 2, **spec))

    def _quota(self, name: str, number: int) -> None:
        hard = {"limits.nvidia.com/gpu": str(number % 3)}
        self._put(convert({"metadata": {"name": name, "namespace": "default"}, "spec": {"hard": hard}}, ResourceQuota))

    def _pod_changes(self, name: str, **parts: Any) -> None:
        for key in (f"default/{name}", f"default/f-{name}"):
            before = self._store.pods.get(key)
            if before is not None and (before.node is not None or "status" not in parts):
                self._store.add(changed(before, **parts))

    def _gated(self, name: str, number: int) -> None:
        before = self._store.pods.get(f"default/{name}")
        if before is not None and before.node is None:
            gates = [SchedulingGate("hold")] if number % 2 else None
            self._store.add(changed(before, spec={"schedulingGates": gates}))

    def _bound(self, name: str, number: int) -> None:
        """Another scheduler binds one of its pods."""
        before = self._store.pods.get(f"default/f-{name}")
        if before is not None and before.node is None:
            self._store.add(changed(before, spec={"nodeName": ("m", "n")[number % 2]}))

    def _gone(self, name: str) -> None:
        for key in (f"default/{name}", f"default/f-{name}"):
            if key in self._store.pods:
                self._store.remove(key)


def picture(store: PodStore) -> dict[str, object]:
    """Where pods are, and how far groups are."""
    groups = store.service.cluster.groups.groups
    return {pod.key: pod.node for pod in store.pods.values()} | {f"group {key}": groups[key].phase for key in groups}


def replay(monkeypatch: pytest.MonkeyPatch, events: list[Event]) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            worlds = [
                await stack.enter_async_context(
                    scheduling(monkeypatch, plugins=plugins_named(PLUGINS), actions=ACTIONS)
                )
                for _ in range(2)
            ]
            tellers = [Teller(store) for store, _ in worlds]
            (store, _), (eager, looking) = worlds
            for number, event in enumerate(events):
                for teller in tellers:
                    teller.tell(event)
                looking._triggers.room_came_free()
                await asyncio.sleep(CALM)
                looking._triggers.room_came_free()
                await asyncio.sleep(CALM)
                assert picture(store) == picture(eager), events[: number + 1]

    virtualtime.run(main())


PODS = ("a", "b", "g0", "g1", "h0", "h1")


def events_of(words: str, names: Sequence[str], numbers: int) -> st.SearchStrategy[Event]:
    return st.builds(Event, st.sampled_from(words.split()), st.sampled_from(names), st.integers(0, numbers))


EVENTS = st.one_of(
    events_of("pod pod gone over refused ends runs gated", PODS, 14),
    events_of("group phase phase ungrouped", "gh", 179),
    events_of("node cordoned lost", "mn", 5),
    events_of("foreign bound gone", ("g0", "h0", "a"), 3),
    events_of("queue unqueued", ("q", "default"), 9),
    events_of("class unclassed", "c", 3),
    events_of("quota unlimited", ("quota",), 3),
)
FIRST = st.tuples(events_of("node", "n", 5), events_of("group", "g", 179), events_of("group", "h", 179))
"""What most of the other events are about."""
RESTARTED = [
    Event("node", "n", 1),
    Event("group", "g", 9),
    Event("pod", "g0", 0),
    Event("pod", "g1", 0),
    Event("over", "g0", 0),
    Event("over", "g1", 0),
    Event("ungrouped", "g", 0),
    Event("group", "g", 9),
    Event("gone", "g0", 0),
    Event("gone", "g1", 0),
]
"""A job that is restarted: the new group has the old name, and old pods go after it came."""
GATED = [
    Event("node", "n", 1),
    Event("group", "g", 16),
    Event("group", "h", 8),
    Event("pod", "h0", 0),
    Event("pod", "g0", 10),
]
"""A group is not let in beside what is kept for another, for which nothing is kept any more once its pod is gated."""


@example(events=RESTARTED)
@example(events=GATED)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.builds(lambda first, then: [*first, *then], FIRST, st.lists(EVENTS, min_size=3, max_size=25)))
def test_a_scheduler_that_waits_for_its_triggers_misses_nothing(
    monkeypatch: pytest.MonkeyPatch, events: list[Event]
) -> None:
    monkeypatch.setattr(module, "gc", SimpleNamespace(collect=lambda: 0, freeze=lambda: None))
    replay(monkeypatch, events)
