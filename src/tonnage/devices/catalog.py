"""The vendors that Tonnage knows, in the order in which they are asked."""

from tonnage.devices import ascend, iluvatar
from tonnage.devices.amd import Amd
from tonnage.devices.base import Vendor
from tonnage.devices.biren import Biren
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.enflame import Enflame, EnflameSliced
from tonnage.devices.hygon import Hygon
from tonnage.devices.kunlun import Kunlun, KunlunShared
from tonnage.devices.metax import Metax, MetaxShared
from tonnage.devices.mthreads import Mthreads
from tonnage.devices.neuron import Neuron
from tonnage.devices.nvidia import Nvidia
from tonnage.devices.vastai import Vastai


def default_vendors() -> tuple[Vendor, ...]:
    """Every vendor with the names and defaults that its device plugin comes with."""
    return (
        Nvidia(),
        Cambricon(),
        Hygon(),
        iluvatar.IluvatarLegacy(),
        *(iluvatar.Iluvatar(chip) for chip in iluvatar.CHIPS),
        *(ascend.Ascend(chip) for chip in ascend.CHIPS),
        Metax(),
        MetaxShared(),
        Enflame(),
        EnflameSliced(),
        Mthreads(),
        Kunlun(),
        KunlunShared(),
        Neuron(),
        Amd(),
        Vastai(),
        Biren(),
    )
