"""The validation of groups and queues beyond their types: quantities and durations must be readable."""

from collections.abc import Iterator, Mapping

import msgspec

from tonnage.model.duration import DurationError, seconds
from tonnage.model.group import GroupObject, KaiPodGroup, KaiQueue, VolcanoPodGroup, VolcanoQueue
from tonnage.model.quantity import QuantityError
from tonnage.model.resources import amount


class Fault(msgspec.Struct, frozen=True):
    """A fault inside an object."""

    path: str
    expected: str
    message: str


def quantity_faults(path: str, quantities: Mapping[str, str | int | float] | None) -> Iterator[tuple[str, Fault]]:
    for name, quantity in (quantities or {}).items():
        try:
            if amount(name, quantity) < 0:
                yield name, Fault(f"{path}[{name}]", "zero or more", f"{quantity} is below zero")
        except QuantityError as error:
            message, _, expected = str(error).partition("; expected ")
            yield name, Fault(f"{path}[{name}]", expected, message)


def group_faults(thing: GroupObject) -> list[Fault]:
    """The faults for which a group or queue cannot be used."""
    if isinstance(thing, VolcanoPodGroup):
        return [fault for _, fault in quantity_faults("spec.minResources", thing.spec.minResources)]
    if isinstance(thing, VolcanoQueue):
        spec = thing.spec
        parts = {
            "capability": spec.capability,
            "deserved": spec.deserved,
            "guarantee.resource": spec.guarantee.resource,
        }
        return [fault for name, part in parts.items() for _, fault in quantity_faults(f"spec.{name}", part)]
    if isinstance(thing, KaiQueue):
        return [
            *_duration("preemptMinRuntime", thing.spec.preemptMinRuntime),
            *_duration("reclaimMinRuntime", thing.spec.reclaimMinRuntime),
        ]
    if isinstance(thing, KaiPodGroup):
        return [
            *_duration("preemptionDelay", thing.spec.preemptionDelay),
            *_duration("stalenessGracePeriod", thing.spec.stalenessGracePeriod, may_be_negative=True),
        ]
    return []


def _duration(name: str, text: str | None, *, may_be_negative: bool = False) -> Iterator[Fault]:
    if text is None:
        return
    try:
        seconds(text, may_be_negative=may_be_negative)
    except DurationError as error:
        message, _, expected = str(error).partition("; expected ")
        yield Fault(f"spec.{name}", expected, message)
