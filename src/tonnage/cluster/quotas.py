"""ResourceQuotas on the memory and compute of cards, and what the pods of each namespace hold of them.

Kubernetes does not count these itself. As in HAMi, `limits.<resource>` limits the memory or the compute resource of a
vendor; pods count per card, at the peak of their phases. Events keep the usage current: `hold` replaces what a pod held
before. Cards that a pod does not name count nothing, and neither does the memory of cards whose size nobody knows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from tonnage.cluster.holding import VendorUse
from tonnage.cluster.task import INIT
from tonnage.devices.base import LARGEST_AMOUNT, Device, Vendor
from tonnage.model.problem import Problem
from tonnage.model.quantity import QuantityError, exact
from tonnage.model.quota import ResourceQuota

T = TypeVar("T")

PREFIX = "limits."
"""The prefix of quotas on resources of cards."""

Amounts = dict[int, int]
"""MiB or percent by the number of the resource."""


class Quota(NamedTuple):
    """A namespace's limit on a resource and what its pods hold of it: memory in MiB, compute in percent."""

    limit: int
    used: int


class Excess(NamedTuple):
    """A quota that a pod would exceed."""

    resource: str
    asked: int
    quota: Quota

    @property
    def message(self) -> str:
        """The figures, for people."""
        limit, used = self.quota
        return f"{self.resource} is limited to {limit}, {used} are used, and the pod asks for {self.asked}"


def peak(steps: Iterable[tuple[str, Any]], larger: Callable[[Any, Any], Any] = max) -> Any:
    """The most that containers need at one time, given the kind and amount of each.

    Init containers run one after another, sidecars from their turn on, then the rest. With NumPy's `maximum` the
    amounts may be arrays.
    """
    stay: Any = 0
    most: Any = 0
    for kind, amount in steps:
        most = larger(most, stay + amount)
        if kind != INIT:
            stay = stay + amount
    return most


def _put(things: dict[str, T], name: str, thing: T) -> None:
    """Keep a thing unless it is empty."""
    if thing:
        things[name] = thing
    else:
        things.pop(name, None)


