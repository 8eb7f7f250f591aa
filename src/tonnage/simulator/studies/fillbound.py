"""The upper bound of a fill: the most that any policy can allocate to the pods that have arrived."""

import random
from collections.abc import Sequence
from statistics import fmean

from tonnage.devices.catalog import default_vendors
from tonnage.model.resources import CPU, MEMORY, amount
from tonnage.simulator.measure import percent
from tonnage.simulator.scene import Scene, Shape
from tonnage.simulator.studies.bound import EqualNodes, EqualPods, gpu_bound

STEP = 10
"""Percent of arrived demand between checkpoints with a bound."""
_MEBIBYTE = 2**20


def fill_bound(scene: Scene, seeds: Sequence[int], demand: int) -> dict[str, float]:
    """Percent of all GPUs at every tenth checkpoint and the last, as the mean over seeds.

    Empty if the cluster does not start empty.
    """
    if scene.start.pods:
        return {}
    found = [_bound(scene, seed, demand) for seed in seeds]
    return {place: round(fmean(bound[place] for bound in found), 4) for place in found[0]}


def _bound(scene: Scene, seed: int, demand: int) -> dict[str, float]:
    nodes = _nodes(scene)
    capacity = sum(node.cards for node in nodes)
    counts: dict[Shape, int] = {}
    arrived, found = 0.0, dict[str, float]()
    checkpoints = [*range(STEP, demand, STEP), demand]
    for entry in scene.fill(random.Random(seed)):
        counts[entry.shape] = counts.get(entry.shape, 0) + entry.size
        arrived += entry.gpus
        while checkpoints and arrived * 100 >= checkpoints[0] * capacity - 1e-6:
            most = gpu_bound(nodes, [_pod(shape, count) for shape, count in counts.items()])
            found[str(checkpoints.pop(0))] = min(percent(most, capacity), 100.0)
        if not checkpoints:
            break
    return found


def _nodes(scene: Scene) -> list[EqualNodes]:
    cluster = scene.cluster(default_vendors())
    resources, amounts = cluster.columns.resources, cluster.all_nodes().allocatable
    found = []
    for row, state in enumerate(cluster.states):
        cpu, memory = (int(amounts[resources[name], row]) for name in (CPU, MEMORY))
        model = state.devices[0].type if state.devices else ""
        found.append(EqualNodes(cpu, memory // _MEBIBYTE, len(state.devices), model))
    return found


def _pod(shape: Shape, count: int) -> EqualPods:
    requests = shape.spec.containers[0].resources.requests or {}
    cpu, memory = (amount(name, requests.get(name, 0)) for name in (CPU, MEMORY))
    return EqualPods(cpu, memory // _MEBIBYTE, shape.cards, shape.share, frozenset(shape.models), count)
