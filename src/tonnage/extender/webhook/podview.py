"""ContainerView: the parts of a pod's raw JSON that admission reads.

Nothing else of the pod is decoded, so a field that is new or of an unexpected type matters only if admission depends on
it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from tonnage.devices.base import AdmissionChange
from tonnage.model.pod import AdmittedContainer, Container, ResourceRequirements
from tonnage.model.wire import WireError, convert

INIT, MAIN = "initContainers", "containers"
Json = Mapping[str, Any]


class OddityError(ValueError):
    """Something malformed in a pod, which the API server never sends."""


class ContainerView(NamedTuple):
    """A container, its position in the pod, and what admission changes in it."""

    field: str
    number: int
    raw: Json
    container: Container
    """The part of the container that vendors read; of its resources, only theirs."""
    changes: tuple[AdmissionChange, ...] = ()

    @property
    def is_privileged(self) -> bool:
        context = self.container.securityContext
        return context is not None and context.privileged is True

    @property
    def asks(self) -> bool:
        """Whether the container names a resource of any vendor."""
        return bool(self.container.resources.limits or self.container.resources.requests)

    @property
    def after(self) -> Container:
        """The container with its resources after admission."""
        if not self.changes:
            return self.container
        limits, requests = dict(self.container.resources.limits or {}), dict(self.container.resources.requests or {})
        limits.update((change.key, change.value) for change in self.changes if change.field == "limits")
        requests.update((change.key, change.value) for change in self.changes if change.field == "requests")
        return replace(self.container, resources=ResourceRequirements(requests, limits))


def places(spec: Json, field: str, resources: Collection[str]) -> Iterator[ContainerView]:
    """The containers of one kind."""
    for number, raw in enumerate(items_at(spec, field, "spec")):
        path = f"spec.{field}[{number}]"
        if not isinstance(raw, Mapping):
            raise OddityError(f"{path} is no JSON object")
        yield ContainerView(field, number, raw, _container(raw, path, resources))


def _container(raw: Json, path: str, names: Collection[str]) -> Container:
    resources = map_at(raw, "resources", path)
    read: dict[str, object] = {
        name: raw[name] for name in ("name", "restartPolicy", "env") if raw.get(name) is not None
    }
    read["securityContext"] = {"privileged": map_at(raw, "securityContext", path).get("privileged")}
    read["resources"] = {
        field: {name: value for name, value in map_at(resources, field, f"{path}.resources").items() if name in names}
        for field in ("limits", "requests")
    }
    try:
        return convert(read, AdmittedContainer)
    except WireError as error:
        raise OddityError(f"{path}.{error.path}: {error.message}") from error


def map_at(above: Json, key: str, path: str = "") -> Json:
    """A map below another; an empty one if it is missing or null."""
    value = above.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise OddityError(f"{path}.{key} is no JSON object".lstrip("."))
    return value


def items_at(above: Json, key: str, path: str) -> Sequence[Any]:
    """A list below a map; an empty one if it is missing or null."""
    value = above.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise OddityError(f"{path}.{key} is no list")
    return value


def text_at(above: Json, key: str, path: str) -> str:
    """A text below a map; an empty one if it is missing or null."""
    value = above.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise OddityError(f"{path}.{key} is no text")
    return value