class Quotas:
    """The quotas of all namespaces, and their usage."""

    def __init__(self, vendors: Sequence[Vendor]) -> None:
        self.names: list[str] = []
        """The resources that a quota may limit, by number."""
        self.numbers: list[tuple[int, int]] = []
        """The numbers of each vendor's memory and compute."""
        self.limits: dict[str, Amounts] = {}
        """The tightest limits of each namespace that has any."""
        self.largest: list[tuple[int, int]] = [(0, 0)] * len(vendors)
        """The largest memory and compute of any card of each vendor so far."""
        self._unsized: set[tuple[int, str]] = set()
        """Cards of unknown memory, by their vendor and UUID."""
        self._units: dict[str, int] = {}
        self._number: dict[str, int] = {}
        for vendor in vendors:
            both = (vendor.memory_resource, vendor.memory_unit), (vendor.cores_resource, 1)
            self.numbers.append((self._add(*both[0]), self._add(*both[1])))
        self._objects: dict[str, dict[str, ResourceQuota]] = {}
        self._problems: dict[str, list[Problem]] = {}
        """By namespace."""
        self._held: dict[str, Amounts] = {}
        """By pod."""
        self._used: dict[str, Amounts] = {}
        """By namespace."""

    def _add(self, resource: str, unit: int) -> int:
        if resource not in self._number:
            self._number[resource] = len(self.names)
            self.names.append(resource)
            if resource:
                self._units[f"{PREFIX}{resource}"] = unit
        return self._number[resource]

    # -- quotas

    def upsert(self, quota: ResourceQuota) -> None:
        """Add a quota or change it; an update without news costs nothing."""
        known = self._objects.get(quota.namespace, {})
        if known.get(quota.key) != quota:
            self._take(quota.namespace, {**known, quota.key: quota})

    def remove(self, key: str) -> None:
        """Forget a quota."""
        namespace = key.partition("/")[0]
        known = self._objects.get(namespace, {})
        if key in known:
            self._take(namespace, {name: quota for name, quota in known.items() if name != key})

    def keys(self) -> list[str]:
        """All known quotas, including those that do not concern cards."""
        return [key for known in self._objects.values() for key in known]

    def _take(self, namespace: str, quotas: dict[str, ResourceQuota]) -> None:
        """Replace the quotas of a namespace; the objects come last, so that an update which fails can be repeated."""
        limits: Amounts = {}
        problems: list[Problem] = []
        for _, quota in sorted(quotas.items()):
            found = self._limits_of(quota, problems)
            for number, limit in found.items():
                limits[number] = min(limit, limits.get(number, limit))
            if found and (quota.spec.scopes or quota.spec.scopeSelector):
                message = "scopes are not looked at; limits on cards hold for all pods of the namespace"
                problems.append(Problem(f"ResourceQuota/{quota.key}", "spec.scopes", "", "no scopes", message))
        _put(self.limits, namespace, limits)
        _put(self._problems, namespace, problems)
        _put(self._objects, namespace, quotas)

    def _limits_of(self, quota: ResourceQuota, problems: list[Problem]) -> Amounts:
        limits: Amounts = {}
        for name, quantity in (quota.spec.hard or {}).items():
            unit = self._units.get(name)
            if unit is None:
                continue
            try:
                amount = exact(quantity)
                fault = (
                    "" if amount is not None and 0 <= amount <= LARGEST_AMOUNT else f"{quantity} is not such a number"
                )
            except QuantityError:
                amount, fault = None, f"{str(quantity)[:40]!r} is not a quantity"
            if fault or amount is None:
                field, expected = f"spec.hard[{name}]", f"a whole number without a unit, from 0 to {LARGEST_AMOUNT}"
                message = f"{fault}; this limit is left out until it is mended"
                problems.append(Problem(f"ResourceQuota/{quota.key}", field, "", expected, message))
            else:
                limits[self._number[name.removeprefix(PREFIX)]] = amount * unit
        return limits

    def problems(self) -> Iterator[Problem]:
        """The problems of quotas, in the order of namespaces."""
        for namespace in sorted(self._problems):
            yield from self._problems[namespace]

    # -- usage

    def seen(self, vendor: int, card: Device) -> None:
        """Take the size of a card into account."""
        most, memory = self.largest[vendor], card.memory if card.memory_known else 0
        if memory > most[0] or card.cores > most[1]:
            self.largest[vendor] = (max(memory, most[0]), max(card.cores, most[1]))
        if not card.memory_known:
            self._unsized.add((vendor, card.uuid))
        elif self._unsized:
            self._unsized.discard((vendor, card.uuid))

    def gone(self, vendor: int, card: Device) -> None:
        """Forget a card whose node is gone."""
        self._unsized.discard((vendor, card.uuid))

    def forget_usage(self) -> None:
        """Forget what pods hold."""
        self._held.clear()
        self._used.clear()

    def hold(self, key: str, uses: Sequence[VendorUse]) -> None:
        """Count what a pod holds of cards, replacing what it held before."""
        before = self._held.pop(key, None)
        if before is None and not uses:
            return
        namespace = key.partition("/")[0]
        if before is not None:
            self._count(namespace, before, -1)
        amounts = self.amounts(uses)
        if amounts:
            self._held[key] = amounts
            self._count(namespace, amounts, 1)

    def amounts(self, uses: Iterable[VendorUse]) -> Amounts:
        """The amounts of cards that count against quotas."""
        amounts: Amounts = {}
        for use in uses:
            memory, cores = self.numbers[use.vendor]
            for card in use.cards:
                known = 0 if (use.vendor, card.uuid) in self._unsized else card.memory
                amounts[memory] = amounts.get(memory, 0) + known
                amounts[cores] = amounts.get(cores, 0) + card.cores
        return amounts

    def _count(self, namespace: str, amounts: Amounts, sign: int) -> None:
        used = self._used.setdefault(namespace, {})
        for number, amount in amounts.items():
            used[number] = used.get(number, 0) + sign * amount
        if sign < 0 and not any(used.values()):
            del self._used[namespace]

    # -- reading

    def used(self, namespace: str) -> Amounts:
        """What the pods of a namespace hold; do not write to it."""
        return self._used.get(namespace, {})

    def quota(self, namespace: str, resource: str) -> Quota | None:
        """The tightest quota on a resource, named without `limits.`; nothing if there is none."""
        number = self._number.get(resource)
        limit = self.limits.get(namespace, {}).get(number) if number is not None else None
        return Quota(limit, self.used(namespace).get(number, 0)) if limit is not None and number is not None else None

    def all(self) -> Iterator[tuple[str, str, Quota]]:
        """Every namespace and resource with a quota, in their order."""
        for namespace, limits in sorted(self.limits.items()):
            used = self.used(namespace)
            for number, limit in sorted(limits.items()):
                yield namespace, self.names[number], Quota(limit, used.get(number, 0))
