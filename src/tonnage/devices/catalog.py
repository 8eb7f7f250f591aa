"""The vendors that Tonnage knows, in the order in which they are asked."""

from tonnage.devices import ascend, iluvatar
from tonnage.devices.base import Vendor
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.hygon import Hygon
from tonnage.devices.nvidia import Nvidia


def default_vendors() -> tuple[Vendor, ...]:
    """Every vendor with the names and defaults that its device plugin comes with."""
    return (
        Nvidia(),
        Cambricon(),
        Hygon(),
        iluvatar.IluvatarLegacy(),
        *(iluvatar.Iluvatar(chip) for chip in iluvatar.CHIPS),
        *(ascend.Ascend(chip) for chip in ascend.CHIPS),
    )
