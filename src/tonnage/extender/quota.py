"""ResourceQuotas on the memory and compute of cards, which Kubernetes does not count itself.

HAMi reads `limits.<resource>` for the memory and the compute resources of every vendor. What a pod asks for is counted
per card at the peak of its phases; memory that is not given in MiB is unknown at admission and counts when a card is
chosen.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from tonnage.devices.base import DeviceRequest, RequestError, Vendor
from tonnage.model.pod import Container

PREFIX = "limits."
"""How a ResourceQuota names a resource of cards."""


class Quota(NamedTuple):
    """A namespace's limit on a resource and what its pods hold of it: memory in MiB, compute in percent."""

    limit: int
    used: int


class QuotaBook(Protocol):
    """Knows the quotas of all namespaces."""

    def quota(self, namespace: str, resource: str) -> Quota | None:
        """The tightest quota on a resource, named without `limits.`; nothing if there is none."""


class NoQuotas:
    """A book for clusters whose quotas nobody reads."""

    def quota(self, namespace: str, resource: str) -> Quota | None:
        """None at all."""
        return None


def resource_units(vendors: Iterable[Vendor]) -> dict[str, int]:
    """Every resource that a quota may limit, and how many MiB or percent one of its units is."""
    units = {}
    for vendor in vendors:
        units[vendor.memory_resource] = vendor.memory_unit
        units[vendor.cores_resource] = 1
    units.pop("", None)
    return units


class Excess(NamedTuple):
    """A quota that a pod would exceed."""

    resource: str
    asked: int
    quota: Quota


def excess(
    book: QuotaBook, namespace: str, vendors: Iterable[Vendor], init: Sequence[Container], main: Sequence[Container]
) -> Excess | None:
    """The first quota that a pod with these containers would exceed; nothing if it fits."""
    for vendor in vendors:
        asked = _peak(vendor, init, main)
        for resource, amount in zip((vendor.memory_resource, vendor.cores_resource), asked, strict=True):
            quota = book.quota(namespace, resource) if resource and amount else None
            if quota is not None and quota.used + amount > quota.limit:
                return Excess(resource, amount, quota)
    return None


def _peak(vendor: Vendor, init: Sequence[Container], main: Sequence[Container]) -> tuple[int, int]:
    """Memory and compute at the peak: init containers one after another, sidecars from their turn on, then the rest."""
    memory = cores = most_memory = most_cores = 0
    for container in init:
        request = _request(vendor, container)
        if request is None:
            continue
        with_memory, with_cores = memory + request.memory * request.count, cores + request.cores * request.count
        most_memory, most_cores = max(most_memory, with_memory), max(most_cores, with_cores)
        if container.is_sidecar:
            memory, cores = with_memory, with_cores
    for container in main:
        request = _request(vendor, container)
        if request is not None:
            memory += request.memory * request.count
            cores += request.cores * request.count
    return max(memory, most_memory), max(cores, most_cores)


def _request(vendor: Vendor, container: Container) -> DeviceRequest | None:
    try:
        return vendor.request(container)
    except RequestError:
        # Only a privileged container gets here with one; it is not judged.
        return None
