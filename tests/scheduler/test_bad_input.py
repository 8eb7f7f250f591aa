"""What is wrong with one object is said of it, costs little, and keeps nobody else waiting."""

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.groups import group, kai_group, kai_queue, member, members, queue
from tests.kube.fake_server import fake_server
from tests.kube.live import QUICK, run
from tests.scenario import ALLOCATED, REGISTER, node, plain, pod
from tests.scheduler.watching import Watching
from tests.waiting import until_true
from tonnage.actions.catalog import make_actions
from tonnage.devices.catalog import default_vendors
from tonnage.framework.decider import Decider
from tonnage.kube.client import connect
from tonnage.kube.kinds import BATCH_KINDS, KAI_QUEUES, VOLCANO_QUEUES, WATCHED, WatchedKind
from tonnage.kube.resource import read_page
from tonnage.model.group import VolcanoPodGroup
from tonnage.model.pod import DEFAULT_SCHEDULER, Pod
from tonnage.model.problem import Problem
from tonnage.observability.messages import LONGEST_MESSAGE
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.gpus import devices
from tonnage.plugins.gpus.devices import Devices
from tonnage.scheduler.cyclelimit import AIM, FEWEST, MOST, CycleLimit
from tonnage.scheduler.messages import Messages
from tonnage.scheduler.metrics import SchedulerMetrics
from tonnage.scheduler.problems import MOST_LINES, Problems, Unreadable
from tonnage.scheduler.service import SchedulerService

VOLCANO_GROUPS = WATCHED[VolcanoPodGroup]


class World:
    """A scheduler that passes over who need not be looked at, as the service does."""

    def __init__(self, *things: Any, portion: int = 1000) -> None:
        self.watching = Watching(default_plugins())
        self.cycle_limit = CycleLimit(self.watching.unschedulable, portion)
        self.said: dict[str, str] = {}
        self.placed: dict[str, str | None] = {}
        self.problems: dict[str, Problem] = {}
        self.unreadable = Unreadable(self.problems, self.watching.triggers.room_came_free)
        self.tell(*things)

    def tell(self, *things: Any) -> None:
        self.watching.tell(*things)

    def read(self, kind: WatchedKind, *objects: dict[str, Any]) -> None:
        """Take over objects as the API server shows them."""
        page = read_page(kind.resource, json.dumps({"metadata": {}, "items": objects}).encode())
        for change in page.changes:
            if change.problem is not None:
                self.problems[f"{kind.resource.name}/{change.key}"] = change.problem
            else:
                self.problems.pop(f"{kind.resource.name}/{change.key}", None)
                self.tell(change.object)
        self.unreadable.seen(kind, page.changes)

    def cycle(self) -> list[str]:
        """Decide once; the pods that were looked at."""
        unschedulable = self.watching.unschedulable
        cycle = self.watching.cycle_runner.run(self.cycle_limit.next(self.watching.cluster.waiting), 0.0)
        unschedulable.add(cycle.waiting)
        messages = Messages(cycle.waits, self.unreadable.about)
        for decision in cycle.waiting:
            self.said[decision.task.name] = messages.why_not(decision)
        for decision in cycle.placed:
            unschedulable.remove(decision.task.key)
            self.placed[decision.task.name] = decision.node
        return [decision.task.name for decision in (*cycle.placed, *cycle.waiting)]


# -- what is said


@pytest.mark.parametrize("fraction", ["abc", "", "-0.5", "0", "1.5", "nan", "inf", "1e400", "0.5.5", "٠.٥"])
def test_a_part_of_a_card_that_is_no_such_number(fraction: str) -> None:
    world = World(plain("a", 1), pod("p", None, annotations={"gpu-fraction": fraction}), pod("fine", 1))
    world.cycle()
    assert "InvalidRequest" in world.said["p"]
    assert f"annotation gpu-fraction: {fraction!r} is not a number above 0 and below 1" in world.said["p"]
    assert world.placed == {"fine": "a"}


