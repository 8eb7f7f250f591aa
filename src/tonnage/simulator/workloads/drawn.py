"""The scene of a workload file: its nodes, and pods drawn from its classes.

Everything random comes from the given source, so that one seed gives one workload.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from tonnage.cluster.jobs.job import VOLCANO_KEY
from tonnage.model.group import VolcanoQueue, VolcanoQueueSpec
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node
from tonnage.simulator.objects import (
    GPU,
    GPU_CORES,
    GPU_MEMORY,
    Amounts,
    make_card,
    make_node,
    make_spec,
    queue_annotations,
)
from tonnage.simulator.scene import Entry, Scene, Shape
from tonnage.simulator.traces.openb import model_annotations
from tonnage.simulator.workloads.workload import NodePool, Workload, WorkloadClass, choices, in_seconds

SHARES_PER_CARD = 100
_WHOLE = 100
_SAMPLES = 2000


def scene_of(workload: Workload, nodes: Sequence[Node] = ()) -> Scene:
    """The scene of a workload, on its own nodes and on existing ones."""
    classes = _Classes(workload)
    own = [node for pool in workload.nodes for node in _nodes(pool)]
    queues = [
        VolcanoQueue(
            ObjectMeta(name=queue.name),
            VolcanoQueueSpec(weight=queue.weight, deserved=queue.deserved, capability=queue.limit),
        )
        for queue in workload.queues
    ]
    return Scene(
        Path(workload.source).stem or "workload",
        [*nodes, *own],
        classes.without_end,
        classes.in_time,
        in_seconds(workload.duration),
        queues,
        popular=classes.popular(),
        has_gangs=any(max(choices(pod.gang)) > 1 for pod in workload.pods),
    )


def _nodes(pool: NodePool) -> Iterator[Node]:
    offered: Amounts = {"cpu": pool.cpu, "memory": pool.memory, "pods": "1000"}
    offered |= {GPU: pool.gpus * SHARES_PER_CARD} if pool.gpus else {}
    width = max(3, len(str(pool.count)))
    for number in range(1, pool.count + 1):
        name = f"{pool.name}-{number:0{width}d}"
        cards = [
            make_card(f"{name}-gpu-{index}", index, pool.model, pool.gpu_memory, SHARES_PER_CARD)
            for index in range(pool.gpus)
        ]
        yield make_node(name, offered, cards, labels={"pool": pool.name})


class _Classes:
    """Draws pods from the classes."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._weights = [*accumulate(pod.share for pod in workload.pods)]
        self._models = sorted({pool.model for pool in workload.nodes})
        cards = [(pool.gpu_memory, pool.count * pool.gpus) for pool in workload.nodes if pool.count * pool.gpus]
        self._mean_memory = sum(memory * count for memory, count in cards) / max(sum(count for _, count in cards), 1)
        self._known: dict[tuple[str, int, int], Shape] = {}

    def without_end(self, rng: random.Random) -> Iterator[Entry]:
        """Pods without times, one after another."""
        number = 0
        while True:
            number += 1
            yield self._draw(rng, number, 0.0)

    def in_time(self, rng: random.Random) -> Iterator[Entry]:
        """Pods at their arrival times, until arrivals end."""
        time, number, end = 0.0, 0, in_seconds(self._workload.duration)
        while True:
            time += self._workload.arrivals.draw(rng)
            if time > end:
                return
            number += 1
            yield self._draw(rng, number, time)

    def popular(self) -> list[tuple[Shape, int]]:
        """The frequencies of shapes, from a separate sample."""
        rng, counts = random.Random(0), dict[Shape, int]()
        for number in range(_SAMPLES):
            entry = self._draw(rng, number, 0.0)
            counts[entry.shape] = counts.get(entry.shape, 0) + entry.size
        return sorted(counts.items(), key=lambda item: -item[1])

    def _draw(self, rng: random.Random, number: int, time: float) -> Entry:
        pod = rng.choices(self._workload.pods, cum_weights=self._weights)[0]
        gpus, memory, size = (rng.choice(choices(value)) for value in (pod.gpus, pod.gpu_memory, pod.gang))
        duration = pod.duration.draw(rng)
        return Entry(f"{pod.name}-{number:06d}", self._shape(pod, gpus, memory), time, duration, size)

    def _shape(self, pod: WorkloadClass, gpus: int, memory: int) -> Shape:
        key = (pod.name, gpus, memory)
        known = self._known.get(key)
        if known is None:
            limits: Amounts = {"cpu": pod.cpu, "memory": pod.memory}
            if gpus:
                limits |= {GPU: gpus} | ({GPU_MEMORY: memory} if memory else {})
                limits |= {GPU_CORES: pod.gpu_cores} if pod.gpu_cores else {}
            part = memory / self._mean_memory if memory and self._mean_memory else 1.0
            annotations = model_annotations(pod.models, self._models) if gpus else {}
            annotations |= queue_annotations(pod.queue) if pod.queue else {}
            annotations |= {VOLCANO_KEY: "true"} if pod.preemptible else {}
            known = self._known[key] = Shape(
                make_spec(limits, priority=pod.priority),
                gpus,
                min(max(part, pod.gpu_cores / _WHOLE), 1.0),
                tuple(pod.models),
                pod.namespace,
                annotations,
            )
        return known
