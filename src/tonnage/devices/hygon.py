"""Hygon DCUs."""

from collections.abc import Mapping

from tonnage.devices._plain import PlainVendor
from tonnage.devices.base import WHOLE_CARD, type_allowed
from tonnage.devices.entry import Amount, CardKeys, Flags, Section, VendorEntry, from_flags

USE_TYPE = "hygon.com/use-dcutype"
REFUSE_TYPE = "hygon.com/nouse-dcutype"


class Hygon(PlainVendor):
    """DCUs as HAMi's device plugin registers them."""

    def __init__(
        self,
        *,
        count_resource: str = "hygon.com/dcunum",
        memory_resource: str = "hygon.com/dcumem",
        cores_resource: str = "hygon.com/dcucores",
        memory_factor: int = 1,
    ) -> None:
        super().__init__(
            name="DCU",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource=cores_resource,
            record="hami.io/dcu-devices",
            register="hami.io/node-dcu-register",
            handshake="hami.io/node-handshake-dcu",
            use_uuids="hygon.com/use-gpuuuid",
            refuse_uuids="hygon.com/nouse-gpuuuid",
            memory_unit=max(1, memory_factor),
            default_cores=WHOLE_CARD,
        )
        self.policy_annotations = (*self.policy_annotations, USE_TYPE, REFUSE_TYPE)

    def accepts_type(self, type_: str, mode: str, annotations: Mapping[str, str]) -> bool:
        return type_allowed(type_, annotations, USE_TYPE, REFUSE_TYPE)


class _Keys(CardKeys, frozen=True, rename="camel"):
    memory_factor: Amount = 1


def _configured(section: _Keys) -> list[Hygon]:
    return [Hygon(**section.resources, memory_factor=section.memory_factor)]


def _usual(flags: Flags) -> list[Hygon]:
    names = from_flags(flags, count_resource="dcu_name", memory_resource="dcu_memory", cores_resource="dcu_cores")
    return [Hygon(**names)]


ENTRY = VendorEntry(sections=(Section("hygon", _Keys, _configured),), usual=_usual)
