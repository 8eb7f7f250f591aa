"""Pods as the agent of their node reads them: with fewer fields than a scheduler needs, and containers' environment."""

import msgspec

from tonnage.model.meta import ObjectMeta
from tonnage.model.pod import Container, ReportedPodStatus


class EnvValue(msgspec.Struct, gc=False, frozen=True):
    """An environment variable that is stated literally."""

    name: str
    value: str | None = None


class WatchedContainer(Container, frozen=True):
    """A container with its environment."""

    env: list[EnvValue] | None = None


class WatchedPodSpec(msgspec.Struct, gc=False, frozen=True):
    """The part of a pod's specification that a node needs."""

    containers: list[WatchedContainer] = []
    initContainers: list[WatchedContainer] | None = None
    nodeName: str | None = None


class WatchedPod(msgspec.Struct, gc=False, frozen=True):
    """A pod as the agent watches it."""

    metadata: ObjectMeta
    spec: WatchedPodSpec = WatchedPodSpec()
    status: ReportedPodStatus = ReportedPodStatus()
