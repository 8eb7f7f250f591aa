"""PodGroups are written about when there is something new to say, and not more often than that."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from tests import virtualtime
from tests.groups import add, group, kai_group, members, queue
from tests.scenario import node, scenario
from tests.scheduler.watching import leads
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import Plugin
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.kube.kinds import PODS, WATCHED
from tonnage.kube.resource import Change
from tonnage.model.group import KaiPodGroup, PodGroup, VolcanoPodGroup
from tonnage.model.pod import Pod
from tonnage.observability.events import ObjectRef
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.queues.overcommit import Overcommit
from tonnage.scheduler.cyclerunner import CycleRunner
from tonnage.scheduler.messages import Messages
from tonnage.scheduler.status import podgroups, writer
from tonnage.scheduler.status.podgroups import PodGroupStatuses

KAI_GROUPS = WATCHED[KaiPodGroup]
VOLCANO_GROUPS = WATCHED[VolcanoPodGroup]

PATH = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups/g"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podgroups, "SETTLING", 0.001)
    monkeypatch.setattr(podgroups, "PAUSE", 0.01)
    monkeypatch.setattr(writer, "FAILED_PAUSE", 0.01)


class World:
    """A scheduler's picture and its statuses, with an API server that refuses as planned."""

    def __init__(
        self,
        cluster: Cluster,
        *planned: Exception,
        actions: tuple[str, ...] = ("allocate",),
        plugins: Sequence[Plugin] = (),
    ) -> None:
        self.cluster = cluster
        self.planned = list(planned)
        self.written: list[tuple[str, Any]] = []
        self.events: list[tuple[ObjectRef, str, str]] = []
        self.cycle_runner = CycleRunner(cluster, [*default_plugins(), *plugins], make_actions(actions))
        self.podgroup_statuses = PodGroupStatuses(
            self,  # type: ignore[arg-type]
            cluster,
            lambda pod: not pod.labels.get("other"),
            lambda: 0.0,
            leads(),
            tell=lambda about, reason, message, alike: self.events.append((about, reason, message)),
        )

    async def request(self, method: str, path: str, *, body: Any, type_: str, timeout: float) -> bytes:
        self.written.append((path, body))
        await asyncio.sleep(0)
        if self.planned:
            raise self.planned.pop(0)
        return b"{}"

    def shows(self, *things: PodGroup | Pod, gone: bool = False) -> None:
        """Take over what the watch shows."""
        for thing in things:
            kind = PODS if isinstance(thing, Pod) else KAI_GROUPS if isinstance(thing, KaiPodGroup) else VOLCANO_GROUPS
            (kind.handler.drop(self.cluster, thing.key, thing) if gone else kind.handler.put(self.cluster, thing))
            self.podgroup_statuses.seen(kind, [Change(thing.key, thing, gone)])

    def cycle(self) -> None:
        found = self.cycle_runner.run((), 0.0)
        messages = Messages(found.waits)
        waiting = [(decision, messages.why_not(decision)) for decision in found.waiting]
        self.podgroup_statuses.cycle(found.enqueued, found.placed, waiting, found.refused)

    def run(self, *steps: Callable[[], None]) -> None:
        """One step after another, each when all before it is written."""

        async def main() -> None:
            running = asyncio.create_task(self.podgroup_statuses.run())
            for step in steps:
                step()
                await asyncio.sleep(0.08)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        virtualtime.run(main())

    @property
    def told(self) -> list[Any]:
        """What was written into statuses."""
        return [body["status"] for _, body in self.written if "status" in body]

    @property
    def phases(self) -> list[str]:
        return [status["phase"] for status in self.told if "phase" in status]


def one(*planned: Exception, cpu: str = "1", phase: str = "", **more: Any) -> tuple[World, PodGroup]:
    """A gang of two pods and a node for one or both of them."""
    world = World(scenario(node("a", cpu=cpu)), *planned, **more)
    made = group("g", 2, phase=phase, created="2026-01-01T00:00:00Z")
    thing = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid="u1"))
    world.shows(thing, *members("g", 2, cpu=1))
    return world, thing