@pytest.mark.parametrize("count", ["abc", "", "-1", "0", "1e3", "99999999999999999999"])
def test_a_minimum_that_is_no_such_number(count: str) -> None:
    world = World(plain("a", 1), pod("p", 1, annotations={"tonnage.io/min-members": count}), pod("fine", 1))
    world.cycle()
    wanted = (
        f"InvalidGroup: default/p: annotation tonnage.io/min-members is {count!r}; expected a whole number from 1 up"
    )
    assert world.said == {"p": wanted}
    assert world.placed == {"fine": "a"}


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        (
            {"tonnage.io/min-members": "4", "tonnage.io/max-members": "2"},
            "at most 2 pods may have a place, fewer than the 4",
        ),
        ({"tonnage.io/queue": "../..//x\n\x00 é"}, r"QueueNotFound: default/p is in queue ../..//x\n\x00 é"),
        ({"scheduling.volcano.sh/queue-name": "gone"}, "QueueNotFound: default/p is in queue gone"),
        ({"scheduling.k8s.io/group-name": "gone"}, "GroupNotFound: the pods name the PodGroup default/gone"),
        ({"pod-group-name": "../x"}, "GroupNotFound: the pods name the PodGroup default/../x"),
        ({"gpu-memory": "8Gi"}, "annotation gpu-memory: '8Gi' is not a whole number of MiB"),
        ({"gpu-fraction": "0.5"}, "keep one of them"),
        ({"hami.io/device-scoring-weights": "x=1"}, "expected slot=N,core=N,memory=N"),
        ({"tonnage.io/min-members": "1", "tonnage.io/topology-required": "rack"}, "no node has the label rack"),
    ],
)
def test_annotations_that_cannot_be_followed(annotations: dict[str, str], said: str) -> None:
    world = World(plain("a", 1), pod("p", 1, annotations=annotations), pod("fine", 1))
    world.cycle()
    assert said in world.said["p"]
    assert world.placed == {"fine": "a"}


def test_a_very_long_name_makes_no_very_long_sentence() -> None:
    world = World(plain("a", 1), pod("p", 1, annotations={"tonnage.io/queue": "q" * 200_000}))
    world.cycle()
    assert len(world.said["p"].encode()) <= LONGEST_MESSAGE


def test_groups_without_queue_or_enough_pods_wait_and_say_so() -> None:
    world = World(
        plain("a", 8),
        *(group("noqueue", 1, queue="missing"), *members("noqueue", 1, 1)),
        *(group("few", 5), *members("few", 4, 1)),
        *(group("closed", 1, queue="shut"), queue("shut", state="Closed"), *members("closed", 1, 1)),
        *(group("much", 2**31 - 1), *members("much", 1, 1)),
        *(group("fine", 2), *members("fine", 2, 1)),
    )
    world.cycle()
    assert world.placed == {"fine-0": "a", "fine-1": "a"}
    assert world.said["noqueue-0"] == "QueueNotFound: default/noqueue is in queue missing, which is not known"
    assert world.said["few-3"] == "NotEnoughPods: default/few needs 5 pods to start, and there are 4"
    assert world.said["closed-0"] == "QueueClosed: queue shut is closed; no job of it starts"
    assert world.said["much-0"] == "NotEnoughPods: default/much needs 2147483647 pods to start, and there are 1"


@pytest.mark.parametrize("kai", [False, True])
def test_queues_in_a_circle_lose_one_link_and_serve_on(kai: bool) -> None:
    links = {"a": "b", "b": "c", "c": "a", "self": "self", "orphan": "nowhere"}
    queues = [kai_queue(n, parentQueue=up) if kai else queue(n, parent=up) for n, up in links.items()]
    groups = [kai_group(name, 1, queue=name) if kai else group(name, 1, queue=name) for name in links]
    pods = [member(f"p-{name}", name, 1) for name in links]
    world = World(plain("n", 8), *queues, *groups, *pods)
    world.cycle()
    # a is below b, b below c: only a can have jobs.
    assert world.placed.keys() == {"p-a", "p-self", "p-orphan"}
    assert "QueueIsDivided: queue b is divided into 1 queues, such as a" in world.said["p-b"]
    found = [str(problem) for problem in Problems(world.watching.cluster, {}).all()]
    assert any(one.startswith("Queue/c: spec.parent: c would be above itself") for one in found)
    assert any(one.startswith("Queue/self: spec.parent: self would be above itself") for one in found)
    assert any(one.startswith("Queue/orphan: spec.parent: there is no queue nowhere") for one in found)


