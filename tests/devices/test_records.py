"""What any vendor writes of a pod is read back as it was, whatever the pod was given."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.devices.objects import pod
from tests.properties.worlds import examples
from tonnage.devices.base import Device, DeviceUse, Handover
from tonnage.devices.catalog import default_vendors
from tonnage.model.pod import Container

VENDORS = default_vendors()
AMOUNTS = st.integers(0, 2**31 - 1)
UUIDS = [f"GPU-{number:02}" for number in range(6)]
CARDS = {
    uuid: Device(uuid, index, 4, 65536, 100, "a model", custom=(("minor", str(index)),))
    for index, uuid in enumerate(UUIDS)
}
USES = st.builds(DeviceUse, st.sampled_from(UUIDS), AMOUNTS, AMOUNTS)
POD_USES = st.lists(st.lists(USES, max_size=3).map(tuple), min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
@settings(max_examples=examples(40))
@given(uses=POD_USES, cards=st.lists(st.text(max_size=8), min_size=len(UUIDS), max_size=len(UUIDS)), init=st.booleans())
def test_a_record_is_read_as_it_was_written(vendor, uses, cards, init):
    devices = {uuid: replace(CARDS[uuid], type=type_) for uuid, type_ in zip(UUIDS, cards, strict=True)}
    numbers = count()
    containers = tuple(Container(f"c{next(numbers)}") for _ in uses)
    written = vendor.encode_pod(uses, Handover("node", devices, containers, 1))
    if not any(uses):
        assert written == {}
        return
    first = 1 if init and len(uses) > 1 else 0
    assert vendor.decode_pod(pod(written, containers=len(uses) - first, init=first)) == uses
    assert (vendor.to_allocate in written) == bool(vendor.to_allocate)
    assert all(isinstance(text, str) for text in written.values())