def test_a_gang_that_cannot_start_is_let_in_and_says_why_in_one_write() -> None:
    world, _ = one()
    world.run(world.cycle)
    ((path, body),) = world.written
    assert path == f"{PATH}/status"
    assert body["metadata"] == {"uid": "u1"}
    assert body["status"]["phase"] == "Inqueue"
    (condition,) = body["status"]["conditions"]
    assert condition["message"].startswith("JobNotReady: default/g needs 2 of 2 pods placed, 1 fit")
    assert condition["lastTransitionTime"] == "1970-01-01T00:00:00Z"


def test_what_was_written_is_not_written_again_whether_the_watch_shows_it_or_not() -> None:
    world, thing = one()
    world.run(world.cycle, world.cycle, lambda: world.shows(thing), world.cycle)
    assert len(world.written) == 1


def test_a_controller_that_says_otherwise_has_the_last_word() -> None:
    world, thing = one(cpu="2")
    status = msgspec.structs.replace(thing.status, phase="Running", running=7)
    theirs = msgspec.structs.replace(thing, status=status)
    bound = members("g", 2, cpu=1, on="a")
    world.run(world.cycle, lambda: world.shows(*bound), lambda: world.shows(theirs), lambda: world.shows(*bound))
    assert [status["running"] for status in world.told if "running" in status] == [2]


def test_one_that_leads_again_corrects_what_another_replica_wrote_meanwhile() -> None:
    """Also if it is what it had written itself before."""
    world, thing = one(cpu="2")
    theirs = msgspec.structs.replace(thing, status=msgspec.structs.replace(thing.status, phase="Running", running=1))
    bound = members("g", 2, cpu=1, on="a")
    world.run(
        world.cycle,
        lambda: world.shows(*bound),
        world.podgroup_statuses.forget_written,
        lambda: world.shows(theirs),
    )
    assert [status["running"] for status in world.told if "running" in status] == [2, 2]


def test_a_gang_runs_when_its_pods_are_bound_and_is_done_when_they_are() -> None:
    world, thing = one(cpu="2")
    bound, done = members("g", 2, cpu=1, on="a"), members("g", 2, cpu=1, on="a", phase="Succeeded")
    failed = members("g", 2, cpu=1, on="a", phase="Failed")
    shown = msgspec.structs.replace(thing, status=msgspec.structs.replace(thing.status, phase="Running", running=2))
    world.run(world.cycle, lambda: world.shows(*bound), lambda: world.shows(shown, done[0], failed[1]))
    assert world.phases == ["Inqueue", "Running", "Completed"]
    assert world.told[1]["running"] == 2
    assert {name: world.told[2][name] for name in ("running", "succeeded", "failed")} == {
        "running": 0,
        "succeeded": 1,
        "failed": 1,
    }


def test_groups_whose_pods_are_not_ours_are_left_alone() -> None:
    world = World(scenario(node("a", cpu="2")))
    world.shows(group("g", 1, phase="Running"), *members("g", 2, cpu=1, on="a", labels={"other": "yes"}))
    world.run(world.cycle)
    assert world.written == []


def test_a_group_without_pods_is_let_in_because_they_may_be_made_only_then() -> None:
    world = World(scenario(node("a", cpu="1")))
    world.shows(group("g", 2, phase="Pending"))
    world.run(world.cycle)
    assert world.phases == ["Inqueue"]


@pytest.mark.parametrize("actions", [("allocate",), ("enqueue", "allocate")])
@pytest.mark.parametrize("state", [{"phase": "Pending"}, {"phase": "Succeeded"}])
def test_a_gang_that_has_lost_pods_is_let_in_again_because_they_may_be_made_only_then(
    actions: tuple[str, ...], state: dict[str, str]
) -> None:
    world = World(scenario(node("a", cpu="4")), actions=actions, plugins=[Overcommit()])
    running, pending = (group("g", 2, phase=phase, minResources={"cpu": "2"}) for phase in ("Running", "Pending"))
    left = members("g", 1, cpu=1, on="a", **state)
    world.run(lambda: world.shows(running, *left), lambda: world.shows(pending), world.cycle)
    assert world.phases == ["Pending", "Inqueue"]


