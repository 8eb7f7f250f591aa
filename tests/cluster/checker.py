"""Reads the API server's objects alone and finds what must never be: a card over its slots, memory or cores.

It shares nothing with the code it judges: annotations are taken apart here by their published form.
"""

import json
from collections import defaultdict
from typing import Any

from tonnage.lab.api import Api

RECORDS = {
    "hami.io/vgpu-devices-allocated": ("nvidia.com/gpu", ["hami.io/node-nvidia-register"]),
    "hami.io/dcu-devices-allocated": ("hygon.com/dcunum", ["hami.io/node-dcu-register"]),
    "hami.io/Ascend910B3-devices-allocated": ("huawei.com/Ascend910B3", ["hami.io/node-register-Ascend910B3"]),
}
"""Per record on pods: the resource that counts cards, and where nodes register them."""

Used = defaultdict[tuple[str, str], list[int]]
"""Slots, memory and cores in use, by node and card."""


def findings(api: Api) -> list[str]:
    """Everything that is wrong with placements; empty if nothing is."""
    nodes, pods = api.get("/api/v1/nodes")["items"], api.get("/api/v1/pods")["items"]
    wrong: list[str] = []
    for record, (resource, registers) in RECORDS.items():
        cards = {node["metadata"]["name"]: _cards(node, registers) for node in nodes}
        used: Used = defaultdict(lambda: [0, 0, 0])
        for pod in pods:
            if _holds(pod):
                wrong += _count(pod, record, resource, cards, used)
        for (node, uuid), sums in used.items():
            for kind, taken, there in zip(("slots", "memory", "cores"), sums, cards[node][uuid], strict=True):
                if taken > there:
                    wrong.append(f"{node}: {uuid} has {taken} of {there} {kind} in use")
    return wrong


def overlooked(api: Api, scheduler: str) -> list[str]:
    """Waiting pods of a scheduler that would fit: for each container there are enough NVIDIA cards on some node."""
    nodes, pods = api.get("/api/v1/nodes")["items"], api.get("/api/v1/pods")["items"]
    record = "hami.io/vgpu-devices-allocated"
    resource, registers = RECORDS[record]
    cards = {node["metadata"]["name"]: _cards(node, registers) for node in nodes}
    used: Used = defaultdict(lambda: [0, 0, 0])
    for pod in pods:
        if _holds(pod):
            _count(pod, record, resource, cards, used)
    found: list[str] = []
    for pod in pods:
        if pod["spec"].get("nodeName") or pod["spec"].get("schedulerName") != scheduler:
            continue
        (container,) = pod["spec"]["containers"]
        limits = container["resources"]["limits"]
        count, memory, cores = (
            _number(limits.get(f"nvidia.com/{kind}", "0")) for kind in ("gpu", "gpumem", "gpucores")
        )
        for node, there in cards.items():
            fitting = [
                uuid
                for uuid, total in there.items()
                if all(u + w <= t for u, w, t in zip(used[node, uuid], (1, memory, cores), total, strict=True))
            ]
            if len(fitting) >= count:
                found.append(f"{pod['metadata']['name']} waits and would fit on {node}: {', '.join(fitting)}")
                break
    return found


def _number(quantity: str) -> int:
    """A whole number as the API server writes it: 3000 becomes `3k`."""
    return int(quantity.replace("k", "000"))


def _holds(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _count(
    pod: dict[str, Any], record: str, resource: str, cards: dict[str, dict[str, tuple[int, int, int]]], used: Used
) -> list[str]:
    """Add what a pod holds; the result is what is wrong with it."""
    wrong: list[str] = []
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    wanted = _wanted(pod, resource)
    given = _given(pod["metadata"].get("annotations", {}).get(record, ""))
    if sum(wanted) and len(given) != len(wanted):
        wrong.append(f"{name}: {len(wanted)} containers, {len(given)} in {record}")
    for position, (count, devices) in enumerate(zip(wanted, given, strict=False)):
        if count != len(devices):
            wrong.append(f"{name}: container {position} asks for {count} cards and has {len(devices)}")
        for uuid, memory, cores in devices:
            if node not in cards or uuid not in cards[node]:
                wrong.append(f"{name}: {uuid} is no card of {node}")
                continue
            sums = used[node, uuid]
            sums[0], sums[1], sums[2] = sums[0] + 1, sums[1] + memory, sums[2] + cores
    return wrong


def _wanted(pod: dict[str, Any], resource: str) -> list[int]:
    containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
    return [int(one.get("resources", {}).get("limits", {}).get(resource, 0)) for one in containers]


def _given(text: str) -> list[list[tuple[str, int, int]]]:
    """Per container the cards with memory and cores: `uuid,type,memory,cores:` for each, `;` after each container."""
    containers = text.split(";")[:-1]
    fields = [[device.split(",") for device in one.split(":") if device] for one in containers]
    return [[(f[0], int(f[2]), int(f[3])) for f in one] for one in fields]


def _cards(node: dict[str, Any], registers: list[str]) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for register in registers:
        text = node["metadata"].get("annotations", {}).get(register, "")
        if text.startswith("["):
            for card in json.loads(text):
                found[card["id"]] = (card["count"], card["devmem"], card["devcore"])
        else:
            for card in text.split(":"):
                if card:
                    uuid, count, memory, cores, *_ = card.split(",")
                    found[uuid] = (int(count), int(memory), int(cores))
    return found
