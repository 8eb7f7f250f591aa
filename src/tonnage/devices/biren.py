"""Biren GPUs."""

from tonnage.devices._plain import SlotVendor
from tonnage.devices.entry import CountKeys, Section, VendorEntry


class Biren(SlotVendor):
    """Biren GPUs as HAMi's device plugin registers them."""

    def __init__(self, *, count_resource: str = "birentech.com/gpu") -> None:
        super().__init__(name="Biren", count_resource=count_resource, word="biren", policy="birentech.com")


ENTRY = VendorEntry(
    sections=(Section("biren", CountKeys, lambda section: [Biren(count_resource=section.resource_count_name)]),),
    usual=lambda flags: [Biren()],
)