@pytest.mark.parametrize("lost", [[], ["terminating"]])
def test_a_gang_that_has_lost_pods_while_others_run_is_unknown_so_that_controllers_make_them_again(
    lost: list[str],
) -> None:
    world = World(scenario(node("a", cpu="2")), actions=("enqueue", "allocate"), plugins=[Overcommit()])
    first, second = members("g", 2, cpu=1, on="a", phase="Running")
    thing = group("g", 2, phase="Running", minResources={"cpu": "2"})
    leaving = members("g", 2, cpu=1, on="a", phase="Running", **dict.fromkeys(lost, True))[1]
    world.run(
        lambda: world.shows(thing, first, second),
        lambda: world.shows(leaving, gone=not lost),
        world.cycle,
    )
    assert world.phases == ["Unknown"]


def test_a_gang_of_kai_says_why_and_stops_saying_so() -> None:
    world = World(scenario(node("a", cpu="1")))
    thing = kai_group("g", 2)
    world.shows(thing, *members("g", 2, cpu=1))

    def shown() -> None:
        status = msgspec.structs.replace(thing.status, **world.told[0])
        world.shows(msgspec.structs.replace(thing, status=status), *members("g", 2, cpu=1, on="a"))

    world.run(world.cycle, shown)
    assert "needs 2 of 2 pods placed" in world.told[0]["schedulingConditions"][0]["message"]
    assert world.told[1] == {"schedulingConditions": []}


@pytest.mark.parametrize(("pause", "least", "most"), [(10.0, 2, 2), (0.1, 3, 6)])
def test_a_gang_that_changes_all_the_time_is_written_about_twice_and_then_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch, pause: float, least: int, most: int
) -> None:
    monkeypatch.setattr(podgroups, "PAUSE", pause)
    world, _ = one()
    (waits, *_), numbers = world.cycle_runner.run((), 0.0).waiting, iter(range(6))
    world.run(*[lambda: world.podgroup_statuses.cycle((), (), [(waits, f"{next(numbers)} fit")])] * 6)
    assert least <= len(world.written) <= most


# -- Events


def test_a_gang_that_cannot_start_says_so_by_an_event_on_its_group_and_then_that_it_can() -> None:
    world, thing = one()
    world.run(
        world.cycle,
        world.cycle,
        lambda: world.shows(thing, *members("g", 2, cpu=1, on="a")),
    )
    (about, reason, message), (_, then, ready) = world.events
    assert about == ObjectRef("default", "g", "u1", "PodGroup", "scheduling.volcano.sh/v1beta1")
    assert reason == "Unschedulable"
    assert message.startswith("2/2 tasks in gang unschedulable: JobNotReady: default/g needs 2 of 2 pods placed, 1 fit")
    assert (then, ready) == ("Scheduled", "tasks in gang are ready to be scheduled")


def test_a_gang_of_kai_says_so_too() -> None:
    world = World(scenario(node("a", cpu="1")))
    world.shows(kai_group("g", 2), *members("g", 2, cpu=1))
    world.run(world.cycle)
    ((about, reason, _),) = world.events
    assert (about.api_version, reason) == ("scheduling.run.ai/v2alpha2", "Unschedulable")


def test_a_group_that_is_not_let_in_is_pending_and_says_why_though_it_has_no_pods() -> None:
    world = World(scenario(node("a", cpu="1")), actions=("enqueue", "allocate"), plugins=[Overcommit()])
    thing = group("g", 2, phase="", minResources={"cpu": "4"})
    world.shows(thing)

    def shown() -> None:
        status = msgspec.structs.replace(thing.status, **world.told[0])
        world.shows(msgspec.structs.replace(thing, status=status))
        world.cluster.upsert_node(node("a", cpu="4"))

    world.run(world.cycle, world.cycle, shown, world.cycle)
    status = world.told[0]
    assert world.phases == ["Pending", "Inqueue"]
    (condition,) = status["conditions"]
    assert (condition["type"], condition["reason"]) == ("Unschedulable", "NotEnoughResources")
    why = "queue default does not let default/g in, which starts with cpu 4"
    assert condition["message"] == why
    assert [(reason, message) for _, reason, message in world.events] == [
        ("Unschedulable", f"0/0 tasks in gang unschedulable: {why}")
    ]


