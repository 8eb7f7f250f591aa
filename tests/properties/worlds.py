"""Random clusters: nodes of several vendors with all their troubles, and pods that run, wait or make no sense.

Values come from small pools, so that ties, full cards and classes of identical pods occur often.
"""

import json
import os
from typing import Any

from hypothesis import Phase
from hypothesis import strategies as st

from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node, NodeSpec, NodeStatus
from tonnage.model.pod import Container, Pod, PodSpec, ReportedPodStatus, ResourceRequirements
from tonnage.model.selection import (
    Affinity,
    Expression,
    NodeAffinity,
    NodeSelector,
    SelectorTerm,
    Taint,
    Toleration,
)

NODES = ["n0", "n1", "n2", "n10"]
UNKNOWN_NODE = "elsewhere"
PODS = [f"p{number}" for number in range(8)]
TYPES = ["NVIDIA A100-SXM4-40GB", "NVIDIA-Tesla V100-PCIE-32GB", "NVIDIA A10"]
PROFILES = [
    {
        "name": "1g.5gb",
        "memoryMB": 1000,
        "core": 14,
        "sliceCount": 1,
        "placements": [{"start": start, "size": 1} for start in range(7)],
    },
    {
        "name": "2g.10gb",
        "memoryMB": 2000,
        "core": 28,
        "sliceCount": 2,
        "placements": [{"start": start, "size": 2} for start in (0, 2, 4)],
    },
    {
        "name": "3g.20gb",
        "memoryMB": 4000,
        "core": 42,
        "sliceCount": 3,
        "placements": [{"start": start, "size": 4} for start in (0, 4)],
    },
]


def examples(number: int) -> int:
    """How many examples a test runs; TONNAGE_EXAMPLES multiplies them."""
    return max(1, int(number * float(os.environ.get("TONNAGE_EXAMPLES", "1"))))


def phases() -> list[Phase]:
    """Shrinking a failing history takes minutes, so it is left out unless TONNAGE_SHRINK is set."""
    without = [] if os.environ.get("TONNAGE_SHRINK") else [Phase.shrink, Phase.explain]
    return [phase for phase in Phase if phase not in without]


def rarely(common: Any, *rare: Any) -> st.SearchStrategy[Any]:
    """Mostly the first value, so that a world with many such choices still has room for pods."""
    return st.sampled_from([common] * 12 + list(rare))


def uuid_of(node: str, vendor: str, position: int) -> str:
    return f"{vendor}-{node}-{position}"


@st.composite
def nvidia_cards(draw: st.DrawFn, name: str) -> list[dict[str, object]]:
    cards: list[dict[str, object]] = []
    for position in range(draw(st.sampled_from([4, 3, 2, 1, 0]))):
        card: dict[str, object] = {
            "id": draw(rarely(uuid_of(name, "GPU", position), "GPU-twice")),
            "index": draw(rarely(position, 0)),
            "count": draw(st.sampled_from([10, 10, 3, 2, 1, 0])),
            "devmem": draw(st.sampled_from([8000, 8000, 8000, 4000, 0])),
            "devcore": draw(rarely(100, 0, 200)),
            "type": draw(st.sampled_from(TYPES)),
            "numa": draw(st.sampled_from([0, 1])),
            "health": draw(rarely(True, False)),
        }
        mode = draw(st.sampled_from(["hami-core", "hami-core", "", "mig"]))
        if mode:
            card["mode"] = mode
        if mode == "mig":
            card |= {"migProfiles": PROFILES, "count": 7, "devmem": 8000}
        cards.append(card)
    return cards


