"""Holdings: what running pods hold by their annotations, at the peak over their phases."""

import pytest

from tests.scenario import (
    ALLOCATED,
    cards,
    container,
    decide,
    node,
    place,
    pod,
    problems,
    reasons,
    running,
    scenario,
    usage,
)

FIELD = f"metadata.annotations[{ALLOCATED}]"


def holding(name, text, *, on="a", containers=1, init=(), **more):
    """A running pod whose annotation says what its containers hold."""
    mains = [container(f"c{i}", gpus=1) for i in range(containers)]
    return pod(name, containers=mains, init=list(init) or None, on=on, annotations={ALLOCATED: text}, **more)


def test_init_containers_count_at_their_peak():
    init = [container("first", gpus=1), container("second", gpus=1)]
    text = "a/0,NVIDIA,3000,10:;a/0,NVIDIA,1000,50:;a/0,NVIDIA,2000,20:;"
    cluster = scenario(node("a", gpus=1), holding("x", text, init=init))
    assert usage(cluster, "a") == [(1, 3000, 50)]


def test_sidecars_stay_beside_all_that_come_after_them():
    init = [container("before", gpus=1), container("side", gpus=1, sidecar=True), container("after", gpus=1)]
    text = "a/0,NVIDIA,5000,10:;a/0,NVIDIA,1000,10:;a/0,NVIDIA,3000,30:;a/0,NVIDIA,2000,20:;"
    cluster = scenario(node("a", gpus=1), holding("x", text, init=init))
    assert usage(cluster, "a") == [(2, 5000, 40)]


def test_old_records_leave_out_init_containers():
    cluster = scenario(node("a", gpus=1), holding("x", "a/0,NVIDIA,2000,20:;", init=[container("first", gpus=1)]))
    assert usage(cluster, "a") == [(1, 2000, 20)]


def test_slots_that_no_container_matches_are_all_taken_to_run_together():
    record = "a/0,NVIDIA,1000,10:;a/0,NVIDIA,1000,10:;;"
    cluster = scenario(node("a", gpus=1), pod("x", 2, on="a", annotations={ALLOCATED: record}))
    assert usage(cluster, "a") == [(2, 2000, 20)]


@pytest.mark.parametrize("text", ["a/0,NVIDIA,1000,10:;,,0,0:;", "a/0,NVIDIA,1000,10:;;", "a/0,NVIDIA,1000,10:;"])
def test_containers_without_devices_may_be_marked_or_not(text):
    cluster = scenario(node("a", gpus=1), holding("x", text, containers=2))
    assert usage(cluster, "a") == [(1, 1000, 10)]


def test_placing_counts_as_the_record_of_the_placed_pod_will():
    init = [container("load", gpus=1, memory=6000), container("side", gpus=1, memory=1000, sidecar=True)]
    wanted = pod("p", containers=[container("main", gpus=1, memory=4000)], init=init)
    cluster = scenario(node("a", gpus=1))
    decision = place(cluster, wanted)
    assert [d.container for d in decision.devices] == ["load", "side", "main"]
    reserved = usage(cluster, "a")
    assert reserved == [(2, 6000, 0)]
    text = "".join(f"{d.uuid},NVIDIA,{d.memory},{d.cores}:;" for d in decision.devices)
    cluster.upsert_pod(
        pod("p", containers=wanted.spec.containers, init=init, on="a", annotations={ALLOCATED: text}, phase="Pending")
    )
    assert usage(cluster, "a") == reserved
    assert not cluster.reserved


def test_init_containers_share_a_card_one_after_another():
    init = [container("first", gpus=1, memory=8000), container("second", gpus=1, memory=8000)]
    cluster = scenario(node("a", gpus=1))
    decision = place(cluster, pod("p", containers=[container("main", gpus=1, memory=8000)], init=init))
    assert cards(decision) == ["a/0"] * 3
    assert usage(cluster, "a") == [(1, 8000, 0)]


def test_a_terminating_pod_counts_until_it_is_gone():
    cluster = scenario(node("a", gpus=1), running("x", on="a", memory=8000, terminating=True))
    assert reasons(decide(cluster, pod("p", 1))) == {"CardInsufficientMemory": 1}
    cluster.remove_pod("default/x")
    assert decide(cluster, pod("p", 1)).node == "a"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_holds_nothing(phase):
    cluster = scenario(node("a", gpus=1), running("x", on="a", memory=8000))
    cluster.upsert_pod(running("x", on="a", memory=8000, phase=phase))
    assert usage(cluster, "a") == [(0, 0, 0)]
    assert not cluster.waiting


def test_a_pod_with_devices_but_no_node_counts_for_nothing():
    left_over = pod("x", 1, annotations={ALLOCATED: "a/0,NVIDIA,8000,100:;", "hami.io/vgpu-node": "a"})
    cluster = scenario(node("a", gpus=1), left_over)
    assert usage(cluster, "a") == [(0, 0, 0)]
    assert list(cluster.waiting) == ["default/x"]
    assert problems(cluster) == []


