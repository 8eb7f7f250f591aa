"""Edits of a pod: other amounts in a container, or one rule less, as a changed pod and as a strategic merge patch."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from tonnage.model.pod import Container, Pod, ResourceRequirements
from tonnage.model.selection import Affinity, Toleration

Quantities = Mapping[str, str | int | float | None]
"""New quantities by resource; nothing to leave one out."""


class PodEdit(msgspec.Struct, frozen=True):
    """A change of a pod."""

    container: str = ""
    quantities: Quantities = {}
    """The quantities to set in the container, wherever it states them, else among its limits."""
    annotations: tuple[str, ...] = ()
    """Annotations to leave out."""
    selector: tuple[str, ...] = ()
    """Keys of the node selector to leave out."""
    without_affinity: str = ""
    """`nodeAffinity`, `podAffinity` or `podAntiAffinity`, whose required part is left out."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations to add."""
    without_spread: str = ""
    """The topology key whose spread constraints are left out."""

    def apply(self, pod: Pod) -> Pod:
        """The pod with the change."""
        spec, metadata = pod.spec, pod.metadata
        if self.quantities:
            spec = replace(
                spec,
                containers=[self._changed(one) for one in spec.containers],
                initContainers=spec.initContainers and [self._changed(one) for one in spec.initContainers],
            )
        if self.annotations:
            kept = {key: text for key, text in pod.annotations.items() if key not in self.annotations}
            metadata = replace(metadata, annotations=kept)
        if self.selector:
            left = {key: text for key, text in (spec.nodeSelector or {}).items() if key not in self.selector}
            spec = replace(spec, nodeSelector=left)
        if self.without_affinity and spec.affinity is not None:
            spec = replace(spec, affinity=self._without_required(spec.affinity))
        if self.tolerations:
            spec = replace(spec, tolerations=[*(spec.tolerations or ()), *self.tolerations])
        if self.without_spread:
            kept_spread = [
                one for one in spec.topologySpreadConstraints or () if one.topologyKey != self.without_spread
            ]
            spec = replace(spec, topologySpreadConstraints=kept_spread)
        return replace(pod, spec=spec, metadata=metadata)

    def patch(self, pod: Pod) -> dict[str, Any]:
        """The strategic merge patch that makes the change."""
        spec: dict[str, Any] = {}
        for field in ("containers", "initContainers"):
            for one in getattr(pod.spec, field) or ():
                if self.quantities and one.name == self.container:
                    spec[field] = [{"name": one.name, "resources": self._patched(one)}]
        if self.selector:
            spec["nodeSelector"] = dict.fromkeys(self.selector)
        if self.without_affinity:
            spec["affinity"] = {self.without_affinity: {"requiredDuringSchedulingIgnoredDuringExecution": None}}
        if self.tolerations:
            spec["tolerations"] = [_plain(one) for one in (*(pod.spec.tolerations or ()), *self.tolerations)]
        if self.without_spread:
            spec["topologySpreadConstraints"] = [
                {"topologyKey": one.topologyKey, "whenUnsatisfiable": one.whenUnsatisfiable, "$patch": "delete"}
                for one in pod.spec.topologySpreadConstraints or ()
                if one.topologyKey == self.without_spread
            ]
        patch: dict[str, Any] = {"spec": spec} if spec else {}
        if self.annotations:
            patch["metadata"] = {"annotations": dict.fromkeys(self.annotations)}
        return patch

    def _changed(self, container: Container) -> Container:
        if container.name != self.container:
            return container
        parts = {"requests": container.resources.requests, "limits": container.resources.limits}
        for part, news in self._patched(container).items():
            merged = {**(parts[part] or {}), **news}
            parts[part] = {name: value for name, value in merged.items() if value is not None}
        return replace(container, resources=ResourceRequirements(parts["requests"], parts["limits"]))

    def _patched(self, container: Container) -> dict[str, dict[str, Any]]:
        """The new requests and limits of the container."""
        requests, limits = container.resources.requests or {}, container.resources.limits or {}
        result: dict[str, dict[str, Any]] = {}
        for name, value in self.quantities.items():
            stated = [part for part, has in (("requests", requests), ("limits", limits)) if name in has]
            if value is None and not stated:
                continue
            for part in stated or ["limits"]:
                result.setdefault(part, {})[name] = None if value is None else str(value)
        return result

    def _without_required(self, affinity: Affinity) -> Affinity:
        part = getattr(affinity, self.without_affinity)
        if part is None:
            return affinity
        empty = replace(part, requiredDuringSchedulingIgnoredDuringExecution=None)
        return replace(affinity, **{self.without_affinity: empty})


def _plain(thing: Any) -> Any:
    """A part of an object as plain data, without what it does not say."""
    return {key: value for key, value in msgspec.to_builtins(thing).items() if value is not None}