def test_of_two_groups_that_a_pod_names_volcanos_counts() -> None:
    both = {"scheduling.k8s.io/group-name": "v", "pod-group-name": "k"}
    world = World(plain("a", 8), group("v", 2), kai_group("k", 1), pod("p", 1, annotations=both))
    world.cycle()
    assert world.said == {"p": "NotEnoughPods: default/v needs 2 pods to start, and there are 1"}


def named(name: str, spec: Any, namespace: str | None = "default") -> dict[str, Any]:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"minMember": -3}, "spec.minMember"),
        ({"minMember": "many"}, "spec.minMember"),
        ({"minMember": 2**70}, "spec.minMember"),
        ({"minMember": 1, "minResources": {"cpu": "abc"}}, "spec.minResources[cpu]: 'abc' is not a quantity"),
    ],
)
def test_pods_of_a_group_that_cannot_be_read_are_told_what_is_wrong_with_it(spec: Any, said: str) -> None:
    world = World(plain("a", 8), *members("g", 1, 1))
    world.cycle()
    assert world.said["g-0"] == "GroupNotFound: the pods name the PodGroup default/g, which is not known"
    world.read(VOLCANO_GROUPS, named("g", spec), named("fine", {"minMember": 1}))
    world.tell(*members("fine", 1, 1))
    world.cycle()
    assert world.placed == {"fine-0": "a"}
    assert f"; PodGroup/default/g: {said}" in world.said["g-0"]
    world.read(VOLCANO_GROUPS, named("g", {"minMember": 1}))
    world.cycle()
    assert world.placed.keys() == {"fine-0", "g-0"}


def test_pods_of_a_queue_that_cannot_be_read_are_told_what_is_wrong_with_it() -> None:
    world = World(plain("a", 8), group("v", 1, queue="v"), kai_group("k", 1, queue="k"))
    world.tell(*members("v", 1, 1), *members("k", 1, 1))
    world.read(VOLCANO_QUEUES, named("v", {"capability": {"cpu": "-1"}}, None))
    world.read(KAI_QUEUES, named("k", {"preemptMinRuntime": "soon"}, None))
    world.cycle()
    assert "QueueNotFound" in world.said["v-0"]
    assert "Queue/v: spec.capability[cpu]: -1 is below zero" in world.said["v-0"]
    assert "Queue/k: spec.preemptMinRuntime: 'soon' is no duration" in world.said["k-0"]


def test_the_same_unreadable_group_again_is_no_reason_to_look_at_everybody() -> None:
    world = World(plain("a", 1), pod("large", 4))
    world.read(VOLCANO_GROUPS, named("g", {"minMember": -3}))
    assert world.cycle() == ["large"]
    world.read(VOLCANO_GROUPS, named("g", {"minMember": -3}))
    assert world.cycle() == []


def test_devices_that_cannot_be_decoded_are_problems_and_hide_nothing_else() -> None:
    world = World(
        node("garbled", annotations={REGISTER: "!!"}),
        node("a", gpus=2),
        *(
            pod(f"held{at}", 1, on="a", annotations={ALLOCATED: text})
            for at, text in enumerate(["x;;:,", "a/0,N,y,0:;"])
        ),
        *(plain("b", 1), pod("fine", 1), pod("shares", 1, memory=100)),
    )
    world.cycle()
    assert world.placed == {"fine": "b", "shares": "a"}
    found = [str(problem) for problem in Problems(world.watching.cluster, {}).all()]
    assert [one.partition(":")[0] for one in found] == ["Node/garbled", "Pod/default/held0", "Pod/default/held1"]
    assert "the NVIDIA devices of this node are hidden until it is mended" in found[0]
    assert "the pod is counted without knowing its cards" in found[1]


