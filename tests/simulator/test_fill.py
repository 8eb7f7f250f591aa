"""Filling a cluster: what fits is placed, what does not is dropped or waits, and the figures say so."""

import pytest

from tests.simulator.traces.files import simulate, trace, workload
from tonnage.simulator.scene import SceneError

TWO_NODES = "a,8000,1000,2,T4\nb,8000,1000,2,V100\n"


def test_pods_come_until_they_ask_for_the_given_part_of_all_gpus(tmp_path):
    run = simulate(trace(tmp_path, TWO_NODES, "p,1000,10,1,500\n"), demand=50)
    assert run.checkpoints[0] == "0"
    assert run.checkpoints[-1] == "50"
    assert run.pods == 4
    assert run.curves["gpu_allocated"][-1] == 50.0
    assert not run.failures


def test_the_figures_are_noted_once_that_much_has_arrived(tmp_path):
    run = simulate(trace(tmp_path, TWO_NODES, "p,1000,10,1,1000\n"), demand=100)
    assert run.curves["gpu_allocated"][24:27] == [25.0, 25.0, 50.0]
    assert run.curves["gpus_free"][0] == 4
    assert run.curves["nodes_free"][0] == 2
    assert run.curves["gpus_free"][-1] == run.curves["nodes_free"][-1] == 0


def test_a_pod_that_does_not_fit_is_dropped_with_its_reason(tmp_path):
    run = simulate(trace(tmp_path, "a,2000,1000,4,T4\n", "p,1000,10,1,1000\n"), demand=100)
    assert run.curves["gpu_allocated"][-1] == 50.0
    assert run.curves["pods_failed"][-1] == 2
    assert run.failures == {"InsufficientCpu": 2}


def test_or_it_waits(tmp_path):
    run = simulate(trace(tmp_path, "a,2000,1000,4,T4\n", "p,1000,10,1,1000\n"), demand=100, keep=True)
    assert run.curves["pods_waiting"][-1] == 2
    assert "pods_failed" not in run.curves


def test_a_pod_gets_only_models_that_it_names(tmp_path):
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    nodes = "a,8000,1000,2,A100\nb,8000,1000,1,A10\nc,8000,1000,1,T4\n"
    run = simulate(trace(tmp_path, nodes, "p,10,10,1,1000,A10|T4\n", header), demand=100, picture=100)
    assert run.picture is not None
    assert {node.name: node.cards for node in run.picture.nodes} == {"a": [0, 0], "b": [1], "c": [1]}
    assert run.failures == {"CardInsufficientMemory": 2}


def test_whole_gpus_and_shares_do_not_meet_on_one_card(tmp_path):
    run = simulate(trace(tmp_path, "a,99000,1000,2,T4\n", "w,10,10,1,1000\ns,10,10,1,600\n"), demand=80, picture=80)
    assert run.picture is not None
    assert sorted(run.picture.nodes[0].cards) == [0.6, 1.0]


def test_processors_on_nodes_whose_gpus_are_full_are_stranded(tmp_path):
    run = simulate(trace(tmp_path, "a,8000,1000,1,T4\nb,8000,1000,1,T4\n", "p,2000,10,1,1000\n"), demand=50)
    assert run.curves["cpu_stranded"][-1] == 37.5


def test_fragments_are_what_the_typical_pods_cannot_use(tmp_path):
    """Two pods of 0.7 on two cards leave 0.3 each, which is too little for a third one."""
    run = simulate(trace(tmp_path, "a,64000,9000,2,T4\n", "p,1000,10,1,700\n"), demand=70)
    assert run.curves["fragmentation_of_all"][0] == 0
    assert run.curves["fragmentation_of_free"][-1] == 100.0
    assert run.curves["fragmentation_of_all"][-1] == 30.0


GANGS = """
    nodes: [{name: a, count: 3, gpus: 2, cpu: 8, memory: 16Gi}]
    arrivals: {mean: 1}
    pods:
    - {name: pair, share: 1, gpus: 2, gang: 2, cpu: 1, memory: 1Gi, duration: {mean: 10}}
"""


def test_gangs_are_placed_whole_or_not_at_all():
    run = simulate(workload(GANGS), demand=130)
    assert run.curves["gpu_allocated"][-1] == pytest.approx(66.6667)
    assert run.failures == {"CardInsufficientMemory": 1, "JobNotReady": 1}


def test_without_gpus_there_is_nothing_to_fill(tmp_path):
    with pytest.raises(SceneError, match="the cluster has no GPUs"):
        simulate(trace(tmp_path, "a,8000,1000,0,\n", "p,1000,10,0,0\n"))


def test_pods_without_gpus_fill_nothing(tmp_path):
    with pytest.raises(SceneError, match="no pod asks for a GPU"):
        simulate(trace(tmp_path, TWO_NODES, "p,1000,10,0,0\n"))


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_the_same_seed_gives_the_same_and_another_one_does_not(tmp_path, policy):
    pods = "".join(f"p{n},{n * 300},10,1,{200 + 37 * n}\n" for n in range(20))
    source = trace(tmp_path, TWO_NODES, pods)
    runs = [simulate(source, policy, seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
