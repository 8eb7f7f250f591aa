"""The openb trace: a list of nodes and a list of pods as comma-separated values.

A card has 1000 units of memory, so that a unit is a thousandth of a GPU. A pod's models are exact names. The two column
layouts differ in whether pods have models and times.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tonnage.manifests.written import TextError
from tonnage.model.node import Node
from tonnage.simulator.objects import (
    GPU,
    GPU_MEMORY,
    REFUSE_TYPE,
    USE_TYPE,
    Amounts,
    make_card,
    make_node,
    make_spec,
)
from tonnage.simulator.scene import Entry, Scene, Shape, in_time, popularity, shuffled
from tonnage.simulator.traces.table import CsvLine, CsvTable

WHOLE = 1000
"""Thousandths of a card: its memory and its slots."""
_PLACES = 100_000
"""The pod limit of a node, larger than ever needed."""
_NODES = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_PODS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_MOST_CARDS = 64


class NodeLine(NamedTuple):
    """A node as a trace describes it."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


class PodLine(NamedTuple):
    """A pod as a trace describes it, with its position in the file."""

    name: str
    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]
    created: float | None
    duration: float | None
    place: tuple[int, int]
    """The line, and the column of the models or of the number of GPUs."""


class Trace(NamedTuple):
    """A list of nodes and a list of pods."""

    source: str
    nodes: Sequence[NodeLine]
    pods: Sequence[PodLine]


def read_trace(nodes: str, pods: str) -> Trace:
    """The trace in both files; TextError with the position of what is wrong."""
    return Trace(pods, read_nodes(nodes), read_pods(pods))


def read_nodes(path: str) -> list[NodeLine]:
    """The list of nodes."""
    found: dict[str, NodeLine] = {}
    for line in CsvTable(path, _NODES):
        node = NodeLine(
            line.text("sn"), line.amount("cpu_milli"), line.amount("memory_mib"), line.amount("gpu"), line.text("model")
        )
        if not node.name:
            line.wrong("sn", "a node has no name")
        if node.name in found:
            line.wrong("sn", f"there is a node {node.name} already")
        if node.gpus > _MOST_CARDS:
            line.wrong("gpu", f"{node.gpus} cards on one node; expected at most {_MOST_CARDS}")
        if node.gpus and not node.model:
            line.wrong("model", f"node {node.name} has GPUs and no model")
        found[node.name] = node
    if not found:
        raise TextError(path, 2, 1, "there are no nodes below the first line")
    return list(found.values())


def read_pods(path: str) -> list[PodLine]:
    """The list of pods."""
    found: dict[str, PodLine] = {}
    for line in CsvTable(path, _PODS):
        pod = _pod(line)
        if pod.name in found:
            line.wrong("name", f"there is a pod {pod.name} already")
        found[pod.name] = pod
    if not found:
        raise TextError(path, 2, 1, "there are no pods below the first line")
    return list(found.values())


def _pod(line: CsvLine) -> PodLine:
    gpus, milli = line.amount("num_gpu"), line.amount("gpu_milli")
    if gpus > 1 and milli != WHOLE:
        line.wrong("gpu_milli", f"{gpus} GPUs of {milli} thousandths; several GPUs are whole ones, {WHOLE} each")
    if gpus and not 1 <= milli <= WHOLE:
        line.wrong("gpu_milli", f"expected 1 to {WHOLE} thousandths of a GPU, got {milli}")
    name = line.text("name")
    if not name:
        line.wrong("name", "a pod has no name")
    models = tuple(dict.fromkeys(part.strip() for part in line.text("gpu_spec").split("|") if part.strip()))
    cpu, memory = line.amount("cpu_milli"), line.amount("memory_mib")
    place = line.place("gpu_spec" if models else "num_gpu")
    return PodLine(name, cpu, memory, gpus, milli if gpus else 0, models if gpus else (), *_times(line), place)


