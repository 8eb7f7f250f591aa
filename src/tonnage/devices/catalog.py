"""The catalog of vendors: the entries of all vendors' files, in the order in which vendors are asked.

A new vendor is a file in this folder with an `ENTRY`, and its line here.
"""

from collections.abc import Mapping
from typing import Any

from tonnage.devices import (
    amd,
    ascend,
    biren,
    cambricon,
    enflame,
    hygon,
    iluvatar,
    kunlun,
    metax,
    mthreads,
    neuron,
    nvidia,
    vastai,
)
from tonnage.devices.base import Vendor
from tonnage.devices.entry import AnySection, VendorEntry

ENTRIES: tuple[VendorEntry, ...] = (
    nvidia.ENTRY,
    cambricon.ENTRY,
    hygon.ENTRY,
    iluvatar.ENTRY,
    ascend.ENTRY,
    metax.ENTRY,
    enflame.ENTRY,
    mthreads.ENTRY,
    kunlun.ENTRY,
    neuron.ENTRY,
    amd.ENTRY,
    vastai.ENTRY,
    biren.ENTRY,
)


def default_vendors(flags: Mapping[str, Any] = {}) -> tuple[Vendor, ...]:
    """Every vendor with the names and defaults that its device plugin comes with, unless flags give others."""
    return tuple(vendor for entry in ENTRIES for vendor in entry.usual(flags))


def sections() -> dict[str, AnySection]:
    """The sections of HAMi's device configuration by name, in the order in which their vendors are asked."""
    return {section.name: section for entry in ENTRIES for section in entry.sections}
