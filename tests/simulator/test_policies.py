"""Policies by name: each is a configuration that knows the scene, and the short cuts come to what the actions do."""

import pytest

from tests.simulator.traces.files import simulate, trace, workload
from tonnage.config.notes import ConfigError
from tonnage.framework.session import Session
from tonnage.simulator import fill as filling
from tonnage.simulator.policies import POLICIES, policy_named, policy_of_file
from tonnage.simulator.shortcut import acts_on_single_pods

NODES = "a,8000,1000,2,T4\nb,9000,1000,4,V100\nc,4000,1000,0,\n"
PODS = "".join(f"p{n},{n * 250},10,{n % 4 and 1},{(200 + 37 * n) if n % 4 else 0}\n" for n in range(16))


@pytest.mark.parametrize("policy", POLICIES)
def test_filling_one_by_one_comes_to_what_the_actions_do(tmp_path, policy, monkeypatch):
    source = trace(tmp_path, NODES, PODS)
    quick = simulate(source, policy)
    monkeypatch.setattr(filling, "acts_on_single_pods", lambda *given: False)
    by_actions = simulate(source, policy)
    assert quick.curves == by_actions.curves
    assert quick.failures


def test_typical_pods_of_fgd_are_those_of_the_workload(tmp_path):
    source = trace(tmp_path, NODES, "s,2000,10,1,300\n" + "w,1000,10,1,1000\nx,1000,20,1,1000\n")
    settings = policy_named("fgd").settings(source.scene())
    (plugin,) = [plugin for plugin in settings.plugins if plugin.name == "fragmentation"]
    found = [(pod.cpu, pod.gpus, pod.share, round(pod.popularity, 3)) for pod in plugin.args.workload]
    assert found == [("1000m", 1, 1.0, 0.667), ("2000m", 1, 0.3, 0.333)]


def test_chance_follows_the_seed(tmp_path):
    source = trace(tmp_path, NODES, "p,100,10,1,400\n")
    pictures = [simulate(source, "random", seed, demand=60, picture=60).picture for seed in range(4)]
    assert len({str(picture) for picture in pictures}) > 1
    assert simulate(source, "random", 0, demand=60, picture=60).picture == pictures[0]


GANGS = """
    nodes: [{name: a, count: 1, gpus: 2, cpu: 8, memory: 16Gi}]
    arrivals: {mean: 1}
    pods: [{name: p, share: 1, gpus: 1, gang: GANG, cpu: 1, memory: 1Gi, duration: {mean: 10}}]
"""


def test_gangs_and_queues_are_left_to_the_actions():
    def alone(text: str) -> bool:
        scene = workload(text).scene()
        settings = policy_named("binpack").settings(scene)
        with Session(scene.cluster(()), []) as bare:
            return acts_on_single_pods(scene, settings, bare)

    assert alone(GANGS.replace("GANG", "1"))
    assert not alone(GANGS.replace("GANG", "[1, 2]"))
    assert not alone(GANGS.replace("GANG", "1").replace("arrivals", "queues: [{name: q}]\n    arrivals"))


def test_a_name_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="there is no policy fdg; did you mean fgd"):
        policy_named("fdg")
    with pytest.raises(ConfigError, match="there is no such file"):
        policy_of_file("none.yaml")
