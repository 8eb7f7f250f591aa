"""Whatever a cluster holds, every vendor answers or raises its own error, never anything else."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.devices.objects import container, node, pod
from tests.properties.worlds import examples
from tonnage.devices.base import AdmissionError, DecodeError, RequestError
from tonnage.devices.catalog import default_vendors
from tonnage.devices.nvidia import MIG_ALLOCATIONS

VENDORS = default_vendors()
each_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
a_few = settings(max_examples=examples(40))

REGISTRATIONS = (
    "GPU-0055,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:GPU-0fc3,10,32768,100,P4,-1,false,1,mig:",
    '[{"id":"GPU-0","index":1,"count":5,"devmem":8192,"devcore":100,"type":"P4","numa":1,"mode":"mig","health":true,'
    '"migProfiles":[{"name":"1g.5gb","memoryMB":4864,"core":15,"sliceCount":1,"placements":[{"start":6,"size":1}]}],'
    '"custominfo":{"NetworkID":3}}]',
    '[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20}}]',
    '[{"uuid":"GPU-0","totalDevCount":16,"totalCompute":100,"totalVRam":32768,"numa":1,"healthy":true,"linkZone":2}]',
    '{"devices":[{"index":"0","minor":"0","capacity":6}],"profiles":{"1g.6gb":"0","3g.20gb":"1"}}',
)
RECORDS = ("GPU-0,NVIDIA,500,3:GPU-1[7-9],NVIDIA,500,3:;,,0,0:;;",)
INSTANCES = (
    '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-0","profile":"1g.5gb","placement":{"start":6,"size":1}}]',
)


@st.composite
def damaged(draw, texts):
    """A valid text with a few characters replaced, removed, doubled or added."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 3)))
        filling = st.sampled_from([",", ":", ";", "[", "]", "{", "}", '"', "-", "9" * 12, "null", "1e999", "\ud800"])
        text = text[:start] + draw(filling | st.text(max_size=3) | st.just(text[start:] * 2)) + text[end:]
    return text


QUANTITIES = (
    st.sampled_from(["1", "2", "100", "0", "-1", "16Gi", "500m", "1e400", "1E", "1e-400", "٣", ""])
    | st.text(max_size=8)
    | st.integers()
    | st.floats()
)


def annotated(keys, texts):
    return st.fixed_dictionaries({}, optional=dict.fromkeys(keys, st.text() | damaged(texts)))


@each_vendor
@a_few
@given(data=st.data())
def test_any_node_is_read_or_refused(vendor, data):
    annotations = data.draw(annotated(vendor.register_annotations, REGISTRATIONS))
    resources = (vendor.count_resource, *vendor.side_resources)
    capacity = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(resources, QUANTITIES)))
    read = node(annotations, capacity=capacity)
    with suppress(DecodeError):
        for device in vendor.devices(read):
            assert device.uuid
            assert min(device.count, device.memory, device.cores, device.index) >= 0
            hash(device)
    with suppress(DecodeError):
        vendor.pair_scores(read)
    vendor.cordoned(read)


@each_vendor
@a_few
@given(data=st.data())
def test_any_record_is_read_or_refused(vendor, data):
    annotations = data.draw(annotated((vendor.allocated, vendor.to_allocate), RECORDS))
    annotations |= data.draw(annotated((MIG_ALLOCATIONS,), INSTANCES))
    bound = pod(annotations, init=data.draw(st.integers(0, 2)), containers=data.draw(st.integers(0, 3)))
    with suppress(DecodeError):
        for use in (use for given in vendor.decode_pod(bound) or () for use in given):
            assert use.uuid
            assert min(use.memory, use.cores) >= 0


@each_vendor
@a_few
@given(data=st.data())
def test_any_container_is_understood_or_refused(vendor, data):
    resources = (vendor.count_resource, *vendor.side_resources)
    quantities = st.none() | st.fixed_dictionaries({}, optional=dict.fromkeys(resources, QUANTITIES))
    asking = container(data.draw(quantities), requests=data.draw(quantities), name=data.draw(st.text(max_size=5)))
    request = None
    with suppress(RequestError):
        request = vendor.request(asking)
    with suppress(AdmissionError):
        admission = vendor.admit(asking)
        assert admission.matched == (request is not None)
    if request is not None:
        assert request.count > 0
        assert 0 <= request.memory_on(80000) <= max(80000, request.memory)


@each_vendor
@a_few
@given(data=st.data())
def test_any_annotation_of_a_pod_is_understood(vendor, data):
    annotations = data.draw(annotated(vendor.policy_annotations, ("A100,V100", "true", "mig")))
    assert vendor.accepts_type("P4", "mig", annotations) in (True, False)
    assert vendor.wants_one_numa(annotations) in (True, False)
    wanted, refused = vendor.uuid_lists(annotations)
    assert wanted is None or isinstance(wanted, frozenset)
    assert isinstance(refused, frozenset)
