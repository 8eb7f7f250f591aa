"""Usage of containers: their shared regions, each with the pod and container that it belongs to.

A region may name only devices that its container was given: otherwise a container could speak for cards of others.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tonnage.agent.core.answers import folder_name
from tonnage.agent.core.nodepod import NodePod
from tonnage.agent.monitor.feedback import Feedback, feedback
from tonnage.agent.monitor.regions import (
    FOREIGN,
    UNREADABLE,
    DeviceUsage,
    RegionError,
    RegionFile,
    SharedRegion,
    open_region,
)
from tonnage.devices.base import DeviceUse

READ, NONE_YET = "read", "none_yet"


class MonitoredContainer(NamedTuple):
    """A container that was given devices."""

    folder: str
    namespace: str
    pod: str
    name: str
    uses: tuple[DeviceUse, ...]
    is_uncontrolled: bool = False

    @property
    def has_region(self) -> bool:
        """Whether HAMi-core limits it; an instance of a card that is cut needs no limits."""
        return all(use.placement is None for use in self.uses)


class ContainerUsage(NamedTuple):
    """What a container uses of its devices."""

    container: MonitoredContainer
    region: SharedRegion
    devices: tuple[DeviceUsage, ...]


class RegionFault(NamedTuple):
    """A region that was left out."""

    container: MonitoredContainer
    kind: str
    why: str


class NodeUsage(NamedTuple):
    """What was found in the regions of the node."""

    found: list[ContainerUsage]
    faults: list[RegionFault]
    states: Counter[str]
    """Containers by what became of their regions."""


def monitored(pods: Iterable[NodePod]) -> list[MonitoredContainer]:
    """The containers of a node that have devices, in the order of their pods' names."""
    return [
        MonitoredContainer(
            folder_name(pod, one), pod.namespace, pod.name, one.name, tuple(one.uses), one.is_uncontrolled
        )
        for pod in sorted(pods, key=lambda pod: pod.key)
        if not pod.is_over
        for one in pod.containers
        if one.uses
    ]


def read_own(file: RegionFile, container: MonitoredContainer) -> SharedRegion:
    """What a container's region says; RegionError also if it names devices that the container was not given."""
    region = file.read()
    if not {use.uuid for use in container.uses}.issuperset(region.uuids):
        raise RegionError(FOREIGN, "it names a device that its container was not given")
    return region


def give_feedback(
    containers: Path, monitored: Iterable[MonitoredContainer], now: float
) -> tuple[Feedback, list[RegionFault]]:
    """One pass of feedback over the regions of containers, and those that were left out."""
    regions: dict[str, SharedRegion] = {}
    faults: list[RegionFault] = []
    with ExitStack() as held:
        files: dict[str, tuple[MonitoredContainer, RegionFile]] = {}
        for one in monitored:
            if not one.has_region:
                continue
            try:
                file = held.enter_context(open_region(containers, one.folder, writable=True))
                if file is not None:
                    regions[one.folder], files[one.folder] = read_own(file, one), (one, file)
            except RegionError as error:
                faults.append(RegionFault(one, error.kind, str(error)))
        said = feedback(regions, now)
        for folder, words in said.words.items():
            one, file = files[folder]
            before = regions[folder]
            try:
                file.write(
                    recent=words.recent if words.recent != before.recent else None,
                    switch=words.switch if words.switch != before.switch else None,
                )
            except OSError as error:
                faults.append(RegionFault(one, UNREADABLE, f"it cannot be written: {error.strerror}"))
    return said, faults


def node_usage(containers: Path, monitored: Iterable[MonitoredContainer], is_alive: Callable[[int], bool]) -> NodeUsage:
    """Read the regions of containers; those that cannot be read are left out."""
    usage = NodeUsage([], [], Counter())
    for one in monitored:
        if not one.has_region:
            continue
        try:
            with open_region(containers, one.folder) as file:
                if file is None:
                    usage.states[NONE_YET] += 1
                    continue
                region = read_own(file, one)
                usage.found.append(ContainerUsage(one, region, file.usage(region, is_alive)))
                usage.states[READ] += 1
        except RegionError as error:
            usage.faults.append(RegionFault(one, error.kind, str(error)))
            usage.states[error.kind] += 1
    return usage
