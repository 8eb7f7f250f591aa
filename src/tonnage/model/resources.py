"""Resource names and a pod's effective request.

Processors are counted in thousandths, everything else in whole units. The effective request follows Kubernetes: init
containers run one after another before the others, sidecars keep running from their turn on, overhead comes on top.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from tonnage.model.pod import Container, Pod, ResourceRequirements
from tonnage.model.quantity import LARGEST, QuantityError, format_bytes, format_milli, milli, whole

CPU = "cpu"
MEMORY = "memory"
STORAGE = "ephemeral-storage"
PODS = "pods"
NATIVE = (CPU, MEMORY, STORAGE, PODS)

Amounts = dict[str, int]


class NegativeAmountError(ValueError):
    """A request below zero."""


def amount(name: str, quantity: str | int | float) -> int:
    """A quantity as the integer in which that resource is counted."""
    return milli(quantity) if name == CPU else whole(quantity)


def amounts(quantities: Mapping[str, str | int | float] | None) -> Amounts:
    """Every quantity of a map as an integer."""
    return {name: amount(name, quantity) for name, quantity in (quantities or {}).items()}


def show(name: str, value: int) -> str:
    """An amount for people."""
    if name == CPU:
        return format_milli(value)
    return format_bytes(value) if name in (MEMORY, STORAGE) else str(value)


def _asked(container: Container) -> Amounts:
    """A container's requests; a limit without a request is the request, as the API server defaults it."""
    asked = amounts(container.resources.limits)
    asked.update(amounts(container.resources.requests))
    _refuse_negative(asked, f"container {container.name!r} requests")
    return asked


def _refuse_negative(parts: Amounts, whose: str) -> None:
    for name, value in parts.items():
        if value < 0:
            raise NegativeAmountError(f"{whose} {name}: {value}")


def _add(left: Amounts, right: Amounts) -> Amounts:
    result = dict(left)
    for name, value in right.items():
        result[name] = min(result.get(name, 0) + value, LARGEST)
    return result


def _largest(parts: Iterable[Amounts]) -> Amounts:
    result: Amounts = {}
    for part in parts:
        for name, value in part.items():
            if value > result.get(name, -1):
                result[name] = value
    return result


def effective_request(pod: Pod) -> Amounts:
    """What the pod holds on its node at its peak, one pod slot included."""
    running: Amounts = {}
    phases: list[Amounts] = []
    for container in pod.spec.initContainers or []:
        if container.is_sidecar:
            running = _add(running, _asked(container))
            phases.append(running)
        else:
            phases.append(_add(running, _asked(container)))
    for container in pod.spec.containers:
        running = _add(running, _asked(container))
    phases.append(running)
    overhead = amounts(pod.spec.overhead)
    _refuse_negative(overhead, "the pod's overhead is")
    peak = _add(_largest(phases), overhead)
    peak[PODS] = 1
    return {name: value for name, value in peak.items() if value}


def without_nonsense(pod: Pod) -> Pod:
    """The pod without quantities that cannot be read or are below zero: what one that runs holds at least."""

    def readable(quantities: Mapping[str, str | int | float] | None) -> dict[str, str | int | float]:
        return {name: quantity for name, quantity in (quantities or {}).items() if _makes_sense(name, quantity)}

    def mended(containers: Iterable[Container]) -> list[Container]:
        return [
            replace(
                container,
                resources=ResourceRequirements(
                    readable(container.resources.requests), readable(container.resources.limits)
                ),
            )
            for container in containers
        ]

    spec = pod.spec
    init, containers = mended(spec.initContainers or ()), mended(spec.containers)
    return replace(
        pod, spec=replace(spec, initContainers=init, containers=containers, overhead=readable(spec.overhead))
    )


def _makes_sense(name: str, quantity: str | int | float) -> bool:
    try:
        return amount(name, quantity) >= 0
    except QuantityError:
        return False
