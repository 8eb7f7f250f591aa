"""The kubelet's messages on the wire, against bytes of the protocol's own encoder."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.agent.kubelet.checkpoint import CheckpointEntry, decode_checkpoint, read_checkpoint
from tonnage.agent.kubelet.messages import (
    AllocateResponse,
    CdiDevice,
    ContainerResponse,
    DeviceList,
    DeviceSpec,
    Mount,
    NumaNode,
    OfferedDevice,
    PodResourcesList,
    PreferenceQuestion,
    PreferredAllocationRequest,
    TopologyInfo,
)
from tonnage.agent.kubelet.protobuf import ProtobufError, decode, encode

texts = st.text(max_size=20)
responses = st.builds(
    ContainerResponse,
    envs=st.dictionaries(texts, texts, max_size=3),
    mounts=st.lists(st.builds(Mount, texts, texts, st.booleans()), max_size=3).map(tuple),
    devices=st.lists(st.builds(DeviceSpec, texts, texts, texts), max_size=2).map(tuple),
    annotations=st.dictionaries(texts, texts, max_size=3),
    cdi_devices=st.lists(st.builds(CdiDevice, texts), max_size=2).map(tuple),
)


def test_a_list_of_devices_is_written_as_the_protocol_says() -> None:
    device = OfferedDevice("a-0", "Healthy", TopologyInfo((NumaNode(1),)))
    expected = "0a14 0a03 612d30 1207 4865616c746879 1a04 0a02 0801"
    assert encode(DeviceList((device,))) == bytes.fromhex(expected)
    assert decode(encode(DeviceList((device,))), DeviceList) == DeviceList((device,))


@given(responses)
def test_an_answer_reads_back_as_it_was_written(response: ContainerResponse) -> None:
    assert decode(encode(AllocateResponse((response,))), AllocateResponse) == AllocateResponse((response,))


def test_negative_and_large_numbers_survive() -> None:
    for number in (0, 1, 127, 128, 2**31 - 1, 2**63 - 1, -1):
        question = PreferredAllocationRequest((PreferenceQuestion(("a",), ("b",), number),))
        assert decode(encode(question), PreferredAllocationRequest) == question


def test_unknown_fields_of_every_type_are_skipped() -> None:
    unknown = bytes.fromhex("f801 05 f901 0102030405060708 fa01 02 6869 fd01 01020304".replace(" ", ""))
    assert decode(unknown + encode(PreferenceQuestion(size=3)), PreferenceQuestion).size == 3


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_clear_error(data: bytes) -> None:
    for kind in (PodResourcesList, PreferredAllocationRequest, AllocateResponse):
        with suppress(ProtobufError):
            decode(data, kind)


def test_a_message_that_ends_early_is_an_error() -> None:
    with pytest.raises(ProtobufError, match="ends inside a field"):
        decode(encode(OfferedDevice("abc", "Healthy"))[:-1], OfferedDevice)


CHECKPOINT = b"""{"Data": {"PodDeviceEntries": [
  {"PodUID": "u1", "ContainerName": "c", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": ["a", "b"], "0": ["c"]}},
  {"PodUID": "u2", "ContainerName": "c", "ResourceName": "other", "DeviceIDs": null}],
  "RegisteredDevices": {}}, "Checksum": 1}"""


def test_the_checkpoint_names_containers_by_uid() -> None:
    assert decode_checkpoint(CHECKPOINT, "nvidia.com/gpu") == (CheckpointEntry("u1", "c", frozenset("abc")),)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"Data": null}', b"\xff"])
def test_a_checkpoint_that_cannot_be_read_names_nobody(text: bytes, tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "kubelet_internal_checkpoint").write_bytes(text)
    assert read_checkpoint(tmp_path, "nvidia.com/gpu") == ()
    assert read_checkpoint(tmp_path / "nowhere", "nvidia.com/gpu") == ()
