"""Gangs start whole or wait, and say what for."""

from collections import Counter

import msgspec
import pytest

from tests.groups import add, cycle, group, kai_group, member, members, priority_class, queue
from tests.scenario import node, plain, pod, running, scenario
from tonnage.actions.catalog import make_actions
from tonnage.framework.cycle import run_cycle
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.pod import SchedulingGate
from tonnage.model.selection import Affinity
from tonnage.model.wire import convert
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.jobs.elastic import Elastic

# -- whole or not at all


def test_a_gang_that_fits_starts_as_a_whole():
    cluster = add(scenario(node("a", gpus=2, slots=1), node("b", gpus=2, slots=1), *members("g", 4, 1)), group("g", 4))
    done = cycle(cluster)
    assert sorted(done.placed) == ["g-0", "g-1", "g-2", "g-3"]
    record = done.document.decisions[0]
    assert (record.job, record.queue) == ("default/g", "default")


def test_a_gang_that_does_not_fit_waits_as_a_whole_with_numbers():
    cluster = add(scenario(node("a", gpus=3, slots=1), node("b"), *members("g", 4, 1)), group("g", 4))
    done = cycle(cluster)
    assert done.placed == {}
    assert done.waiting == {"g-0", "g-1", "g-2"}
    assert done.decisions["g-3"].outcome == "unschedulable"
    fit = "0 of 2 nodes fit: 1 CardTimeSlicingExhausted, 1 NodeUnregistered"
    assert done.why("g-0") == f"JobNotReady: default/g needs 4 of 4 pods placed, 3 fit; default/g-3: {fit}"
    assert done.why("g-3") == fit
    assert not cluster.reserved
    assert set(cluster.waiting) == {f"default/g-{i}" for i in range(4)}


def test_what_a_gang_could_not_use_goes_to_the_next_job():
    cluster = add(scenario(node("a", gpus=3, slots=1), *members("g", 4, 1), pod("p", 1)), group("g", 4))
    assert cycle(cluster).placed == {"p": "a"}


def test_the_first_failure_ends_the_attempt_when_those_that_remain_cannot_be_enough():
    pods = [member("g-0", "g", 9), *(member(f"g-{i}", "g", 1) for i in range(1, 4))]
    cluster = add(scenario(node("a", gpus=4, slots=1), *pods), group("g", 4))
    assert tried(cluster) == ["g-0"]


def tried(cluster):
    """The pods for which a place was looked for."""
    names = []
    session = Session(cluster, default_plugins())
    place = session.place
    session.place = lambda task, among=None: (names.append(task.name), place(task, among))[1]
    with session:
        run_cycle(session, make_actions())
    return names


def test_pods_like_one_without_a_place_are_not_tried():
    pods = [*(member(f"g-{i}", "g", 9) for i in range(3)), member("g-3", "g", 1)]
    cluster = add(scenario(node("a", gpus=4, slots=1), *pods), group("g", 1))
    assert tried(cluster) == ["g-0", "g-3"]
    done = cycle(add(scenario(node("a", gpus=4, slots=1), *pods), group("g", 1)))
    assert done.why("g-2") == done.why("g-0")
    assert {done.decisions[f"g-{i}"].outcome for i in range(3)} == {"unschedulable"}


def test_a_gang_of_thousands_that_cannot_fit_is_recognised_by_its_first_pod_without_a_place():
    cluster = add(scenario(node("a", gpus=3, slots=1), *members("g", 3000, 1)), group("g", 3000))
    assert tried(cluster) == ["g-0", "g-1", "g-2", "g-3"]
    assert len(cluster.waiting) == 3000


def test_a_pod_that_is_held_back_itself_says_nothing_about_those_like_it():
    gate = convert([{"name": "later"}], list[SchedulingGate])
    pods = members("g", 2, 1)
    pods[0] = msgspec.structs.replace(pods[0], spec=msgspec.structs.replace(pods[0].spec, schedulingGates=gate))
    assert cycle(add(scenario(node("a", gpus=4), *pods), group("g", 1))).placed == {"g-1": "a"}


def test_a_pod_without_a_place_does_not_matter_if_the_others_are_enough():
    pods = [member("g-0", "g", 9), *(member(f"g-{i}", "g", 1) for i in range(1, 4))]
    done = cycle(add(scenario(node("a", gpus=4, slots=1), *pods), group("g", 3)))
    assert sorted(done.placed) == ["g-1", "g-2", "g-3"]
    assert done.decisions["g-0"].outcome == "unschedulable"


