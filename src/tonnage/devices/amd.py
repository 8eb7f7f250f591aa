"""AMD GPUs, which register their compute in compute units; pods request it in percent."""

from collections.abc import Mapping

from msgspec.structs import replace

from tonnage.devices._plain import PlainVendor
from tonnage.devices.base import WHOLE_CARD, DeviceRequest, Handover, RequestError, type_allowed
from tonnage.devices.entry import CardKeys, Section, VendorEntry
from tonnage.model.pod import Container

USE_TYPE = "amd.com/use-gputype"
REFUSE_TYPE = "amd.com/nouse-gputype"


class Amd(PlainVendor):
    """AMD GPUs as HAMi's device plugin registers them."""

    def __init__(
        self,
        *,
        count_resource: str = "amd.com/gpu",
        memory_resource: str = "amd.com/gpumem",
        cores_resource: str = "amd.com/gpucores",
    ) -> None:
        super().__init__(
            name="AMD",
            count_resource=count_resource,
            memory_resource=memory_resource,
            cores_resource=cores_resource,
            record="hami.io/amd-devices",
            register="hami.io/node-amd-register",
            use_uuids="amd.com/use-gpu-uuid",
            refuse_uuids="amd.com/nouse-gpu-uuid",
            default_cores=WHOLE_CARD,
        )
        self.policy_annotations = (*self.policy_annotations, USE_TYPE, REFUSE_TYPE)

    def request(self, container: Container, annotations: Mapping[str, str] = {}) -> DeviceRequest | None:
        request = super().request(container, annotations)
        if request is None:
            return None
        if not 1 <= request.cores <= WHOLE_CARD:
            raise RequestError(
                f"container {container.name!r}: {self.cores_resource}: {request.cores} is not from 1 to {WHOLE_CARD}"
            )
        return replace(request, scales=True)

    def accepts_type(self, type_: str, mode: str, annotations: Mapping[str, str]) -> bool:
        return type_allowed(type_, annotations, USE_TYPE, REFUSE_TYPE)

    def written_types(self, handover: Handover) -> dict[str, str]:
        """The model of each card, by which readers of a pod's record tell AMD's cards apart."""
        return {uuid: device.type for uuid, device in handover.devices.items()}


ENTRY = VendorEntry(
    sections=(Section("amd", CardKeys, lambda section: [Amd(**section.resources)]),),
    usual=lambda flags: [Amd()],
)
