"""Wares: for each kind of cards that HAMi knows, nodes with such cards and what a container may request of them.

Nodes come in all forms of registration: JSON, the texts of 7 and of 9 fields, vendors' own JSON, and bare capacity.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

Limits = dict[str, int]
Asks = Callable[[Random], Limits]

_NVIDIA = "hami.io/node-nvidia-register"
_ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_PROFILES = (
    ("1g.5gb", 4864, 14, 1, range(7), 1),
    ("2g.10gb", 9856, 28, 2, (0, 2, 4), 2),
    ("3g.20gb", 19968, 42, 3, (0, 4), 4),
)


class Ware(NamedTuple):
    """One kind of cards."""

    name: str
    nodes: Sequence[dict[str, Any]]
    asks: Asks
    uuids: Sequence[str]
    lists: tuple[str, ...]
    """The pod annotations that accept and refuse cards by UUID."""
    types: tuple[str, str] | None = None
    """The same by type, where the vendor has such."""
    quotas: Mapping[str, int] = {}
    """Limits of a tight quota on its memory and compute, without `limits.`."""


def machine(
    name: str, annotations: Mapping[str, str], capacity: Mapping[str, int], labels: Mapping[str, str] = {}
) -> dict[str, Any]:
    """A node that the API server accepts."""
    offers = _ROOM | {key: str(value) for key, value in capacity.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": dict(annotations),
            "labels": dict(labels),
        },
        "status": {
            "capacity": offers,
            "allocatable": offers,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _json(ids: Sequence[str], **facts: Any) -> str:
    card = {"count": 10, "devmem": 16384, "devcore": 100, "health": True} | facts
    return json.dumps([card | {"id": uuid, "index": index, "numa": index % 2} for index, uuid in enumerate(ids)])


def _text(ids: Sequence[str], type_: str, fields: int, memory: int = 16384) -> str:
    cards = [f"{uuid},10,{memory},100,{type_},{index % 2},true" for index, uuid in enumerate(ids)]
    return "".join(f"{card},{index},hami-core:" if fields == 9 else f"{card}:" for index, card in enumerate(cards))


def _named(node: str, count: int, stem: str = "") -> list[str]:
    return [f"{node}{stem}-{index}" for index in range(count)]


def _some(draw: Random, choices: Mapping[str, Sequence[int | None]]) -> Limits:
    """One value for each resource; None leaves it out."""
    picked = {name: draw.choice(values) for name, values in choices.items()}
    return {name: value for name, value in picked.items() if value is not None}


def _nvidia() -> Ware:
    nodes, uuids = [], []
    for name, type_, count in (
        ("nv-a", "NVIDIA A100-SXM4-40GB", 4),
        ("nv-b", "NVIDIA A10", 4),
        ("nv-c", "NVIDIA A100-SXM4-40GB", 2),
    ):
        ids = _named(f"GPU-{name}", count)
        pairs = [
            {"uuid": a, "score": {b: 10 * (i + j) for j, b in enumerate(ids) if a != b}} for i, a in enumerate(ids)
        ]
        notes = {_NVIDIA: _json(ids, type=type_, mode="hami-core"), "hami.io/node-nvidia-score": json.dumps(pairs)}
        nodes.append(machine(name, notes, {"nvidia.com/gpu": 10 * count}))
        uuids += ids
    sick = json.loads(_json(_named("GPU-nv-d", 2), type="NVIDIA T4", mode="hami-core"))
    del sick[0]["health"]
    notes = {_NVIDIA: json.dumps(sick), "hami.io/device-cordon": "GPU-nv-d-9"}
    nodes.append(machine("nv-d", notes, {"nvidia.com/gpu": 20}))

    def asks(draw: Random) -> Limits:
        return _some(
            draw,
            {
                "nvidia.com/gpu": (1, 1, 1, 2, 3),
                "nvidia.com/gpumem": (None, None, 1000, 4000, 8000, 16384),
                "nvidia.com/gpumem-percentage": (None, None, None, 25, 100),
                "nvidia.com/gpucores": (None, None, 0, 10, 30, 100),
            },
        )

    types = ("nvidia.com/use-gputype", "nvidia.com/nouse-gputype")
    lists = ("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid")
    return Ware("nvidia", nodes, asks, uuids, lists, types, {"nvidia.com/gpumem": 12000, "nvidia.com/gpucores": 60})


def _mig() -> Ware:
    profiles = [
        {
            "name": name,
            "memoryMB": memory,
            "core": cores,
            "sliceCount": slices,
            "placements": [{"start": start, "size": size} for start in starts],
        }
        for name, memory, cores, slices, starts, size in _PROFILES
    ]
    ids = _named("GPU-mig", 2)
    text = _json(ids, count=7, devmem=40960, type="NVIDIA A100-PCIE-40GB", mode="mig", migProfiles=profiles)

    def asks(draw: Random) -> Limits:
        return _some(draw, {"nvidia.com/gpu": (1, 1, 2, 3), "nvidia.com/gpumem": (1000, 4000, 9000, 15000)})

    lists = ("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid")
    return Ware("mig", [machine("mig-a", {_NVIDIA: text}, {"nvidia.com/gpu": 14})], asks, ids, lists)


def _old_nvidia() -> Ware:
    ids = [_named(f"GPU-old-{fields}", 2) for fields in (7, 9)]
    nodes = [
        machine(f"old-{fields}", {_NVIDIA: _text(cards, "NVIDIA-Tesla V100", fields)}, {"nvidia.com/gpu": 20})
        for fields, cards in zip((7, 9), ids, strict=True)
    ]

    def asks(draw: Random) -> Limits:
        return _some(draw, {"nvidia.com/gpu": (1, 2), "nvidia.com/gpumem": (1000, 8000)})

    return Ware("old-nvidia", nodes, asks, ids[0] + ids[1], ("nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"))


def _texts() -> list[Ware]:
    """Hygon and Iluvatar, which register in texts of 7 and of 9 fields."""

    def dcu(draw: Random) -> Limits:
        return _some(
            draw,
            {
                "hygon.com/dcunum": (1, 1, 2),
                "hygon.com/dcumem": (None, 2000, 8000),
                "hygon.com/dcucores": (None, 20, 60),
            },
        )

    def chip(draw: Random) -> Limits:
        return _some(
            draw,
            {
                "iluvatar.ai/MR-V100-vgpu": (1, 1, 2),
                "iluvatar.ai/MR-V100.vMem": (None, 8, 32),
                "iluvatar.ai/MR-V100.vCore": (None, 10, 50),
            },
        )

    dcus = [_named(f"DCU-{fields}", 2) for fields in (7, 9)]
    chips = [_named(f"ILU-{fields}", 2) for fields in (7, 9)]
    return [
        Ware(
            "dcu",
            [
                machine(f"dcu-{n}", {"hami.io/node-dcu-register": _text(ids, "DCU-Z100", n)}, {"hygon.com/dcunum": 20})
                for n, ids in zip((7, 9), dcus, strict=True)
            ],
            dcu,
            dcus[0] + dcus[1],
            ("hygon.com/use-gpuuuid", "hygon.com/nouse-gpuuuid"),
            ("hygon.com/use-dcutype", "hygon.com/nouse-dcutype"),
            {"hygon.com/dcumem": 9000},
        ),
        Ware(
            "iluvatar",
            [
                machine(
                    f"ilu-{n}",
                    {"hami.io/node-MR-V100-register": _text(ids, "MR-V100", n)},
                    {"iluvatar.ai/MR-V100-vgpu": 20},
                )
                for n, ids in zip((7, 9), chips, strict=True)
            ],
            chip,
            chips[0] + chips[1],
            ("hami.io/use-MR-V100-uuid", "hami.io/no-use-MR-V100-uuid"),
            quotas={"iluvatar.ai/MR-V100.vMem": 40},
        ),
    ]


def _registered(
    name: str,
    key: str,
    count_resource: str,
    asks: Asks,
    lists: tuple[str, ...],
    *,
    cards: int = 4,
    quotas: Mapping[str, int] = {},
    **facts: Any,
) -> Ware:
    """A vendor whose plugin registers JSON, on two nodes."""
    ids = [_named(f"{name.upper()}-{letter}", cards) for letter in "ab"]
    nodes = [
        machine(f"{name}-{letter}", {key: _json(uuids, **facts)}, {count_resource: 40})
        for letter, uuids in zip("ab", ids, strict=True)
    ]
    return Ware(name, nodes, asks, ids[0] + ids[1], lists, quotas=quotas)


def _counted(
    name: str,
    stem: str,
    capacity: Mapping[str, int],
    cards: int,
    asks: Asks,
    lists: tuple[str, ...],
    *,
    first: int = 0,
    quotas: Mapping[str, int] = {},
    labels: Mapping[str, str] = {},
) -> Ware:
    """A vendor whose cards follow from the capacity of a node, on two nodes."""
    nodes = [machine(f"{name}-{letter}", {}, capacity, labels) for letter in "ab"]
    uuids = [f"{name}-{letter}-{stem}-{index + first}" for letter in "ab" for index in range(cards)]
    return Ware(name, nodes, asks, uuids, lists, quotas=quotas)


def _sgpu() -> Ware:
    def cards(letter: str) -> str:
        facts = {"model": "sgpu", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 32768, "healthy": True}
        return json.dumps([facts | {"uuid": f"SGPU-{letter}-{i}", "linkZone": 1} for i in range(2)])

    nodes = [
        machine(f"sgpu-{letter}", {"metax-tech.com/node-gpu-devices": cards(letter)}, {"metax-tech.com/sgpu": 64})
        for letter in "ab"
    ]
    uuids = [f"SGPU-{letter}-{i}" for letter in "ab" for i in range(2)]
    lists = ("metax-tech.com/use-gpuuuid", "metax-tech.com/nouse-gpuuuid")

    def asks(draw: Random) -> Limits:
        return _some(
            draw,
            {
                "metax-tech.com/sgpu": (1, 1, 1, 2),
                "metax-tech.com/vmemory": (None, 4, 8),
                "metax-tech.com/vcore": (10, 10, 40, None),
            },
        )

    return Ware("sgpu", nodes, asks, uuids, lists, quotas={"metax-tech.com/vmemory": 16})


def _drs() -> Ware:
    told = {
        "devices": [{"index": str(i), "minor": str(i), "capacity": 6} for i in range(2)],
        "profiles": {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"},
    }
    nodes = [
        machine(f"drs-{letter}", {"enflame.com/gcu-drs-capacity": json.dumps(told)}, {"enflame.com/drs-gcu": 12})
        for letter in "ab"
    ]

    def asks(draw: Random) -> Limits:
        if draw.random() < 0.6:
            return {"enflame.com/drs-gcu": draw.choice((1, 2, 3, 6))}
        return _some(draw, {"enflame.com/gcu-memory": (6, 12, 40), "enflame.com/gcu-core": (None, 17, 34, 50)})

    uuids = [f"drs-{letter}-enflame-drs-{i}" for letter in "ab" for i in range(2)]
    return Ware("drs", nodes, asks, uuids, ("enflame.com/use-gpuuuid", "enflame.com/nouse-gpuuuid"))


def all_wares() -> list[Ware]:
    """Every kind of cards."""

    def choices(values: Mapping[str, Sequence[int | None]]) -> Asks:
        return lambda draw: _some(draw, values)

    def lists(domain: str, word: str = "gpuuuid") -> tuple[str, str]:
        return f"{domain}/use-{word}", f"{domain}/nouse-{word}"

    chip = "Ascend910B"
    # Whole XPUs and vXPUs heed both pairs.
    kunlun_lists = (*lists("baidu.com"), "hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid")
    return [
        _nvidia(),
        _mig(),
        _old_nvidia(),
        *_texts(),
        _registered(
            "ascend",
            f"hami.io/node-register-{chip}",
            f"huawei.com/{chip}",
            choices({"huawei.com/Ascend910B": (1, 1, 2), f"huawei.com/{chip}-memory": (None, 8000, 16384, 30000)}),
            (f"hami.io/use-{chip}-uuid", f"hami.io/no-use-{chip}-uuid"),
            devmem=65536,
            type=chip,
            quotas={f"huawei.com/{chip}-memory": 40000},
        ),
        _counted(
            "mlu",
            "cambricon-mlu",
            {"cambricon.com/vmlu": 200, "cambricon.com/mlu.smlu.vcore": 200, "cambricon.com/mlu.smlu.vmemory": 128},
            2,
            choices(
                {
                    "cambricon.com/vmlu": (1, 1, 2),
                    "cambricon.com/mlu.smlu.vmemory": (None, 8, 32),
                    "cambricon.com/mlu.smlu.vcore": (None, 10, 50),
                }
            ),
            lists("cambricon.com"),
            quotas={"cambricon.com/mlu.smlu.vmemory": 24},
        ),
        _counted(
            "mth",
            "mthreads",
            {"mthreads.com/vgpu": 200, "mthreads.com/sgpu-core": 32, "mthreads.com/sgpu-memory": 192},
            2,
            choices(
                {"mthreads.com/vgpu": (1,), "mthreads.com/sgpu-memory": (16, 32), "mthreads.com/sgpu-core": (2, 4)}
            ),
            lists("mthreads.ai"),
        ),
        _counted(
            "metax",
            "metax",
            {"metax-tech.com/gpu": 4},
            4,
            choices({"metax-tech.com/gpu": (1, 2)}),
            lists("metax-tech.com"),
        ),
        _sgpu(),
        _counted("gcu", "GCU", {"enflame.com/gcu": 4}, 4, choices({"enflame.com/gcu": (1, 2)}), lists("enflame.com")),
        _drs(),
        _counted("xpu", "kunlun", {"kunlunxin.com/xpu": 8}, 8, choices({"kunlunxin.com/xpu": (1, 2, 4)}), kunlun_lists),
        _registered(
            "vxpu",
            "hami.io/node-register-xpu",
            "kunlunxin.com/vxpu",
            choices({"kunlunxin.com/vxpu": (1, 1, 2), "kunlunxin.com/vxpu-memory": (None, 20000, 20000, 40000)}),
            kunlun_lists,
            cards=2,
            count=4,
            devmem=98304,
            type="P800",
            quotas={"kunlunxin.com/vxpu-memory": 60000},
        ),
        _counted(
            "neuron",
            "AWSNeuron",
            {"aws.amazon.com/neuron": 4, "aws.amazon.com/neuroncore": 8},
            4,
            choices({"aws.amazon.com/neuroncore": (1, 2, 4)}),
            lists("aws.amazon.com", "neuron-uuid"),
            labels={"node.kubernetes.io/instance-type": "inf2.24xlarge"},
        ),
        _registered(
            "amd",
            "hami.io/node-amd-register",
            "amd.com/gpu",
            choices({"amd.com/gpu": (1, 1, 2), "amd.com/gpumem": (None, 4096), "amd.com/gpucores": (None, 25, 50)}),
            lists("amd.com", "gpu-uuid"),
            devmem=196608,
            devcore=304,
            type="MI300X",
            quotas={"amd.com/gpumem": 10000},
        ),
        _registered(
            "vastai",
            "hami.io/node-va-register",
            "vastaitech.com/va",
            choices({"vastaitech.com/va": (1, 2)}),
            lists("vastaitech.com"),
            count=2,
            type="Vastai",
        ),
        _registered(
            "biren",
            "hami.io/node-biren-register",
            "birentech.com/gpu",
            choices({"birentech.com/gpu": (1, 2)}),
            lists("birentech.com"),
            count=1,
            type="Biren",
        ),
    ]