def test_larger_pods_of_a_gang_are_placed_first_so_that_smaller_ones_do_not_break_up_their_room():
    pods = [member("g-0", "g", 1), member("g-1", "g", 1), member("g-2", "g", 2)]
    done = cycle(add(scenario(node("a", gpus=2, slots=1), node("b", gpus=2, slots=1), *pods), group("g", 3)))
    assert done.order == ["g-2", "g-0", "g-1"]
    assert len(done.placed) == 3


def test_pods_that_must_be_near_others_are_placed_after_those():
    term = {"labelSelector": {"matchLabels": {"app": "lead"}}, "topologyKey": "kubernetes.io/hostname"}
    near = convert({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}, Affinity)
    pods = [member(f"w-{i}", "g", 2, affinity=near) for i in range(2)] + [member("lead", "g", labels={"app": "lead"})]
    cluster = scenario(node("a", gpus=4, slots=1, labels={"kubernetes.io/hostname": "a"}), *pods)
    assert cycle(add(cluster, group("g", 3))).order == ["lead", "w-0", "w-1"]


def test_pods_are_in_the_order_of_their_numbers():
    done = cycle(add(scenario(node("a", gpus=12, slots=1), *members("g", 12, 1)), group("g", 12)))
    assert done.order == [f"g-{i}" for i in range(12)]


def test_running_and_finished_pods_count():
    cluster = scenario(
        node("a", gpus=1, slots=1),
        member("g-0", "g", on="a"),
        member("g-1", "g", phase="Succeeded"),
        member("g-2", "g", phase="Failed"),
        member("g-3", "g", 1),
    )
    assert cycle(add(cluster, group("g", 3))).placed == {"g-3": "a"}


def test_pods_that_are_leaving_do_not_count():
    cluster = scenario(node("a", gpus=2), member("g-0", "g", on="a", terminating=True), member("g-1", "g", 1))
    done = cycle(add(cluster, group("g", 2)))
    assert done.why("g-1") == "NotEnoughPods: default/g needs 2 pods to start, and there are 1"


def test_best_effort_pods_of_a_gang_are_placed_with_it():
    pods = [member("g-0", "g", 1), member("g-1", "g")]
    done = cycle(add(scenario(node("a", gpus=1), *pods), group("g", 2)), actions=("allocate", "backfill"))
    assert done.placed == {"g-0": "a", "g-1": "a"}


def test_best_effort_pods_beyond_the_minimum_are_left_to_backfill():
    pods = [member("g-0", "g", 1), member("g-1", "g", priority=9)]
    cluster = add(scenario(node("a", gpus=1), *pods), group("g", 1))
    assert cycle(cluster, actions=("allocate",)).placed == {"g-0": "a", "g-1": "a"}
    cluster = add(scenario(node("a", gpus=1), *pods), group("g", 1))
    with Session(cluster, default_plugins()) as session:
        make_actions(("allocate", "backfill"))[0].run(session)
        assert list(session.decisions) == ["default/g-0"]


# -- roles


def test_each_role_gets_its_minimum_before_others_get_more():
    pods = [member(f"m{i}", "g", 1, role="master") for i in range(2)]
    pods += [member(f"w{i}", "g", 1, role="worker") for i in range(2)]
    cluster = add(scenario(node("a", gpus=2, slots=1), *pods), group("g", 2, minTaskMember={"master": 1, "worker": 1}))
    assert sorted(cycle(cluster).placed) == ["m0", "w0"]


def test_a_role_that_cannot_have_its_minimum_keeps_the_gang_waiting():
    pods = [member("m", "g", 1, role="master", selector={"no": "where"})]
    pods += [member(f"w{i}", "g", 1, role="worker") for i in range(3)]
    cluster = add(scenario(node("a", gpus=4, slots=1), *pods), group("g", 3, minTaskMember={"master": 1, "worker": 2}))
    done = cycle(cluster)
    assert done.placed == {}
    assert done.why("w0") == (
        "JobNotReady: default/g needs 3 of 4 pods placed, 0 fit and 3 were not tried; "
        "of role master it needs 1, 0 fit; default/m: 0 of 1 nodes fit: 1 NodeAffinityMismatch"
    )


def test_roles_need_pods_enough():
    cluster = scenario(node("a", gpus=4), *(member(f"w{i}", "g", 1, role="worker") for i in range(3)))
    done = cycle(add(cluster, group("g", 2, minTaskMember={"master": 1, "worker": 1})))
    message = "NotEnoughPodsOfRole: default/g needs 1 pods of role master to start, and there are 0"
    assert done.why("w0") == message


