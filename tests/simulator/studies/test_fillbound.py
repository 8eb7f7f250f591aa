"""The upper bound of a fill holds for every policy, or there is none."""

import pytest

from tonnage.simulator.fill import fill
from tonnage.simulator.policies import policy_named
from tonnage.simulator.scene import Scene
from tonnage.simulator.studies.fillbound import fill_bound
from tonnage.simulator.workloads.drawn import scene_of
from tonnage.simulator.workloads.workload import read_workload

pytest.importorskip("highspy")

WORKLOAD = """\
nodes:
- {{name: large, count: 4, gpus: 4, model: A100, gpuMemory: 80000, cpu: 64, memory: 512Gi}}
- {{name: small, count: 4, gpus: 4, model: T4, gpuMemory: {memory}, cpu: 64, memory: 512Gi}}
arrivals: {{mean: 60s}}
pods:
- {{name: part, share: 4, gpus: 1, gpuMemory: [8000, 12000], cpu: 1, memory: 1Gi, duration: {{mean: 1h}}}}
- {{name: whole, share: 1, gpus: 1, cpu: 1, memory: 1Gi, duration: {{mean: 1h}}}}
"""


def scene(memory: int) -> Scene:
    return scene_of(read_workload(WORKLOAD.format(memory=memory), "w.yaml"))


@pytest.mark.parametrize("policy", ["fgd", "spread"])
def test_no_policy_allocates_more_than_the_bound(policy: str) -> None:
    cards_alike = scene(80000)
    bound, run = fill_bound(cards_alike, [1], 130), fill(cards_alike, policy_named(policy), 1)
    allocated = dict(zip(run.checkpoints, run.curves["gpu_allocated"], strict=True))
    assert len(bound) == 13
    assert all(allocated[place] <= most + 0.01 for place, most in bound.items())


def test_there_is_none_where_the_same_memory_is_a_larger_part_of_some_cards() -> None:
    assert fill_bound(scene(16000), [1], 130) == {}
