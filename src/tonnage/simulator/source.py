"""The source of a scene: files as plain data, and changes to them.

A source can be sent to other processes and hashed; the scene is built where it is needed.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from tonnage.config.notes import advice
from tonnage.manifests.objects import Manifests
from tonnage.model.wire import encode
from tonnage.simulator.scene import Scene
from tonnage.simulator.traces import openb
from tonnage.simulator.traces.openb import NodeLine, PodLine, Trace
from tonnage.simulator.workloads import drawn, workload
from tonnage.simulator.workloads.workload import Workload


class SettingError(ValueError):
    """A change that does not apply to the source."""


class Setting(msgspec.Struct, frozen=True):
    """A change of one value, such as nodes.g2.count=560."""

    path: str
    value: str

    def __str__(self) -> str:
        return f"{self.path}={self.value}"


class SceneSource(msgspec.Struct, frozen=True):
    """A trace or a synthetic workload, optionally on top of an existing cluster."""

    trace: Trace | None = None
    workload: Workload | None = None
    start: Manifests | None = None
    settings: tuple[Setting, ...] = ()

    def with_settings(self, settings: Sequence[Setting]) -> "SceneSource":
        """The same source with changed values; SettingError if a change does not apply."""
        trace, described = self.trace, self.workload
        for setting in settings:
            if trace is not None:
                trace = _set_in_trace(trace, setting)
            elif described is not None:
                described = _set_in_workload(described, setting)
        return SceneSource(trace, described, self.start, (*self.settings, *settings))

    def scene(self) -> Scene:
        """The scene of the source."""
        if self.trace is not None:
            return openb.scene_of(self.trace)
        assert self.workload is not None
        scene = drawn.scene_of(self.workload, self.start.nodes if self.start is not None else ())
        return scene if self.start is None else scene.starting_from(self.start)

    def digest(self) -> str:
        """The hash of the content."""
        return sha256(encode([self.trace, self.workload, self.start])).hexdigest()


# -- changes of a trace


def _set_in_trace(trace: Trace, setting: Setting) -> Trace:
    match setting.path.split("."):
        case ["nodes", model, name]:
            return trace._replace(nodes=_changed_nodes(trace.nodes, model, name, setting))
        case ["pods", name]:
            return trace._replace(pods=[_changed_pod(pod, name, setting) for pod in trace.pods])
    raise SettingError(f"{setting}: in a trace there are nodes.MODEL.count and pods.share; write one of these")


def _changed_nodes(nodes: Sequence[NodeLine], model: str, name: str, setting: Setting) -> list[NodeLine]:
    """Nodes with fewer of a model, or more copies of its last one."""
    alike = [node for node in nodes if node.model.lower() == model.lower()]
    if not alike:
        models = sorted({node.model.lower() for node in nodes if node.model})
        raise SettingError(f"{setting}: no node has GPUs of model {model}{advice(model, models)}")
    number = _whole(setting)
    if name != "count":
        raise SettingError(f"{setting}: nodes have no {name}{advice(name, ('count',))}")
    kept = {node.name for node in alike[:number]}
    more = [alike[-1]._replace(name=f"{alike[-1].name}-more-{extra:04d}") for extra in range(number - len(alike))]
    return [*(node for node in nodes if node.name in kept or node not in alike), *more]


def _changed_pod(pod: PodLine, name: str, setting: Setting) -> PodLine:
    """The pod, with a share of its GPU if it asked for one whole GPU."""
    if name != "share":
        raise SettingError(
            f"{setting}: pods have no {name}; write pods.share=500 for half a GPU instead of a whole one"
        )
    share = _whole(setting)
    if not 1 <= share <= openb.WHOLE:
        raise SettingError(f"{setting}: expected 1 to {openb.WHOLE} thousandths of a GPU")
    return pod._replace(milli=share) if pod.gpus == 1 and pod.milli == openb.WHOLE else pod


def _whole(setting: Setting) -> int:
    if not (setting.value.isascii() and setting.value.isdigit()) or int(setting.value[:12]) > 1_000_000:
        raise SettingError(f"{setting}: expected a whole number from 0 up, got {setting.value!r}")
    return int(setting.value)


# -- changes of a workload


def _set_in_workload(given: Workload, setting: Setting) -> Workload:
    """Change a value by its path: a section, the name of an entry in it, and a field."""
    document = msgspec.to_builtins(given)
    source = document.pop("source")
    *way, last = setting.path.split(".")
    place: Any = document
    for step in way:
        place = _inside(place, step, setting)
    if not isinstance(place, dict) or last not in place:
        known = place if isinstance(place, dict) else ()
        raise SettingError(f"{setting}: there is no {setting.path}{advice(last, known)}")
    place[last] = _as_written(setting.value)
    return _checked(document, source, setting)


def _inside(place: Any, step: str, setting: Setting) -> Any:
    if isinstance(place, list):
        names = {entry["name"]: entry for entry in place}
    else:
        names = place if isinstance(place, dict) else {}
    if step not in names:
        raise SettingError(f"{setting}: there is no {step}{advice(step, names)}")
    return names[step]


def _as_written(text: str) -> object:
    for read in (int, float):
        try:
            value: object = read(text)
        except ValueError:
            continue
        return value
    return text


def _checked(document: dict[str, Any], source: str, setting: Setting) -> Workload:
    """The document, validated again."""
    read: Callable[[str, str], Workload] = workload.read_workload
    try:
        return msgspec.structs.replace(read(encode(_without_defaults(document)).decode(), source), source=source)
    except ValueError as error:
        message = str(error).splitlines()[0].rpartition(": ")[2] or str(error)
        raise SettingError(f"{setting}: {message}") from error


def _without_defaults(value: Any) -> Any:
    """A document without nulls, so that it can be read again."""
    if isinstance(value, dict):
        return {key: _without_defaults(inner) for key, inner in value.items() if inner is not None}
    return [_without_defaults(inner) for inner in value] if isinstance(value, list) else value