# -- problems in the log


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


def test_a_problem_is_told_once_when_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    world = World(group("few", 5), *members("few", 4, 1), group("coming", 2), *members("coming", 1, 1))
    problems = Problems(world.watching.cluster, {})
    problems.check()
    assert lines(caplog) == []
    world.tell(*members("coming", 2, 1))
    problems.check()
    (line,) = lines(caplog)
    assert line.startswith("PodGroup/default/few: spec.minMember: 5 pods must start together, and there are 4")
    assert len(problems) == 1
    problems.check()
    assert lines(caplog) == []
    world.tell(group("few", 4))
    problems.check()
    world.tell(group("few", 5))
    for _ in range(2):
        problems.check()
    assert lines(caplog) == [line], "mended, and wrong again"


def test_very_many_problems_make_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    world = World(*(queue(f"q{number:03}", parent="nowhere") for number in range(MOST_LINES + 100)))
    problems = Problems(world.watching.cluster, {})
    for _ in range(3):
        problems.check()
    found = lines(caplog)
    assert len(found) == MOST_LINES + 1
    assert found[-1] == "100 more problems; /debug/problems shows them all"


# -- what it costs


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that were decided about, in order."""
    found: list[str] = []
    decide = Decider.decide

    def noted(decider: Decider, task: Any, *more: Any) -> Any:
        found.append(task.name)
        return decide(decider, task, *more)

    monkeypatch.setattr(Decider, "decide", noted)
    return found


def test_an_impossible_gang_costs_once_and_again_only_when_it_might_be_possible(decided: list[str]) -> None:
    gang = members("gang", 100, 8)
    world = World(*(plain(f"n{number}", 4) for number in range(10)), group("gang", 100), *gang)
    world.cycle()
    assert len(decided) == 1, "one of its pods, because all are alike"
    decided.clear()
    for number in range(20):
        world.tell(pod(f"p{number}", 1))
        world.cycle()
        world.tell(pod(f"p{number}", 1, on=world.placed[f"p{number}"]), plain("n0", 4))
        world.tell(gang[0])
        world.cycle()
    assert decided == [f"p{number}" for number in range(20)], "others come, start and run; its condition is written"
    decided.clear()
    world.watching.gone(pod("p3", 1, on=world.placed["p3"]))
    world.cycle()
    assert len(decided) == 1, "room came free"
    decided.clear()
    world.tell(*(plain(f"m{number:03}", 8) for number in range(100)))
    world.cycle()
    assert len(world.placed) == 120


def many(name: str, containers: Sequence[tuple[int, int]], gpus: int = 1) -> Pod:
    """A pod whose containers take so much memory, and compute, of a card each."""
    parts = [pod("part", gpus, memory=memory, cores=cores).spec.containers[0] for memory, cores in containers]
    parts = [msgspec.structs.replace(part, name=f"c{number}") for number, part in enumerate(parts)]
    made = pod(name, 1)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, containers=parts))


def test_a_pod_of_a_thousand_containers_costs_no_more_on_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    attempt = Devices._attempt
    monkeypatch.setattr(
        Devices, "_attempt", lambda self, task, row, codes: (tried.append(row), attempt(self, task, row, codes))[1]
    )
    world = World(*(node(f"n{number:02}", gpus=8, slots=200) for number in range(50)))
    world.tell(many("large", [(100, 0)] * 1000), pod("small", 1, memory=100))
    world.cycle()
    assert world.placed.keys() == {"small"}
    assert "50 CardInsufficientMemory" in world.said["large"]
    assert len(tried) == 2, "one for the sentence, one for the small pod"
    world.tell(many("fits", [(10, 0)] * 1000))
    world.cycle()
    assert "fits" in world.placed


@given(
    containers=st.lists(st.tuples(st.sampled_from([0, 100, 3000]), st.sampled_from([0, 10])), min_size=17, max_size=30),
    nodes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 12)), min_size=1, max_size=4),
)
def test_summing_up_many_containers_decides_as_trying_them_does(
    containers: list[tuple[int, int]], nodes: list[tuple[int, int]]
) -> None:
    outcomes = []
    for few in (devices._MANY, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(devices, "_MANY", few)
            world = World(*(node(f"n{at}", gpus=gpus, slots=slots) for at, (gpus, slots) in enumerate(nodes)))
            world.tell(many("p", containers))
            world.cycle()
            outcomes.append((world.placed, world.said.keys()))
    assert outcomes[0] == outcomes[1]


# -- very many pods


def test_of_very_many_pods_the_first_and_the_latest_are_looked_at_first() -> None:
    world = World(plain("a", 4), *(pod(f"p{number:03}", 8) for number in range(100)), portion=10)
    world.tell(pod("small", 1))
    looked_at = world.cycle()
    assert world.placed == {"small": "a"}
    assert set(looked_at) == {f"p{n:03}" for n in (0, 1, 2, 3, 4, 96, 97, 98, 99)} | {"small"}
    assert world.cycle_limit.is_partial
    cycles = 1
    while world.cycle_limit.is_partial:
        world.cycle()
        cycles += 1
    assert cycles == 11
    assert len(world.said) == 100
    assert world.cycle() == []


def test_nobody_is_left_out_however_often_room_comes_free() -> None:
    world = World(plain("a", 4), *(pod(f"p{number:03}", 8) for number in range(100)), portion=10)
    for _ in range(20):
        assert {f"p{number:03}" for number in range(5)} <= set(world.cycle()), "what came free is theirs first"
        world.watching.triggers.room_came_free()
    assert len(world.said) == 100


def test_a_gang_is_looked_at_as_a_whole() -> None:
    world = World(plain("a", 50), *(pod(f"p{number:03}", 80) for number in range(100)), portion=10)
    world.tell(group("gang", 50), *members("gang", 50, 1))
    world.cycle()
    assert len(world.placed) == 50


def test_portions_are_as_large_as_there_is_time_for() -> None:
    world = World(*(pod(f"p{number}", 1) for number in range(30_000)), portion=1000)

    def portion() -> int:
        waiting = world.watching.cluster.waiting
        passed_over = world.cycle_limit.next(waiting)
        return sum(1 for key in waiting if key not in passed_over)

    assert portion() == 1000
    for _ in range(10):
        world.cycle_limit.adapt(AIM * 2)
    assert portion() == 300 > FEWEST, "a hundredth of those that wait"
    for _ in range(10):
        world.cycle_limit.adapt(AIM / 2)
    assert portion() == MOST


def test_cycles_follow_each_other_until_everybody_was_looked_at(tmp_path: Path) -> None:
    async def main() -> None:
        async with fake_server() as server:
            server.served |= {kind.resource.path for kind in BATCH_KINDS}
            server.put(plain("a", 1))
            for number in range(50):
                server.put(pod(f"p{number}", 8))
            client = await connect(server.kubeconfig(tmp_path))
            service = SchedulerService(
                client,
                default_vendors(),
                default_plugins(),
                make_actions(),
                QUICK,
                SchedulerMetrics(),
                DEFAULT_SCHEDULER,
            )
            service._cycle_limit = CycleLimit(service.unschedulable, 10)
            running = asyncio.create_task(service.run())
            await until_true(lambda: len(service.unschedulable) == 50)
            cycles = service.cycles
            assert cycles >= 2, "the portions grow as long as there is time"
            await asyncio.sleep(0.1)
            assert service.cycles == cycles
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await client.close()

    run(main())
