"""MIG instances of a card as NVML shows them; an instance that it does not describe is left out."""

from typing import Any

import pynvml

from tonnage.agent.core.cards import MigInstance
from tonnage.devices.base import MigPlacement

_GIB = 1024


def instances_of(handle: Any) -> tuple[MigInstance, ...]:
    """The instances into which a card has been cut, in the order of their places."""
    found = []
    for number in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            found.append(_instance(handle, pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)))
        except pynvml.NVMLError:
            continue
    return tuple(sorted(found, key=lambda one: (one.placement.start, one.compute)))


def _instance(card: Any, handle: Any) -> MigInstance:
    gpu = int(pynvml.nvmlDeviceGetGpuInstanceId(handle))
    place = pynvml.nvmlGpuInstanceGetInfo(pynvml.nvmlDeviceGetGpuInstanceById(card, gpu)).placement
    size = pynvml.nvmlDeviceGetAttributes(handle)
    memory, slices = int(size.memorySizeMB), int(size.gpuInstanceSliceCount)
    return MigInstance(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        profile=f"{slices}g.{-(-memory // _GIB)}gb",
        memory=memory,
        placement=MigPlacement(int(place.start), int(place.size)),
        gpu=gpu,
        compute=int(pynvml.nvmlDeviceGetComputeInstanceId(handle)),
        slices=slices,
    )
