"""Reads the API server's objects alone and finds what must never be: cards or nodes with more on them than they have.

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
    return overfull(api.get("/api/v1/nodes")["items"], api.get("/api/v1/pods")["items"])


def overfull(nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> list[str]:
    """The same for these nodes and pods."""
    wrong = _over_allocatable(nodes, pods)
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


def half_bound(pods: list[dict[str, Any]], groups: list[dict[str, Any]]) -> list[str]:
    """Gangs of which some pods have a node, and fewer than the gang needs."""
    found: list[str] = []
    for group in groups:
        name, least = group["metadata"]["name"], group["spec"]["minMember"]
        bound = [pod for pod in pods if _group(pod) == name and _holds(pod)]
        if 0 < len(bound) < least:
            found.append(f"{name} needs {least} pods and {len(bound)} are bound")
    return found


def startable(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], groups: list[dict[str, Any]]) -> list[str]:
    """Waiting pods, and gangs that have too few, for which there is room, found by trying one node after another."""
    least = {group["metadata"]["name"]: group["spec"]["minMember"] for group in groups}
    found: list[str] = []
    jobs: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for pod in pods:
        jobs[_group(pod) or pod["metadata"]["name"]].append(pod)
    for job, members in jobs.items():
        waiting = [pod for pod in members if not pod["spec"].get("nodeName")]
        if not waiting or (_group(waiting[0]) and job not in least):
            continue
        needed = max(1, least.get(job, 1) - (len(members) - len(waiting)))
        if needed > len(waiting):
            continue
        room = _Room(nodes, pods)
        places = [room.take(pod) for pod in waiting[:needed]]
        if all(places):
            found.append(f"{job} waits and would fit on {', '.join(places)}{_said(waiting[0])}")
    return found


def _said(pod: dict[str, Any]) -> str:
    """What the scheduler says about a waiting pod, so that a finding tells who of the two is wrong."""
    conditions = pod.get("status", {}).get("conditions", ())
    said = [one.get("message", "") for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    return f"; the scheduler says: {said[0]}" if said and said[0] else ""


def _group(pod: dict[str, Any]) -> str:
    name: str = pod["metadata"].get("annotations", {}).get("pod-group-name", "")
    return name


class _Room:
    """What is free on NVIDIA cards: shared ones by card, others by their number."""

    def __init__(self, nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> None:
        record = "hami.io/vgpu-devices-allocated"
        self._resource, registers = RECORDS[record]
        names = {node["metadata"]["name"]: node for node in nodes}
        self._cards = {name: _cards(node, registers) for name, node in names.items()}
        self._used: Used = defaultdict(lambda: [0, 0, 0])
        self._whole = {
            name: int(node["status"].get("allocatable", {}).get(self._resource, 0))
            for name, node in names.items()
            if not self._cards[name]
        }
        for pod in pods:
            if _holds(pod):
                _count(pod, record, self._resource, self._cards, self._used)
                if pod["spec"]["nodeName"] in self._whole:
                    self._whole[pod["spec"]["nodeName"]] -= sum(_wanted(pod, self._resource))

    def take(self, pod: dict[str, Any]) -> str:
        """Put a pod of one container on the first node that has room for it; no node if none has."""
        (container,) = pod["spec"]["containers"]
        limits = container["resources"]["limits"]
        count, memory, cores = (
            _number(limits.get(f"nvidia.com/{kind}", "0")) for kind in ("gpu", "gpumem", "gpucores")
        )
        if not memory:
            for node, free in self._whole.items():
                if free >= count:
                    self._whole[node] -= count
                    return node
        for node, there in self._cards.items():
            fitting = [
                uuid
                for uuid, total in there.items()
                if all(
                    used + asked <= most
                    for used, asked, most in zip(
                        self._used[node, uuid], (1, memory or total[1], cores), total, strict=True
                    )
                )
            ]
            if there and len(fitting) >= count:
                for uuid in fitting[:count]:
                    asks = (1, memory or there[uuid][1], cores)
                    self._used[node, uuid] = [u + a for u, a in zip(self._used[node, uuid], asks, strict=True)]
                return node
        return ""


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
    if cards.get(node) == {} and record not in pod["metadata"].get("annotations", {}):
        # Whole cards of a node that registers none are the kubelet's to hand out.
        return wrong
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


def _over_allocatable(nodes: list[dict[str, Any]], pods: list[dict[str, Any]]) -> list[str]:
    """Nodes whose pods ask for more than they offer; pods that share cards count per card instead."""
    wrong: list[str] = []
    for node in nodes:
        name, sharing = node["metadata"]["name"], any(_cards(node, registers) for _, registers in RECORDS.values())
        offers = {kind: amount(given) for kind, given in node["status"].get("allocatable", {}).items()}
        asked: defaultdict[str, float] = defaultdict(float)
        for pod in pods:
            if _holds(pod) and pod["spec"]["nodeName"] == name:
                asked["pods"] += 1
                for container in pod["spec"]["containers"]:
                    for kind, quantity in container.get("resources", {}).get("requests", {}).items():
                        asked[kind] += amount(quantity)
        counted = {"cpu", "memory", "pods"} if sharing else offers.keys()
        wrong += [
            f"{name}: {asked[kind]:g} of {offers[kind]:g} {kind} in use"
            for kind in sorted(counted & offers.keys())
            if asked[kind] > offers[kind]
        ]
    return wrong


_UNITS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def amount(quantity: str | float) -> float:
    """A quantity as the API server writes it."""
    number = str(quantity).rstrip("kmMGKTi")
    return float(number) * _UNITS.get(str(quantity)[len(number) :], 1.0)


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
