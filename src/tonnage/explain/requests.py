"""The smallest change of a request that fits: less memory or compute on a card, fewer cards, less CPU or main memory.

Each amount is searched for by itself: the largest that fits, by halving the distance. If no single amount is enough,
the request is cut down to what the nearest nodes have free.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task, containers_of
from tonnage.devices.base import DeviceRequest, RequestError, Vendor, limit
from tonnage.explain.edits import PodEdit
from tonnage.explain.nearmisses import NearMisses
from tonnage.model.pod import Container, Pod
from tonnage.model.quantity import QuantityError, format_bytes, format_milli
from tonnage.model.resources import CPU, MEMORY, amount
from tonnage.model.resources import show as show_resource

Fits = Callable[[PodEdit], bool]
"""Whether the job's pods fit with an edit."""
_MOST_ROWS = 5
_STEP = {MEMORY: 2**20, CPU: 10}
"""Main memory is searched for in MiB, CPU in hundredths."""


class Amount(NamedTuple):
    """An amount of a container that could be smaller."""

    container: str
    resource: str
    now: int
    """In units of `step`."""
    least: int
    step: int
    text: str
    """What less of it is, for people."""
    drops: tuple[str, ...] = ()
    """Resources to leave out if this one is set, because they say the same in another way."""

    def edit(self, units: int) -> PodEdit:
        """The edit that sets it to so many units."""
        return PodEdit(self.container, {self.resource: self._quantity(units), **dict.fromkeys(self.drops)})

    def _quantity(self, units: int) -> str:
        value = units * self.step
        if self.resource == CPU:
            return format_milli(value)
        return format_bytes(value) if self.resource == MEMORY else str(value)

    def shown(self, units: int) -> str:
        """So much of it, for people."""
        value = units * self.step
        return show_resource(self.resource, value) if self.resource in _STEP else f"{value:,}"


def amounts_of(cluster: Cluster, task: Task) -> Iterator[Amount]:
    """The amounts of a pod that could be smaller: first those of cards."""
    containers = [container for container, _ in containers_of(task.pod)]
    natives: list[Amount] = []
    for container in containers:
        for vendor in cluster.vendors:
            request = _request(vendor, container, task)
            if request is not None:
                yield from _of_cards(cluster, vendor, container, request)
        for name in (CPU, MEMORY):
            units = _native(container, name) // _STEP[name]
            if units > 1:
                text = "less CPU" if name == CPU else "less main memory"
                natives.append(Amount(container.name, name, units, 1, _STEP[name], text))
    yield from natives


def _request(vendor: Vendor, container: Container, task: Task) -> DeviceRequest | None:
    try:
        return vendor.request(container, task.annotations)
    except (RequestError, QuantityError):
        return None


def _native(container: Container, name: str) -> int:
    """What a container requests of CPU or main memory; 0 if that cannot be read."""
    parts = container.resources.requests or {}, container.resources.limits or {}
    stated = next((part[name] for part in parts if name in part), None)
    try:
        return 0 if stated is None else amount(name, stated)
    except QuantityError:
        return 0


def _of_cards(cluster: Cluster, vendor: Vendor, container: Container, request: DeviceRequest) -> Iterator[Amount]:
    if vendor.memory_resource and not request.fraction[0]:
        now = request.memory or max(_memories(cluster, vendor, request), default=0)
        # What qualifies the count in another way, such as a percentage, has to go.
        kept = (vendor.memory_resource, vendor.cores_resource, vendor.count_resource)
        others = tuple([name for name in vendor.side_resources if name not in kept and "percentage" in name])
        drops = tuple([name for name in others if limit(container, name) is not None])
        units = now // vendor.memory_unit
        if units > 1:
            text = f"memory on {'the' if request.count == 1 else 'each'} card"
            yield Amount(container.name, vendor.memory_resource, units, 1, 1, f"less {text}", drops)
    if vendor.cores_resource and request.cores > 1 and not request.scales:
        yield Amount(container.name, vendor.cores_resource, request.cores, 1, 1, "less compute of the card")
    if request.count > 1:
        yield Amount(container.name, vendor.count_resource, request.count, 1, 1, "fewer cards")


def _memories(cluster: Cluster, vendor: Vendor, request: DeviceRequest) -> list[int]:
    """What a request by percentage takes of the cards of its vendor."""
    number = cluster.vendor_numbers[vendor.name]
    return [
        int(request.memory_on(device.memory))
        for state in cluster.states
        for device, owner in zip(state.devices, state.vendors, strict=True)
        if owner == number and device.memory_known
    ]


def largest_that_fits(found: Amount, fits: Fits) -> int | None:
    """The largest amount below the present one that fits; nothing if even the least does not."""
    low, high = found.least, found.now - 1
    if high < low or not fits(found.edit(low)):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if fits(found.edit(middle)):
            low = middle
        else:
            high = middle - 1
    return low


def cut_down(misses: NearMisses, cluster: Cluster, task: Task) -> Iterator[tuple[PodEdit, str]]:
    """Edits that cut all that the nearest nodes lack down to what is free there, each with words about it."""
    known = {one.resource: one for one in amounts_of(cluster, task)}
    for row in misses.order(_MOST_ROWS):
        edit: PodEdit | None = None
        words: list[str] = []
        for resource, free in misses.left(row).items():
            one = known.get(resource)
            units = 0 if one is None else free // one.step
            if one is None or not one.least <= units < one.now or (edit and edit.container != one.container):
                break
            part = one.edit(units)
            edit = part if edit is None else replace(edit, quantities={**edit.quantities, **part.quantities})
            words.append(f"{one.resource}: {one.shown(units)} instead of {one.shown(one.now)}")
        else:
            if edit is not None and len(words) > 1:
                yield edit, " and ".join(words)


def alike(tasks: Sequence[Task], task: Task) -> list[Pod]:
    """The pods that ask for the same as one of them, which an edit of the template changes together."""
    return [one.pod for one in tasks if (one.requests, one.demands) == (task.requests, task.demands)]
