"""The volumes that are reserved for claims of placed pods, until the claims are bound to them.

A reservation is part of what a pod holds, so it comes and goes with the pod's place. Pods that share a claim share its
reservation. A free volume is reserved for one claim at most: whoever chooses volumes asks here which are taken.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tonnage.cluster.holding import Holding, VolumeReservation


class ReservedVolume(NamedTuple):
    """A reservation, and the node of the pod that has it."""

    reservation: VolumeReservation
    node: str


class VolumeReservations:
    """Reservations by claim and by volume."""

    def __init__(self) -> None:
        self._pods: dict[str, Holding] = {}
        """What pods with reservations hold."""
        self._claims: dict[str, dict[str, ReservedVolume]] = {}
        """By claim and pod."""
        self._volumes: dict[str, dict[str, str]] = {}
        """The claim by volume and pod."""

    def __bool__(self) -> bool:
        return bool(self._pods)

    def put(self, pod: str, holding: Holding) -> None:
        """Take note of what is reserved for a pod, in place of what was."""
        if pod in self._pods:
            self.drop(pod)
        if not holding.volumes:
            return
        self._pods[pod] = holding
        for one in holding.volumes:
            self._claims.setdefault(one.claim, {})[pod] = ReservedVolume(one, holding.node)
            if one.volume:
                self._volumes.setdefault(one.volume, {})[pod] = one.claim

    def drop(self, pod: str) -> None:
        """Forget what is reserved for a pod."""
        held = self._pods.pop(pod, None)
        for one in held.volumes if held is not None else ():
            for index, name in ((self._claims, one.claim), (self._volumes, one.volume)):
                pods = index.get(name)
                if pods is not None:
                    pods.pop(pod, None)
                    if not pods:
                        del index[name]

    def clear(self) -> None:
        """Forget all reservations."""
        for index in (self._pods, self._claims, self._volumes):
            index.clear()

    def of_claim(self, claim: str, without: str = "") -> VolumeReservation | None:
        """What is reserved for a claim, by another pod than `without`."""
        found = self._claims.get(claim, {}).items()
        return next((reserved.reservation for pod, reserved in found if pod != without), None)

    def is_taken(self, volume: str, claim: str) -> bool:
        """Whether a volume is reserved for another claim."""
        return any(other != claim for other in self._volumes.get(volume, {}).values())

    def provisioned(self, storage_class: str) -> Iterator[ReservedVolume]:
        """The volumes of a class that are still to be provisioned, one for each claim."""
        for pods in self._claims.values():
            reserved = next(iter(pods.values()))
            if not reserved.reservation.volume and reserved.reservation.storage_class == storage_class:
                yield reserved

    def all(self) -> dict[str, tuple[VolumeReservation, ...]]:
        """All reservations by pod."""
        return {pod: holding.volumes for pod, holding in self._pods.items()}