def _registrations(draw: st.DrawFn, name: str) -> dict[str, str]:
    # HAMi has been on every node, so that none has plain cards, whose holders depend on history.
    notes: dict[str, str] = {"hami.io/node-handshake": "Requesting_2026-01-01 00:00:00"}
    cards = draw(nvidia_cards(name))
    if cards:
        text = json.dumps(cards)
        notes["hami.io/node-nvidia-register"] = draw(rarely(text, text[:-4], "GPU-0,1,"))
        uuids = [str(card["id"]) for card in cards]
        if draw(rarely(False, True)):
            notes["hami.io/device-cordon"] = ",".join(draw(st.lists(st.sampled_from(uuids), max_size=2)))
        if draw(st.booleans()):
            links = st.dictionaries(st.sampled_from(uuids), st.sampled_from([1, 50, 100]), max_size=4)
            scores = [{"uuid": uuid, "score": draw(links)} for uuid in uuids]
            notes["hami.io/node-nvidia-score"] = draw(rarely(json.dumps(scores), "[{}]"))
    if draw(st.booleans()):
        notes["hami.io/node-dcu-register"] = "".join(
            f"{uuid_of(name, 'DCU', position)},4,16000,100,DCU-Z100,{position % 2},true:" for position in range(2)
        )
    for key in ("hami.io/node-handshake", "hami.io/node-handshake-dcu"):
        said = draw(rarely("", "Requesting_2026-01-01 00:00:00", "Deleted_2026-01-01 00:00:00"))
        if said:
            notes[key] = said
    chip = draw(st.sampled_from(["", "Ascend910B3", "Ascend910C"]))
    if chip:
        notes[f"hami.io/node-register-{chip}"] = json.dumps(
            [
                {
                    "id": uuid_of(name, "NPU", position),
                    "index": position,
                    "count": 3,
                    "devmem": 65536,
                    "devcore": 100,
                    "type": chip,
                    "health": True,
                    "custominfo": {"NetworkID": position % 2},
                }
                for position in range(4)
            ]
        )
    return notes


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from(NODES))
    notes = _registrations(draw, name)
    labels = {"zone": draw(st.sampled_from("ab")), "generation": draw(st.sampled_from(["7", "8", "new"]))}
    taints = draw(rarely(None, [Taint("gpu", "NoSchedule", "yes")], [Taint("soft", "PreferNoSchedule")]))
    offers: dict[str, str | int | float] = {
        "cpu": draw(rarely("16", "2", "-1")),
        "memory": "64Gi",
        "pods": draw(rarely("110", "2")),
    }
    limit = draw(rarely(None, 1, 3, 0))
    if limit is not None:
        offers["nvidia.com/gpu"] = limit
    if draw(rarely(False, True)):
        offers["example.com/fpga"] = draw(st.sampled_from(["2", "rubbish"]))
    capacity = dict(offers)
    if draw(st.booleans()):
        capacity |= {"cambricon.com/mlu.smlu.vcore": 200, "cambricon.com/mlu.smlu.vmemory": 64}
    return Node(
        ObjectMeta(name, labels=draw(rarely(labels, None)), annotations=notes),
        NodeSpec(unschedulable=draw(rarely(None, True)), taints=taints),
        NodeStatus(capacity, offers),
    )


def wants() -> st.SearchStrategy[dict[str, str | int | float]]:
    """A container's limits: mostly some NVIDIA cards, sometimes others, several vendors, none, or nonsense."""
    nvidia = st.fixed_dictionaries(
        {"nvidia.com/gpu": st.sampled_from([1, 2, 3, 0])},
        optional={
            "nvidia.com/gpumem": st.sampled_from([1000, 4000, 8000, 9000, "1Gi"]),
            "nvidia.com/gpumem-percentage": st.sampled_from([50, 100]),
            "nvidia.com/gpucores": st.sampled_from([0, 30, 50, 100, 120]),
        },
    )
    shared = st.fixed_dictionaries(
        {"nvidia.com/gpu": st.sampled_from([1, 1, 2]), "nvidia.com/gpumem": st.sampled_from([1000, 2000, 4000])},
        optional={"nvidia.com/gpucores": st.sampled_from([0, 30, 50, 100])},
    )
    others = st.sampled_from(
        [
            {},
            {"hygon.com/dcunum": 1, "hygon.com/dcumem": 4000, "hygon.com/dcucores": 30},
            {"hygon.com/dcunum": 2},
            {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "hygon.com/dcunum": 1, "hygon.com/dcumem": 1000},
            {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 16384},
            {"huawei.com/Ascend910B3": 3},
            {"huawei.com/Ascend910C": 2},
            {"cambricon.com/vmlu": 1, "cambricon.com/mlu.smlu.vmemory": 8, "cambricon.com/mlu.smlu.vcore": 20},
            {"example.com/fpga": 1},
            {"nvidia.com/gpumem": 2000},
            {"nvidia.com/gpu": -1},
        ]
    )
    kinds = st.sampled_from("sssnoo")
    cards = kinds.flatmap(lambda kind: {"s": shared, "n": nvidia, "o": others}[kind])
    plain = st.sampled_from([{}, {}, {"cpu": "1"}, {"cpu": "500m", "memory": "1Gi"}])
    return st.tuples(cards, plain).map(lambda parts: {**parts[0], **parts[1]})


@st.composite
def containers(draw: st.DrawFn, name: str, init: bool = False) -> Container:
    policy = draw(st.sampled_from([None, "Always"])) if init else None
    return Container(name, ResourceRequirements(limits=draw(wants())), restartPolicy=policy)


def wishes() -> st.SearchStrategy[dict[str, str]]:
    """Annotations by which a pod says which cards it likes."""
    known = [uuid_of(node, "GPU", position) for node in NODES[:2] for position in range(2)]
    return st.fixed_dictionaries(
        {},
        optional={
            "hami.io/node-scheduler-policy": st.sampled_from(["spread", "binpack", "other"]),
            "hami.io/gpu-scheduler-policy": st.sampled_from(
                ["binpack", "spread", "mutex", "numa", "topology-aware", "binpack,numa", "numa,spread", "mutex,binpack"]
            ),
            "hami.io/device-scoring-weights": rarely("slot=0,core=1,memory=3", "slot=1", "slot=1,core=0,memory=0"),
            "nvidia.com/use-gputype": st.sampled_from(["A100", "A10", "v100,", ""]),
            "nvidia.com/nouse-gputype": st.sampled_from(["A100", "V100", ","]),
            "nvidia.com/use-gpuuuid": st.sampled_from([known[0], ", ".join(known), "", "nobody"]),
            "nvidia.com/nouse-gpuuuid": st.sampled_from([known[1], ""]),
            "nvidia.com/numa-bind": st.sampled_from(["true", "false", "perhaps"]),
            "nvidia.com/vgpu-mode": st.sampled_from(["hami-core", "mig", ""]),
        },
    ).flatmap(_some_of)


