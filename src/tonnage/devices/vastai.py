"""Vastai accelerators, registered as whole cards or as dies of cards."""

from collections.abc import Mapping, Sequence

from tonnage.devices._plain import SlotVendor
from tonnage.devices._sets import fewest_groups
from tonnage.devices.base import Device, DeviceRequest
from tonnage.devices.entry import CountKeys, Section, VendorEntry

STRATEGY = "DeviceStrategy"
"""The custom fact that says whether a device is a card or one `die` of a card."""
CARD = "AIC"
"""The custom fact that names the card of a die."""


class Vastai(SlotVendor):
    """Vastai devices as HAMi's device plugin registers them."""

    has_set_rules = True

    def __init__(self, *, count_resource: str = "vastaitech.com/va") -> None:
        super().__init__(name="Vastai", count_resource=count_resource, word="va", policy="vastaitech.com")

    def pick(
        self, request: DeviceRequest, candidates: Sequence[Device], annotations: Mapping[str, str]
    ) -> list[int] | None:
        """Dies come from as few cards as possible."""
        if request.count == 1 or any(dict(device.custom).get(STRATEGY) != "die" for device in candidates):
            return None
        return fewest_groups(request.count, candidates, CARD)


ENTRY = VendorEntry(
    sections=(Section("vastai", CountKeys, lambda section: [Vastai(count_resource=section.resource_count_name)]),),
    usual=lambda flags: [Vastai()],
)