def test_roles_do_not_count_if_they_ask_for_more_than_the_minimum():
    cluster = scenario(node("a", gpus=4), *(member(f"w{i}", "g", 1, role="worker") for i in range(2)))
    done = cycle(add(cluster, group("g", 2, minTaskMember={"master": 1, "worker": 2})))
    assert len(done.placed) == 2


def test_subgroups_of_kai_are_roles():
    pods = [member(f"p{i}", "g", 1, labels={"kai.scheduler/subgroup-name": "prefill"}) for i in range(2)]
    pods += [member(f"d{i}", "g", 1, labels={"kai.scheduler/subgroup-name": "decode"}) for i in range(2)]
    parts = [{"name": "prefill", "minMember": 1}, {"name": "decode", "minMember": 2}]
    cluster = add(scenario(node("a", gpus=3, slots=1), *pods), kai_group("g", subGroups=parts))
    assert sorted(cycle(cluster).placed) == ["d0", "d1", "p0"]


# -- beyond the minimum


def test_kai_16_beyond_the_minimum_jobs_take_turns():
    pods = [*members("g", 4, 1), *members("h", 4, 1)]
    things = [group("g", 1, created="2026-01-01"), group("h", 1, created="2026-01-02")]
    done = cycle(add(scenario(node("a", gpus=5, slots=1), *pods), *things), Elastic())
    assert sorted(done.placed) == ["g-0", "g-1", "g-2", "h-0", "h-1"]
    assert done.order[:5] == ["g-0", "h-0", "g-1", "h-1", "g-2"]


def test_pods_beyond_the_maximum_wait():
    done = cycle(
        add(
            scenario(node("a", gpus=4), *members("g", 4, 1)),
            group("g", 2, annotations={"tonnage.io/max-members": "3"}),
        )
    )
    assert sorted(done.placed) == ["g-0", "g-1", "g-2"]
    assert done.why("g-3") == "EnoughPods: default/g has places for 3 pods, and may have 3"


# -- room that is not free yet


def test_if_one_pod_has_to_wait_for_others_to_leave_the_whole_gang_waits_with_its_places():
    cluster = scenario(
        node("a", gpus=2, slots=1),
        running("x", on="a", memory=8000, terminating=True),
        *members("g", 2, 1),
        pod("p", 1),
    )
    done = cycle(add(cluster, group("g", 2)))
    assert done.placed == {}
    assert done.waiting == {"g-0", "g-1"}
    assert done.why("g-0") == done.why("g-1") == "goes to a once default/x left"
    assert set(cluster.reserved) == {"default/g-0", "default/g-1"} == cluster.pipelined


def test_pods_that_fit_now_start_if_they_are_enough():
    cluster = scenario(
        node("a", gpus=2, slots=1), running("x", on="a", memory=8000, terminating=True), *members("g", 2, 1)
    )
    done = cycle(add(cluster, group("g", 1)))
    assert done.placed == {"g-0": "a"}
    assert done.waiting == {"g-1"}


def test_the_rest_of_a_gang_that_waits_for_room_waits_too():
    cluster = scenario(
        node("a", gpus=1, slots=1), running("x", on="a", memory=8000, terminating=True), *members("g", 2, 1)
    )
    done = cycle(add(cluster, group("g", 1)))
    assert done.why("g-0") == "goes to a once default/x left"
    assert done.decisions["g-1"].outcome in ("waiting", "unschedulable")


def test_a_role_whose_pod_must_wait_keeps_the_others_waiting():
    cluster = scenario(
        node("a", gpus=1, slots=1, labels={"for": "master"}),
        node("b", gpus=2, slots=1),
        running("x", on="a", memory=8000, terminating=True),
        member("m", "g", 1, role="master", selector={"for": "master"}),
        *(member(f"w{i}", "g", 1, role="worker") for i in range(2)),
    )
    done = cycle(add(cluster, group("g", 2, minTaskMember={"master": 1, "worker": 1})))
    assert done.placed == {}
    assert done.waiting == {"m", "w0", "w1"}


# -- what keeps a job from being looked at


def test_a_group_that_is_named_by_label_need_not_exist():
    pods = [pod(f"p{i}", 1, labels={"scheduling.x-k8s.io/pod-group": "g"}) for i in range(2)]
    assert len(cycle(scenario(node("a", gpus=1, slots=1), *pods)).placed) == 1


