"""Choosing MIG instances, and the annotation that records them."""

import pytest

from tonnage.devices import _mig as mig
from tonnage.devices.base import DecodeError, DeviceUse, MigPlacement, MigProfile


def profile(name, memory, slices, size, starts):
    return MigProfile(name, memory, 14 * slices, slices, tuple(MigPlacement(start, size) for start in starts))


A100 = (
    profile("3g.20gb", 19968, 3, 4, (0, 4)),
    profile("1g.5gb", 4864, 1, 1, range(7)),
    profile("2g.10gb", 9856, 2, 2, (0, 2, 4)),
)


def place(memories, profiles=A100):
    taken, chosen = [], []
    for memory in memories:
        answer = mig.choose(profiles, memory, taken)
        if answer is None:
            chosen.append(None)
            continue
        taken.append(answer[1])
        chosen.append((answer[0].name, answer[1].start))
    return chosen


def test_instances_are_packed_so_that_a_balanced_geometry_fits():
    assert place([19968, 9856, 4864, 4864]) == [("3g.20gb", 4), ("2g.10gb", 0), ("1g.5gb", 3), ("1g.5gb", 2)]


def test_a_fourth_middle_instance_is_rejected():
    assert place([9856] * 4, (A100[2],)) == [("2g.10gb", 0), ("2g.10gb", 2), ("2g.10gb", 4), None]


def test_the_smallest_profile_with_enough_memory_serves():
    assert place([1]) == [("1g.5gb", 6)]
    assert place([4865]) == [("2g.10gb", 0)]
    assert place([40000]) == [None]


def test_a_larger_profile_serves_when_the_smaller_ones_have_no_place():
    card = (profile("1g.5gb", 4864, 1, 1, (0,)), profile("2g.10gb", 9856, 2, 2, (2,)))
    assert place([4000, 4000, 4000], card) == [("1g.5gb", 0), ("2g.10gb", 2), None]


def test_two_large_instances_leave_no_place():
    assert place([19968, 19968, 4864]) == [("3g.20gb", 4), ("3g.20gb", 0), None]


TEXT = '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-0","profile":"1g.5gb","placement":{"start":6,"size":1}}]'
PLAIN = ((), (DeviceUse("GPU-0", 4864, 14), DeviceUse("GPU-1", 5, 5)))
PLACED = ((), (DeviceUse("GPU-0", 4864, 14, "1g.5gb", MigPlacement(6, 1)), DeviceUse("GPU-1", 5, 5)))


def test_only_instances_are_recorded():
    assert mig.encode_allocations(PLACED) == TEXT
    assert mig.encode_allocations(PLAIN) == ""


def test_a_record_is_completed_by_its_instances():
    assert mig.with_allocations(PLAIN, TEXT) == PLACED


def test_what_the_device_plugin_adds_is_tolerated():
    text = TEXT.replace("}}]", '},"migUUID":"MIG-1","gpuInstanceID":3,"computeInstanceID":0}]')
    assert mig.with_allocations(PLAIN, text) == PLACED


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("{}", "", "Expected `array`"),
        ("[{}]", "instance 1", "missing required field"),
        (TEXT.replace("GPU-0", ""), "instance 1, gpuUUID", "length >= 1"),
        (TEXT.replace('"size":1', '"size":0'), "instance 1, placement.size", ">= 1"),
        (TEXT.replace('"containerIndex":1', '"containerIndex":-1'), "instance 1, containerIndex", ">= 0"),
        (TEXT.replace('"containerIndex":1', '"containerIndex":2'), "instance 1", "is no device, not GPU-0"),
        (TEXT.replace('"deviceIndex":0', '"deviceIndex":1'), "instance 1", "is GPU-1, not GPU-0"),
        (TEXT.replace('"deviceIndex":0', '"deviceIndex":2'), "instance 1", "is no device, not GPU-0"),
        (f"{TEXT[:-1]},{TEXT[1:]}", "instance 2", "container 1, device 0 again"),
    ],
)
def test_an_annotation_that_does_not_match_the_record_is_refused(text, position, message):
    with pytest.raises(DecodeError) as caught:
        mig.with_allocations(PLAIN, text)
    assert caught.value.position == position
    assert message in caught.value.message
    assert caught.value.expected
