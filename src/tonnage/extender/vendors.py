"""The vendors that an extender serves, from its device configuration or from HAMi's former device flags."""

from msgspec.structs import asdict

from tonnage.config.deviceconfig import DeviceConfig, load_devices_file
from tonnage.config.notes import Note
from tonnage.devices.ascend import Ascend
from tonnage.devices.base import Vendor
from tonnage.devices.catalog import default_vendors
from tonnage.extender.options import DeviceFlags, ExtenderOptions


def configured_vendors(options: ExtenderOptions) -> DeviceConfig:
    """The vendors of the extender's options; ConfigError if a file is invalid.

    A device configuration overrides device flags. As in HAMi, chips of some vendors need a flag that enables them.
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
        found = DeviceConfig("flags", _flag_vendors(flags), [])
    return found._replace(vendors=tuple(vendor for vendor in found.vendors if _is_enabled(vendor, options)))


def _is_enabled(vendor: Vendor, options: ExtenderOptions) -> bool:
    return not vendor.enabled_by or bool(getattr(options, vendor.enabled_by))


def _flag_vendors(flags: DeviceFlags) -> tuple[Vendor, ...]:
    """The default vendors with the names and defaults that flags give."""
    return default_vendors({name: value for name, value in asdict(flags).items() if value is not None})