def _times(line: CsvLine) -> tuple[float | None, float | None]:
    """When a pod arrived and how long it ran, from its start if that is known."""
    created, deleted, started = line.time("creation_time"), line.time("deletion_time"), line.time("scheduled_time")
    if created is None or deleted is None:
        return None, None
    if started is not None and started < created:
        line.wrong("scheduled_time", f"time goes backwards: it started at {started:g} and came at {created:g}")
    begin = created if started is None else started
    if deleted < begin:
        line.wrong("deletion_time", f"a negative duration: it ended at {deleted:g} and started at {begin:g}")
    return created, deleted - begin


def unplaceable(trace: Trace) -> Iterator[str]:
    """A message with its position for every pod that fits on no node; such pods count as failed."""
    known = {node.model for node in trace.nodes if node.gpus}
    sizes = {(node.cpu, node.memory, node.gpus, node.model): node for node in trace.nodes}.values()
    for pod in trace.pods:
        if pod.models and not known & set(pod.models):
            why = (
                f"no node has a GPU of model {' or '.join(pod.models)}; there are {', '.join(sorted(known)) or 'none'}"
            )
        elif not any(_can_take(node, pod) for node in sizes):
            what = f"{pod.cpu / 1000:g} CPUs, {pod.memory} MiB, {pod.gpus} GPUs"
            why = f"it is larger than any node{' with ' if pod.models else ''}{' or '.join(pod.models)}: {what}"
        else:
            continue
        line, column = pod.place
        yield f"{trace.source} line {line} column {column}: {pod.name} can never run: {why}"


def _can_take(node: NodeLine, pod: PodLine) -> bool:
    fits = node.cpu >= pod.cpu and node.memory >= pod.memory and node.gpus >= pod.gpus
    return fits and (not pod.models or node.model in pod.models)


def scene_of(trace: Trace) -> Scene:
    """The scene of a trace; virtual time begins with its first pod."""
    entries, shapes = [], _Shapes({node.model for node in trace.nodes if node.gpus})
    times = [pod.created for pod in trace.pods if pod.created is not None]
    begin = min(times, default=0.0)
    for pod in trace.pods:
        time = 0.0 if pod.created is None else pod.created - begin
        duration = float("inf") if pod.duration is None else pod.duration
        entries.append(Entry(pod.name, shapes.of(pod), time, duration))
    has_times = len(times) == len(entries)
    return Scene(
        Path(trace.source).stem,
        [_node(node) for node in trace.nodes],
        shuffled(entries),
        in_time(entries) if has_times else None,
        max(times, default=0.0) - begin,
        popular=popularity(entries),
    )


def _node(node: NodeLine) -> Node:
    offered: Amounts = {"cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": _PLACES}
    offered |= {GPU: node.gpus * WHOLE} if node.gpus else {}
    cards = [make_card(f"{node.name}-gpu-{number}", number, node.model, WHOLE, WHOLE) for number in range(node.gpus)]
    return make_node(node.name, offered, cards, labels={"model": node.model} if node.model else None)


class _Shapes:
    """Shapes of pods, each built once."""

    def __init__(self, models: Iterable[str]) -> None:
        self._models = sorted(models)
        self._known: dict[tuple[object, ...], Shape] = {}

    def of(self, pod: PodLine) -> Shape:
        key = (pod.cpu, pod.memory, pod.gpus, pod.milli, tuple(sorted(pod.models)))
        known = self._known.get(key)
        if known is None:
            limits: Amounts = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
            if pod.gpus:
                limits |= {GPU: pod.gpus, GPU_MEMORY: pod.milli}
            annotations = model_annotations(pod.models, self._models)
            known = self._known[key] = Shape(
                make_spec(limits), pod.gpus, pod.milli / WHOLE or 1.0, pod.models, annotations=annotations
            )
        return known


def model_annotations(wanted: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """The annotations that ask for cards of exactly these models.

    The annotation matches any card whose name contains one of the words, so models are refused whose names only contain
    a wanted one. If no model is known, the pod fits on no card.
    """
    if not wanted:
        return {}
    words = [word.upper() for word in wanted]
    others = [model for model in known if model.upper() not in words and any(word in model.upper() for word in words)]
    found = {USE_TYPE: ",".join(sorted(wanted))}
    if others:
        found[REFUSE_TYPE] = ",".join(sorted(others))
    return found