@pytest.mark.parametrize(
    ("things", "reason"),
    [
        ([], "GroupNotFound: the pods name the PodGroup default/g, which is not known"),
        ([group("g", 1, queue="no")], "QueueNotFound: default/g is in queue no, which is not known"),
        ([group("g", 1, queue="q"), queue("q", state="Closed")], "QueueClosed: queue q is closed; no job of it starts"),
        (
            [group("g", 1, queue="q"), queue("q"), queue("r", parent="q")],
            "QueueIsDivided: queue q is divided into 1 queues, such as r; jobs wait in those",
        ),
        ([group("g", 2)], "NotEnoughPods: default/g needs 2 pods to start, and there are 1"),
        (
            [group("g", 1, annotations={"tonnage.io/max-members": "few"})],
            "InvalidGroup: default/g: annotation tonnage.io/max-members is 'few'; expected a whole number from 1 up",
        ),
        (
            [group("g", 2, annotations={"tonnage.io/max-members": "1"})],
            "InvalidGroup: default/g: at most 1 pods may have a place, fewer than the 2 it starts with",
        ),
    ],
)
def test_what_keeps_a_job_waiting_is_said_and_others_are_served(things, reason):
    cluster = add(scenario(node("a", gpus=2), member("g-0", "g", 1), pod("p", 1)), *things)
    done = cycle(cluster)
    assert done.placed == {"p": "a"}
    assert done.why("g-0") == reason


def test_important_groups_go_first_by_their_class():
    things = [group("g", 1), group("h", 1, priorityClassName="high"), priority_class("high", 1000)]
    pods = [member("g-0", "g", 1, priority=500), member("h-0", "h", 1)]
    assert cycle(add(scenario(node("a", gpus=1, slots=1), *pods), *things)).placed == {"h-0": "a"}


# -- Volcano's own cases


def test_volcano_1_a_role_without_a_node_does_not_keep_the_other_from_starting():
    cluster = scenario(
        node("n1", labels={"nodeRole": "worker"}, cpu="2", memory="4Gi"),
        member("p1", "pg1", role="master", selector={"nodeRole": "master"}, cpu=1, memory=None),
        member("p2", "pg1", role="worker", selector={"nodeRole": "worker"}, cpu=1, memory=None),
    )
    assert cycle(add(cluster, group("pg1", 1, minTaskMember={"master": 1, "worker": 1}))).placed == {"p2": "n1"}


def test_volcano_2_one_pod_of_each_role():
    roles = ["master", "master", "worker", "worker"]
    cluster = scenario(
        node("n1", labels={"nodeRole": "master"}, cpu="1", memory="2Gi"),
        node("n2", labels={"nodeRole": "worker"}, cpu="1", memory="2Gi"),
        *(member(f"p{i}", "pg1", role=r, selector={"nodeRole": r}, cpu=1) for i, r in enumerate(roles)),
    )
    done = cycle(add(cluster, group("pg1", 2, minTaskMember={"master": 1, "worker": 1})))
    assert done.placed == {"p0": "n1", "p2": "n2"}


def test_volcano_4_a_minimum_of_none():
    cluster = scenario(node("n1", cpu="2", memory="4Gi"), *members("pg1", 2, cpu=1))
    assert cycle(add(cluster, group("pg1", 0))).placed == {"pg1-0": "n1", "pg1-1": "n1"}


class ServedLess(Plugin):
    """The queue that had fewer pods placed is served first."""

    name = "served-less"

    def on_session_open(self, session):
        served = Counter()
        session.add_event_handler(allocate=lambda task: served.update([session.job_of(task).queue]))
        session.add_queue_order(lambda one, other: served[one.name] - served[other.name])


@pytest.mark.parametrize("queues", [("default", "default"), ("q1", "q2")])
def test_volcano_5_one_pod_of_each_group(queues):
    pods = [member(f"{g}-p-{i}", g, cpu=1) for g in ("pg1", "pg2") for i in (1, 2)]
    things = [group("pg1", 1, queue=queues[0]), group("pg2", 1, queue=queues[1]), queue("q1"), queue("q2")]
    done = cycle(add(scenario(node("n1", cpu="2", memory="4G"), *pods), *things), ServedLess())
    assert sorted(done.placed) == ["pg1-p-1", "pg2-p-1"]


def apart(name, of, cpu, **more):
    """A pod that keeps away from others like it."""
    term = {"labelSelector": {"matchLabels": {"role": "worker"}}, "topologyKey": "kubernetes.io/hostname"}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return member(name, of, cpu=cpu, affinity=convert(required, Affinity), labels={"role": "worker"}, **more)


