"""The upper bound of a fill: the most that any policy can allocate to the pods that have arrived."""

import random
from collections.abc import Sequence
from statistics import fmean

from tonnage.devices.catalog import default_vendors
from tonnage.model.resources import CPU, MEMORY, amount
from tonnage.overview.usage import percent
from tonnage.simulator.objects import GPU_CORES, GPU_MEMORY
from tonnage.simulator.scene import Scene, Shape
from tonnage.simulator.studies.bound import EqualNodes, EqualPods, gpu_bound

STEP = 10
"""Percent of arrived demand between checkpoints with a bound."""
_MEBIBYTE = 2**20
_ROUNDING = 1e-6


def fill_bound(scene: Scene, seeds: Sequence[int], demand: int) -> dict[str, float]:
    """Percent of all GPUs at every tenth checkpoint and the last, as the mean over seeds.

    Empty if the cluster does not start empty, or if a pod takes a larger part of one card than of another.
    """
    if scene.start.pods or not _has_fixed_shares(scene):
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


def _has_fixed_shares(scene: Scene) -> bool:
    """Whether each pod that asks for memory of a card takes its share of every card, whatever the card's size."""
    cluster = scene.cluster(default_vendors())
    sizes = {device.memory for state in cluster.states for device in state.devices}
    for shape, _ in scene.popular:
        limits = shape.spec.containers[0].resources.limits or {}
        memory, cores = (float(limits.get(name, 0)) for name in (GPU_MEMORY, GPU_CORES))
        if memory and any(abs(max(memory / size, cores / 100) - shape.share) > _ROUNDING for size in sizes):
            return False
    return True


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
