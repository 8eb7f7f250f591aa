"""Simulator measurements: filling a cluster and replaying a workload."""

import time

from tonnage.simulator.fill import fill
from tonnage.simulator.policies import policy_named
from tonnage.simulator.timedrun import replay
from tonnage.simulator.workloads.drawn import scene_of
from tonnage.simulator.workloads.workload import read_workload

_WORKLOAD = """\
duration: {duration}
nodes: [{{name: n, count: {nodes}, gpus: 8, model: A100, gpuMemory: 80000, cpu: 128, memory: 1024Gi}}]
arrivals: {{distribution: exponential, mean: {mean}}}
pods:
- {{name: notebook, share: 5, gpus: 1, gpuMemory: [4000, 8000, 16000, 20000], cpu: 2, memory: 8Gi,
   duration: {{distribution: lognormal, median: 1h, sigma: 0.8}}}}
- {{name: training, share: 4, gpus: [1, 1, 1, 2, 4], cpu: 8, memory: 64Gi,
   duration: {{distribution: lognormal, median: 90m, sigma: 0.8}}}}
- {{name: pretraining, share: 0.5, gpus: 8, cpu: 64, memory: 512Gi, priority: 10,
   duration: {{distribution: exponential, mean: 1h}}}}
- {{name: batch, share: 1, cpu: 4, memory: 16Gi, duration: {{mean: 1h}}}}
"""


def pods_per_second_filled(nodes: int, policy: str, demand: int) -> float:
    """Arriving pods per second of CPU time, placed or not; building the cluster counts."""
    scene = scene_of(read_workload(_WORKLOAD.format(nodes=nodes, duration=1, mean=1), "bench"))
    begin = time.process_time()
    run = fill(scene, policy_named(policy), 42, demand)
    return run.pods / (time.process_time() - begin)


def pods_per_second_replayed(nodes: int, policy: str, pods: int) -> float:
    """Pods that arrive, run and leave per second of CPU time; demand is close to capacity."""
    mean = 900 / nodes
    scene = scene_of(read_workload(_WORKLOAD.format(nodes=nodes, duration=pods * mean, mean=mean), "bench"))
    begin = time.process_time()
    run = replay(scene, policy_named(policy), 42)
    return run.pods / (time.process_time() - begin)