@pytest.mark.parametrize("first", [None, 1])
def test_volcano_40_a_gang_whose_pods_must_be_apart(first):
    cluster = scenario(
        node("node1", labels={"kubernetes.io/hostname": "node1"}, cpu="14", memory="14k"),
        node("node2", labels={"kubernetes.io/hostname": "node2"}, cpu="3", memory="3k"),
        apart("p1", "pg1", 3, priority=first),
        apart("p2", "pg1", 5),
        apart("p3", "pg2", 4),
    )
    plugins = [plugin for plugin in default_plugins() if plugin.name != "nodepolicy"]
    done = cycle(add(cluster, group("pg1", 2, priorityClassName="high"), group("pg2", 1)), plugins=plugins)
    if first:
        # The small pod goes first and takes the large node, so that nothing may stay there of the gang.
        assert done.placed == {"p3": "node1"}
    else:
        # In Volcano this fails too; larger pods go first here.
        assert done.placed == {"p1": "node2", "p2": "node1"}


# -- enqueue and backfill


class WithinCapability(Plugin):
    """Lets a job in if its queue may ever have what it starts with."""

    name = "within-capability"

    def on_session_open(self, session):
        def vote(job):
            limit = session.cluster.queues[job.queue].limit
            return all(value <= limit.get(name, value) for name, value in job.group.min_resources.items())

        session.add_job_enqueueable(vote)


def test_volcano_34_a_group_is_let_in_if_its_queue_can_have_what_it_starts_with():
    things = [
        queue("c1", capability={"cpu": "1", "memory": "1G"}),
        group("pg1", 1, phase="Pending", queue="c1", minResources={"cpu": "8", "memory": "8G"}),
        group("pg2", 1, phase="Pending", queue="missing"),
        group("pg3", 1, phase="Pending", queue="c1"),
        group("pg4", 1, phase="Inqueue", queue="c1", minResources={"cpu": "8", "memory": "8G"}),
    ]
    pods = [member(f"p{i}", f"pg{i}", cpu=1) for i in range(1, 5)]
    cluster = add(scenario(node("n1", cpu="9"), *pods), *things)
    done = cycle(cluster, WithinCapability(), actions=("enqueue", "allocate"))
    assert sorted(done.placed) == ["p3", "p4"]
    expected = "NotEnqueued: queue c1 does not let default/pg1 in, which starts with cpu 8, memory 7.5Gi"
    assert done.why("p1") == expected
    assert done.why("p2") == "QueueNotFound: default/pg2 is in queue missing, which is not known"


class HadItsShare(Plugin):
    name = "had-its-share"

    def on_session_open(self, session):
        session.add_overused(lambda queue: Reason("Full", "all of it"))


def test_groups_of_a_queue_that_had_its_share_are_let_in_and_wait():
    thing = group("pg1", 1, phase="Pending", minResources={"cpu": "8"})
    cluster = add(scenario(node("n1"), member("p1", "pg1", cpu=1)), thing)
    done = cycle(cluster, HadItsShare(), actions=("enqueue", "allocate"))
    assert [job.key for job in done.session.enqueued] == ["default/pg1"]
    assert done.why("p1") == "Full: all of it"


def test_without_plugins_every_group_is_let_in_and_without_the_action_nobody_is_asked():
    pods = [member("p1", "pg1", cpu=1)]
    thing = group("pg1", 1, phase="Pending", minResources={"cpu": "800"})
    for plugins, actions in (((), ("enqueue", "allocate")), ((WithinCapability(),), ("allocate",))):
        done = cycle(add(scenario(node("n1", cpu="9"), *pods), thing), *plugins, actions=actions)
        assert list(done.placed) == ["p1"]


def test_volcano_35_backfill_by_the_priority_of_groups_and_pods():
    things = [
        *(priority_class(name, value) for name, value in (("high", 1000), ("low", 10))),
        group("pg1", 0, priorityClassName="low"),
        group("pg2", 0, priorityClassName="high"),
    ]
    pods = [member(f"{g}-{p}", g, priority=p) for g in ("pg1", "pg2") for p in (1, 3, 2, 4)]
    pods += [member("asks", "pg2", cpu=1, priority=9)]
    done = cycle(add(scenario(node("n1"), *pods), *things), actions=("backfill",))
    assert list(done.placed) == [f"pg2-{p}" for p in (4, 3, 2, 1)] + [f"pg1-{p}" for p in (4, 3, 2, 1)]


# -- KAI's own cases


def test_kai_15_a_gang_that_needs_room_which_is_not_free_yet_waits_as_a_whole():
    cluster = scenario(plain("n0", 4), pod("x", 1, on="n0", terminating=True), *members("g", 2, 2))
    done = cycle(add(cluster, group("g", 2)))
    assert {name: (d.outcome, d.node) for name, d in done.decisions.items()} == {
        "g-0": ("waiting", "n0"),
        "g-1": ("waiting", "n0"),
    }
