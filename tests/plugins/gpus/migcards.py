"""Cards that are cut into MIG instances, and pods that hold some."""

import json

from tests.scenario import (
    ALLOCATED,
    gpu,
    pod,
)

PROFILES = [
    ("1g.5gb", 4864, 14, 1, [(start, 1) for start in range(7)]),
    ("2g.10gb", 9856, 28, 2, [(0, 2), (2, 2), (4, 2)]),
    ("3g.20gb", 19968, 42, 3, [(0, 4), (4, 4)]),
    ("7g.40gb", 40192, 100, 7, [(0, 8)]),
]


def mig(uuid, index=0, **more):
    profiles = [
        {
            "name": name,
            "memoryMB": memory,
            "core": cores,
            "sliceCount": slices,
            "placements": [{"start": start, "size": size} for start, size in places],
        }
        for name, memory, cores, slices, places in PROFILES
    ]
    return gpu(uuid, index=index, count=7, memory=40960, mode="mig", migProfiles=profiles, **more)


def holder(name, uuid, start, size, profile="1g.5gb", memory=4864, cores=14):
    """A running pod with one instance."""
    entry = {
        "containerIndex": 0,
        "deviceIndex": 0,
        "gpuUUID": uuid,
        "profile": profile,
        "placement": {"start": start, "size": size},
    }
    notes = {
        ALLOCATED: f"{uuid},NVIDIA,{memory},{cores}:;",
        "hami.io/vgpu-mig-allocations": json.dumps([entry]),
    }
    return pod(name, 1, on="a", annotations=notes)