def _some_of(every: dict[str, str]) -> st.SearchStrategy[dict[str, str]]:
    """None, one, or few of the annotations: many at once leave no card that will do."""
    chosen = st.lists(st.sampled_from(sorted(every)), max_size=2, unique=True) if every else st.just([])
    return chosen.map(lambda keys: {key: every[key] for key in keys})


def affinities() -> st.SearchStrategy[Affinity | None]:
    expressions = [
        Expression("zone", "In", ["a", "c"]),
        Expression("zone", "NotIn", ["a"]),
        Expression("generation", "Gt", ["7"]),
        Expression("generation", "Lt", ["8"]),
        Expression("gone", "DoesNotExist"),
        Expression("zone", "Exists"),
        Expression("zone", "Near", ["a"]),
    ]
    named = SelectorTerm(matchFields=[Expression("metadata.name", "In", ["n1", "n10"])])
    terms = st.lists(st.sampled_from(expressions), max_size=2).map(lambda found: SelectorTerm(found))
    several = st.lists(st.one_of(terms, st.just(named)), max_size=2)
    required = several.map(lambda found: Affinity(NodeAffinity(NodeSelector(found))))
    return st.sampled_from("nnnnnnnnnr").flatmap(lambda kind: required if kind == "r" else st.none())


@st.composite
def pods(draw: st.DrawFn, name: str | None = None) -> Pod:
    """A pod that waits."""
    inits = [draw(containers(f"i{i}", init=True)) for i in range(draw(st.sampled_from([0, 0, 0, 0, 1, 2])))]
    mains = [draw(containers(f"c{i}")) for i in range(draw(st.sampled_from([1, 1, 1, 1, 2, 3])))]
    return Pod(
        ObjectMeta(name or draw(st.sampled_from(PODS)), annotations=draw(wishes())),
        PodSpec(
            containers=mains,
            initContainers=inits or None,
            nodeSelector=draw(rarely(None, {"zone": "a"}, {"zone": "b", "generation": "8"})),
            affinity=draw(affinities()),
            tolerations=draw(rarely(None, [Toleration("gpu", "Exists")], [Toleration(operator="Exists")])),
        ),
        ReportedPodStatus("Pending"),
    )


def _record(draw: st.DrawFn, node: str, containers: int) -> dict[str, str]:
    """What a running pod's annotations say, which may be more than there is, or about unknown cards, or unreadable."""
    kind = draw(st.sampled_from(["GPU", "GPU", "GPU", "DCU", "NPU"]))
    key = {
        "GPU": "hami.io/vgpu-devices-allocated",
        "DCU": "hami.io/dcu-devices-allocated",
        "NPU": "hami.io/Ascend910B3-devices-allocated",
    }[kind]
    text = ""
    for _ in range(draw(rarely(containers, 1, containers + 1))):
        for position in draw(st.lists(st.integers(0, 4), max_size=2)):
            memory, cores = draw(st.sampled_from([500, 2000, 4000])), draw(st.sampled_from([0, 10, 50, 100]))
            text += f"{uuid_of(node, kind, position)},{kind},{memory},{cores}:"
        text += ";"
    return {key: draw(rarely(text, "rubbish,1:;", ""))}


@st.composite
def running_pods(draw: st.DrawFn) -> Pod:
    """A pod on some node, known or not, placed by whoever."""
    waiting = draw(pods())
    node = draw(rarely(draw(st.sampled_from(NODES)), UNKNOWN_NODE))
    count = len(waiting.spec.containers) + len(waiting.spec.initContainers or ())
    notes = dict(waiting.annotations)
    if draw(rarely(True, False)):
        notes |= _record(draw, node, count)
    deleted = draw(rarely(None, "2026-01-01T00:00:00Z"))
    spec = waiting.spec
    return Pod(
        ObjectMeta(waiting.metadata.name, annotations=notes, deletionTimestamp=deleted),
        PodSpec(spec.containers, spec.initContainers, node, spec.nodeSelector, spec.affinity, spec.tolerations),
        ReportedPodStatus(draw(rarely("Running", "Pending", "Succeeded"))),
    )


POLICIES = st.fixed_dictionaries(
    {
        "node_policy": st.sampled_from(["binpack", "spread"]),
        "gpu_policy": st.sampled_from(["spread", "binpack", "mutex", "topology-aware", "numa,binpack"]),
        "numa_order": st.sampled_from(["tie", "first"]),
    }
)
