"""Workload: pods, whole-node requests and admission reviews, drawn from one seed."""

import copy
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from peers.hami.wares import Limits, Ware, all_wares

SCHEDULER = "hami-scheduler"
FREE, TIGHT = "free", "tight"
"""Namespaces without and with quotas on cards."""
_GPU_POLICIES = (
    "binpack",
    "spread",
    "mutex",
    "numa",
    "topology-aware",
    "binpack,numa",
    "numa,spread",
    "mutex,binpack",
    "spread,",
)
_TYPES = ("A100", "A10,T4", "Z100", ",")
_ODDITIES = ("", "node", "", "privileged", "requests", "", "memory", "env", "empty", "bare")


class Case(NamedTuple):
    """One pod, or one request about whole nodes."""

    number: int
    ware: str
    pod: dict[str, Any]
    templates: tuple[dict[str, Any], ...] = ()
    """Nodes that the request carries; none if it names the cluster's."""
    lasts: int = 0
    """For how many further cases the pod stays."""

    @property
    def name(self) -> str:
        return f"pod {self.number} ({self.ware})"

    @property
    def init_ends(self) -> bool:
        """Whether the pod's init containers end while it stays."""
        return self.number % 3 != 0


class Workload:
    """Everything that both sides are asked about."""

    def __init__(self, seed: int, wares: list[Ware] | None = None) -> None:
        self._seed = seed
        self.wares = all_wares() if wares is None else wares

    @property
    def nodes(self) -> list[dict[str, Any]]:
        return [node for ware in self.wares for node in ware.nodes]

    @property
    def quotas(self) -> list[dict[str, Any]]:
        hard = {f"limits.{name}": str(limit) for ware in self.wares for name, limit in ware.quotas.items()}
        return [
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "cards", "namespace": TIGHT},
                "spec": {"hard": hard},
            }
        ]

    def cases(self, count: int) -> Iterator[Case]:
        """Pods of all wares in turn, every fourth of NVIDIA's, and now and then a request about whole nodes."""
        draw = Random(self._seed)
        for number in range(count):
            ware = self.wares[0] if number % 4 == 0 else self.wares[(number * 3 // 4) % len(self.wares)]
            pod = self._pod(draw, ware, f"p{number}")
            templates: tuple[dict[str, Any], ...] = ()
            if number % 11 == 10:
                templates = tuple(_template(node) for node in ware.nodes)
            yield Case(number, ware.name, pod, templates, draw.choice((0, 20, 60, 150)))

    def reviews(self, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """New pods for admission, some of them odd, with a name for each."""
        draw = Random(f"{self._seed} reviews")
        for number in range(count):
            # Half of the reviews are about NVIDIA's cards, for which admission has the most rules. The others meet all
            # wares in turn, with one oddity after another.
            turn, place = divmod(number // 2, len(self.wares))
            ware, oddity = self.wares[0], draw.choice(_ODDITIES)
            if number % 2:
                ware, oddity = self.wares[place], _ODDITIES[(turn + place) % len(_ODDITIES)]
            pod = self._pod(draw, ware, f"r{number}")
            spec = pod["spec"]
            spec["schedulerName"] = draw.choice(("default-scheduler", SCHEDULER, SCHEDULER, "another"))
            first = next(one for one in spec["containers"] if one["resources"])
            if oddity == "node":
                spec["nodeName"] = ware.nodes[0]["metadata"]["name"]
            elif oddity == "privileged":
                first["securityContext"] = {"privileged": True}
            elif oddity == "requests":
                # The first resource, which counts cards, stands among the requests only.
                count_name = next(iter(first["resources"]["limits"]))
                first["resources"]["requests"] = {count_name: first["resources"]["limits"].pop(count_name)}
            elif oddity == "memory":
                limits = first["resources"]["limits"]
                first["resources"]["limits"] = {
                    name: "0" if "mem" in name.lower() else value for name, value in limits.items()
                }
            elif oddity == "env":
                first["env"] = [{"name": "PATH", "value": "/bin"}]
                first["resources"]["limits"]["nvidia.com/priority"] = "1"
            elif oddity == "empty":
                first["resources"] = {}
            elif oddity == "bare":
                limits = first["resources"]["limits"]
                limits.pop(next(iter(limits)))
            yield f"review {number} ({ware.name}{', ' + oddity if oddity else ''})", pod

    def _pod(self, draw: Random, ware: Ware, name: str) -> dict[str, Any]:
        containers = [_container(f"c{i}", ware.asks(draw)) for i in range(draw.choice((1, 1, 1, 2)))]
        if draw.random() < 0.2:
            containers.insert(draw.randrange(2), _container("plain", {}))
        init = [_container(f"i{i}", ware.asks(draw)) for i in range(draw.choice((0, 0, 0, 1, 2)))]
        spec: dict[str, Any] = {"schedulerName": SCHEDULER, "containers": containers}
        if init:
            spec["initContainers"] = init
        metadata = {
            "name": name,
            "namespace": draw.choice((FREE, FREE, TIGHT)),
            "annotations": self._wishes(draw, ware),
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _wishes(self, draw: Random, ware: Ware) -> Mapping[str, str]:
        wishes: dict[str, str] = {}
        if draw.random() < 0.6:
            wishes["hami.io/gpu-scheduler-policy"] = draw.choice(_GPU_POLICIES)
        if draw.random() < 0.5:
            wishes["hami.io/node-scheduler-policy"] = draw.choice(("binpack", "spread"))
        if draw.random() < 0.15:
            wishes["hami.io/device-scoring-weights"] = draw.choice(
                ("slot=1,core=1,memory=5", "slot=0,core=3,memory=1", "slot=9,core=0,memory=1")
            )
        if draw.random() < 0.2:
            wishes[draw.choice(ware.lists)] = draw.choice((",".join(draw.sample(ware.uuids, 2)), ","))
        if ware.types is not None and draw.random() < 0.3:
            wishes[draw.choice(ware.types)] = draw.choice(_TYPES)
        if ware.name == "nvidia" and draw.random() < 0.3:
            wishes["nvidia.com/numa-bind"] = "true"
        if ware.name == "sgpu" and draw.random() < 0.8:
            wishes["metax-tech.com/sgpu-qos-policy"] = draw.choice(("best-effort", "fixed-share"))
        return wishes


def started(pod: dict[str, Any], init_ends: bool) -> dict[str, Any]:
    """The status of a pod that has started, whose init containers have ended or go on."""
    if init_ends or not pod["spec"].get("initContainers"):
        phase, state = "Running", {"terminated": {"exitCode": 0, "startedAt": None, "finishedAt": None}}
    else:
        phase, state = "Pending", {"running": {"startedAt": None}}
    facts = {"image": "pause", "imageID": "", "ready": init_ends, "restartCount": 0, "state": state}
    statuses = [{"name": one["name"], **facts} for one in pod["spec"].get("initContainers", ())]
    return {"phase": phase, "initContainerStatuses": statuses}


def _container(name: str, limits: Limits) -> dict[str, Any]:
    resources = {"limits": {key: str(value) for key, value in limits.items()}} if limits else {}
    return {"name": name, "image": "pause", "resources": resources}


def _template(node: dict[str, Any]) -> dict[str, Any]:
    """A node of a group that the cluster autoscaler may enlarge."""
    template = copy.deepcopy(node)
    template["metadata"]["name"] = f"template-{node['metadata']['name']}"
    return template