def test_a_group_in_a_queue_that_is_closed_says_so_before_it_has_pods() -> None:
    world = World(add(scenario(node("a")), queue("q", state="Closed")))
    world.shows(group("g", 2, phase="", queue="q"))
    world.run(world.cycle)
    assert world.told[0]["conditions"][0]["message"] == "queue q is closed; no job of it starts"


# -- what can go wrong


@pytest.mark.parametrize("status", [403, 422])
def test_what_is_refused_is_tried_again_only_later_and_said_once(status: int, caplog: pytest.LogCaptureFixture) -> None:
    world, thing = one(*(StatusError(status, "No", "no") for _ in range(5)))
    world.run(world.cycle, world.cycle, lambda: world.shows(thing))
    assert len(world.written) == 1
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


@pytest.mark.parametrize("lost", [StatusError(500, "InternalError", ""), ConnectionLostError("reset")])
def test_what_came_to_nothing_is_tried_again(lost: Exception) -> None:
    world, _ = one(lost)
    world.run(world.cycle)
    assert world.phases == ["Inqueue", "Inqueue"]


def test_another_object_of_that_name_is_left_to_the_watch() -> None:
    world, _ = one(StatusError(409, "Conflict", "another UID"))
    world.run(world.cycle)
    assert len(world.written) == 1


def test_a_definition_without_a_status_of_its_own_is_written_as_a_whole() -> None:
    world, _ = one(StatusError(404, "NotFound", ""))
    world.run(world.cycle, lambda: world.shows(*members("g", 2, cpu=1, on="a")))
    assert [path for path, _ in world.written] == [f"{PATH}/status", PATH, PATH]


def test_a_group_that_is_gone_is_forgotten() -> None:
    world, thing = one(StatusError(404, "NotFound", ""), StatusError(404, "NotFound", ""))
    world.run(world.cycle, lambda: world.shows(thing, gone=True), world.cycle)
    assert len(world.written) == 2
    assert world.podgroup_statuses.queued == 0


# -- who is let in


def test_a_group_that_was_let_in_stays_so_before_the_api_server_says_so() -> None:
    cluster = scenario(node("a", cpu="1"), *members("g", 2, cpu=1))
    thing = group("g", 2, phase="Pending", created="1", minResources={"cpu": "1"})
    add(cluster, thing)
    cycle_runner = CycleRunner(cluster, default_plugins(), make_actions(("enqueue", "allocate")))
    assert cycle_runner.run((), 0.0).enqueued == ["default/g"]
    assert cycle_runner.run((), 0.0).enqueued == []
    add(cluster, thing)
    assert cluster.groups.groups["default/g"].phase == "Inqueue", "old news"
    add(cluster, group("g", 2, phase="Running", created="1"))
    add(cluster, group("g", 2, phase="Pending", created="1"))
    assert cluster.groups.groups["default/g"].phase == "Pending", "it has begun anew"


def test_another_group_of_the_same_name_is_asked_about_anew() -> None:
    cluster = add(scenario(*members("g", 2, cpu=1)), group("g", 2, phase="", created="1"))
    cluster.groups.let_in("default/g")
    add(cluster, group("g", 2, phase="", created="2"))
    assert cluster.groups.groups["default/g"].phase == ""


def test_groups_without_pods_take_their_part_of_what_may_be_let_in() -> None:
    cluster = scenario(node("a", cpu="2"), *members("late", 1, cpu=2))
    for number, name in enumerate(("early", "late")):
        add(cluster, group(name, 1, phase="Pending", created=str(number), minResources={"cpu": "2"}))
    cycle_runner = CycleRunner(cluster, [*default_plugins(), Overcommit()], make_actions(("enqueue", "allocate")))
    found = cycle_runner.run((), 0.0)
    assert found.enqueued == ["default/early"]
    assert [decision.why_not().partition(":")[0] for decision in found.waiting] == ["NotEnqueued"]
    cluster.groups.put_unmanaged(members("other", 1)[0])
    add(cluster, group("other", 1, phase="Pending"))
    assert cycle_runner.run((), 0.0).enqueued == [], "its pods wait for another scheduler"