def test_a_waiting_pod_that_is_deleted_is_gone():
    cluster = scenario(node("a", gpus=1), pod("x", 1))
    cluster.upsert_pod(pod("x", 1, terminating=True))
    assert not cluster.waiting


def test_a_pod_without_device_annotations_takes_slots_and_shows_as_a_problem():
    cluster = scenario(node("a", gpus=2, slots=1), pod("x", 1, on="a", memory=1000))
    assert usage(cluster, "a") == [(0, 0, 0), (0, 0, 0)]
    (problem,) = cluster.problems()
    assert (problem.object, problem.field) == ("Pod/default/x", FIELD)
    assert "1 nvidia.com/gpu" in problem.message
    assert place(cluster, pod("p", 1, memory=1000)).node == "a"
    decision = decide(cluster, pod("q", 1, memory=1000))
    assert reasons(decision) == {"CardTimeSlicingExhausted": 1}
    assert "1 NVIDIA cards are held by pods that do not say which" in decision.rejected[0].message


def test_all_containers_of_a_pod_must_find_a_slot_beside_the_unknown_ones():
    cluster = scenario(node("a", gpus=1, slots=2), pod("x", 1, on="a", memory=1000))
    two = [container(name, gpus=1, memory=10) for name in ("one", "two")]
    assert reasons(decide(cluster, pod("p", containers=two))) == {"CardTimeSlicingExhausted": 1}
    in_turn = pod("p", containers=two[:1], init=[container("before", gpus=1, memory=10)])
    assert decide(cluster, in_turn).node == "a"


@pytest.mark.parametrize("wants", [{"memory": 10, "cores": 100}, {}, {"percentage": 100}])
def test_no_card_is_given_out_whole_beside_a_pod_that_does_not_say_which_it_holds(wants):
    cluster = scenario(node("a", gpus=4), pod("x", 1, on="a", memory=1000), node("b", gpus=1))
    decision = decide(cluster, pod("p", 1, **wants))
    assert decision.node == "b"
    assert reasons(decision) == {"ExclusiveDeviceAllocateConflict": 1}
    assert decide(cluster, pod("p", 1, memory=10), gpu_policy="mutex").node == "b"


def test_unknown_slots_are_part_of_the_nodes_score():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1), pod("x", 3, on="b", memory=1000))
    assert decide(cluster, pod("p", 1, memory=10)).scores["b"]["total"] == 3.0


@pytest.mark.parametrize("text", ["rubbish,1:;", "a/0,NVIDIA,-5,10:;", "a/0,NVIDIA,1000,ten:;", ",,5,0:;"])
def test_a_record_that_cannot_be_read_counts_as_none(text):
    cluster = scenario(node("a", gpus=1, slots=1), pod("x", 1, on="a", annotations={ALLOCATED: text}))
    assert problems(cluster) == [("Pod/default/x", FIELD)]
    assert reasons(decide(cluster, pod("p", 1, memory=1))) == {"CardTimeSlicingExhausted": 1}
    cluster.upsert_pod(pod("x", 1, on="a", annotations={ALLOCATED: "a/0,NVIDIA,10,0:;"}))
    assert problems(cluster) == []
    assert usage(cluster, "a") == [(1, 10, 0)]


def test_a_problem_goes_with_what_caused_it():
    cluster = scenario(node("a", gpus=1), pod("x", 1, on="a", annotations={ALLOCATED: "rubbish,1:;"}))
    cluster.upsert_pod(pod("x", 1))
    assert problems(cluster) == []
    cluster.upsert_pod(pod("x", 1, on="a"))
    cluster.remove_pod("default/x")
    assert problems(cluster) == []


def test_a_card_that_the_node_does_not_have_counts_against_its_slots():
    cluster = scenario(node("a", gpus=1, slots=1), running("x", on="a", gpu="a/7", memory=1000))
    assert usage(cluster, "a") == [(0, 0, 0)]
    (problem,) = cluster.problems()
    assert (problem.object, problem.field, problem.position) == ("Pod/default/x", FIELD, "a/7")
    assert reasons(decide(cluster, pod("p", 1, memory=1))) == {"CardTimeSlicingExhausted": 1}


def test_more_in_use_than_a_card_has():
    cluster = scenario(node("a", gpus=1, slots=1), *[running(f"x{i}", on="a", memory=9000, cores=80) for i in range(2)])
    assert usage(cluster, "a") == [(2, 18000, 160)]
    assert reasons(decide(cluster, pod("p", 1, memory=1))) == {"CardTimeSlicingExhausted": 1}


def test_a_running_pod_whose_requests_make_no_sense_is_counted_by_its_record():
    cluster = scenario(node("a", gpus=1), pod("x", -1, on="a", annotations={ALLOCATED: "a/0,NVIDIA,1000,10:;"}))
    assert usage(cluster, "a") == [(1, 1000, 10)]
    assert problems(cluster) == [("Pod/default/x", "spec.containers")]
