"""Quotas on cards at admission: what a pod's containers request, against the ResourceQuotas of its namespace.

Memory that is not given in MiB, and compute in a vendor's own unit, are unknown at admission; they count when a card is
chosen.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tonnage.cluster.quotas import Excess, Quota, peak
from tonnage.cluster.task import APP, INIT, SIDECAR
from tonnage.devices.base import DeviceRequest, RequestError, Vendor
from tonnage.model.pod import Container


class QuotaBook(Protocol):
    """Knows the quotas of all namespaces."""

    def quota(self, namespace: str, resource: str) -> Quota | None:
        """The tightest quota on a resource, named without `limits.`; None if there is none."""


class NoQuotas:
    """The book of a cluster whose quotas are not read."""

    def quota(self, namespace: str, resource: str) -> Quota | None:
        """Always None."""
        return None


def excess(
    book: QuotaBook,
    namespace: str,
    vendors: Iterable[Vendor],
    init: Sequence[Container],
    main: Sequence[Container],
    annotations: Mapping[str, str] = {},
) -> Excess | None:
    """The first quota that a pod with these containers would exceed; None if it exceeds none."""
    kinds = [(SIDECAR if one.is_sidecar else INIT, one) for one in init] + [(APP, one) for one in main]
    for vendor in vendors:
        found = [(kind, _request(vendor, container, annotations)) for kind, container in kinds]
        asked = [(kind, request) for kind, request in found if request is not None]
        if not asked:
            continue
        memory = peak((kind, request.memory * request.count) for kind, request in asked)
        cores = peak((kind, 0 if request.scales else request.cores * request.count) for kind, request in asked)
        for resource, amount in ((vendor.memory_resource, memory), (vendor.cores_resource, cores)):
            quota = book.quota(namespace, resource) if resource and amount else None
            if quota is not None and quota.used + amount > quota.limit:
                return Excess(resource, amount, quota)
    return None


def _request(vendor: Vendor, container: Container, annotations: Mapping[str, str]) -> DeviceRequest | None:
    try:
        return vendor.request(container, annotations)
    except RequestError:
        # Only a privileged container, which admission skips, can still have an invalid request here.
        return None
