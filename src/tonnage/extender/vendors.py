"""The vendors that an extender serves: those of its device configuration, or those of flags of old."""

from collections.abc import Iterator
from typing import Any

from tonnage.config.deviceconfig import DeviceSettings, load_devices_file
from tonnage.config.notes import Note
from tonnage.devices.ascend import Ascend
from tonnage.devices.base import Vendor
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.catalog import default_vendors
from tonnage.devices.enflame import Enflame, EnflameSliced
from tonnage.devices.hygon import Hygon
from tonnage.devices.iluvatar import Iluvatar, IluvatarLegacy
from tonnage.devices.kunlun import Kunlun, KunlunShared
from tonnage.devices.metax import Metax, MetaxShared
from tonnage.devices.mthreads import Mthreads
from tonnage.devices.nvidia import Nvidia
from tonnage.extender.options import DeviceFlags, ExtenderOptions


def configured_vendors(options: ExtenderOptions) -> DeviceSettings:
    """The vendors that options ask for; SettingsError if a file that they name is wrong.

    A device configuration counts more than flags. As in HAMi, chips of Ascend and Iluvatar are used only where their
    flag enables them.
    """
    flags = options.device_flags
    if options.device_config_file:
        found = load_devices_file(options.device_config_file)
        if flags.given:
            told = f"{', '.join(flags.given)}: without effect, as the device configuration decides"
            found = found._replace(warnings=[Note(None, told), *found.warnings])
    elif flags.ascend_config_file and options.enable_ascend:
        found = load_devices_file(flags.ascend_config_file)
        others = [vendor for vendor in _flag_vendors(flags) if not isinstance(vendor, Ascend)]
        found = found._replace(vendors=(*others, *(v for v in found.vendors if isinstance(v, Ascend))))
    else:
        found = DeviceSettings("flags", tuple(_flag_vendors(flags)), [])
    return found._replace(vendors=tuple(vendor for vendor in found.vendors if _is_enabled(vendor, options)))


def _is_enabled(vendor: Vendor, options: ExtenderOptions) -> bool:
    if isinstance(vendor, Ascend):
        return options.enable_ascend
    return options.enable_iluvatar or not isinstance(vendor, Iluvatar)


def _flag_vendors(flags: DeviceFlags) -> Iterator[Vendor]:
    """The usual vendors, under the names and with the defaults that flags give."""
    for vendor in default_vendors():
        match vendor:
            case Nvidia():
                yield Nvidia(
                    **_given(
                        count_resource=flags.resource_name,
                        memory_resource=flags.resource_mem,
                        percentage_resource=flags.resource_mem_percentage,
                        cores_resource=flags.resource_cores,
                        priority_resource=flags.resource_priority,
                    ),
                    default_memory=flags.default_mem or 0,
                    default_cores=flags.default_cores or 0,
                    default_count=1 if flags.default_gpu is None else flags.default_gpu,
                    overwrite_env=bool(flags.overwrite_env),
                )
            case Cambricon():
                yield Cambricon(
                    **_names(flags.cambricon_mlu_name, flags.cambricon_mlu_memory, flags.cambricon_mlu_cores)
                )
            case Hygon():
                yield Hygon(**_names(flags.dcu_name, flags.dcu_memory, flags.dcu_cores))
            case IluvatarLegacy():
                yield IluvatarLegacy(**_names(flags.iluvatar_name, flags.iluvatar_memory, flags.iluvatar_cores))
            case _:
                yield _newer_vendor(vendor, flags)


def _newer_vendor(vendor: Vendor, flags: DeviceFlags) -> Vendor:
    """The same for vendors that came after HAMi 2.4."""
    match vendor:
        case Metax():
            return Metax(**_given(count_resource=flags.metax_name))
        case MetaxShared():
            return MetaxShared(**_names(flags.metax_vcount, flags.metax_vmemory, flags.metax_vcore))
        case Mthreads():
            return Mthreads(**_names(flags.mthreads_name, flags.mthreads_memory, flags.mthreads_cores))
        case Kunlun():
            return Kunlun(**_given(count_resource=flags.kunlun_name))
        case KunlunShared():
            return KunlunShared(**_given(count_resource=flags.kunlun_vcount, memory_resource=flags.kunlun_vmemory))
        case Enflame():
            return Enflame(**_given(count_resource=flags.enflame_gcu_resource_name))
        case EnflameSliced():
            count = flags.enflame_drs_gcu_resource_name or flags.enflame_vgcu_resource_name
            return EnflameSliced(
                **_names(count, flags.enflame_gcu_memory_resource_name, flags.enflame_gcu_core_resource_name)
            )
        case _:
            return vendor


def _names(count: str | None, memory: str | None, cores: str | None) -> dict[str, Any]:
    return _given(count_resource=count, memory_resource=memory, cores_resource=cores)


def _given(**names: str | None) -> dict[str, Any]:
    return {key: name for key, name in names.items() if name is not None}
