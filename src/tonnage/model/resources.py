"""Resource names and a pod's effective request.

CPU is counted in millicores, everything else in whole units. The effective request follows Kubernetes: init
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
IN_BYTES = (MEMORY, STORAGE)

Amounts = dict[str, int]
UNSTATED = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""What Kubernetes' scores count for a container without requests."""
Additions = tuple[int, int]
"""What containers without requests add to a pod's requests in scores: CPU and memory."""


class NegativeAmountError(ValueError):
    """A request below zero."""


def amount(name: str, quantity: str | int | float) -> int:
    """A quantity as an integer in the unit of its resource."""
    return milli(quantity) if name == CPU else whole(quantity)


def amounts(quantities: Mapping[str, str | int | float] | None) -> Amounts:
    """Every quantity of a map as an integer."""
    return {name: amount(name, quantity) for name, quantity in (quantities or {}).items()}


def show(name: str, value: float) -> str:
    """An amount for people, as Kubernetes writes it."""
    if value == float("inf"):
        return "unlimited"
    if name == CPU:
        return format_milli(round(value))
    if name in IN_BYTES:
        return format_bytes(round(value))
    return f"{value:.6g}" if value % 1 else str(int(value))


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


def unstated(pod: Pod, requests: Mapping[str, int]) -> Additions:
    """What containers without requests add to the pod's effective request in scores; an explicit 0 is a request."""
    spec = pod.spec
    if not spec.initContainers:
        cpu = memory = 0
        for container in spec.containers:
            cpu += 0 if _states(container, CPU) else UNSTATED[CPU]
            memory += 0 if _states(container, MEMORY) else UNSTATED[MEMORY]
        return cpu, memory
    raised = effective_request(_raised(without_nonsense(pod)))
    return raised.get(CPU, 0) - requests.get(CPU, 0), raised.get(MEMORY, 0) - requests.get(MEMORY, 0)


def _states(container: Container, name: str) -> bool:
    resources = container.resources
    return name in (resources.requests or ()) or name in (resources.limits or ())


def _raised(pod: Pod) -> Pod:
    """The pod with default requests where its containers have none."""

    def raised(container: Container) -> Container:
        texts: dict[str, str | int | float] = {CPU: f"{UNSTATED[CPU]}m", MEMORY: UNSTATED[MEMORY]}
        missing = {name: text for name, text in texts.items() if not _states(container, name)}
        requests = {**(container.resources.requests or {}), **missing}
        return replace(container, resources=ResourceRequirements(requests, container.resources.limits))

    spec = pod.spec
    first, others = [raised(c) for c in spec.initContainers or ()], [raised(c) for c in spec.containers]
    return replace(pod, spec=replace(spec, initContainers=first, containers=others))


def without_nonsense(pod: Pod) -> Pod:
    """The pod without quantities that are unreadable or negative: the least that it holds if it runs."""

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
