"""The grammar of hostile values: everything that a tenant may write into its own objects, and some that it may not.

Operations are drawn from a seed. What the tenant really asks of cards is kept within a quota, because free cards
are everybody's to take; whatever it merely claims has no bounds.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.tenants.kubelets import ASSIGNED, NOWHERE
from tests.tenants.ledger import HONEST, HOSTILE, RESOURCE
from tonnage.lab.api import pods_path
from tonnage.lab.definitions import KAI_GROUPS, VOLCANO
from tonnage.lab.player import ALLOCATED, PHASE, TO_ALLOCATE

CARDS = 4
"""How many cards the tenant may really ask for at a time, as a ResourceQuota would have it."""
MOST_PODS = 60
"""How many pods the tenant has at a time, as its quota of pods would have it."""
FINALIZER = "hostile.example/never"
_LIMIT = 262_144
"""Bytes of annotations that the API server takes on one object."""

NUMBERS = (
    *("", " ", "0", "-1", "-0", "+1", "00", "1.0", "1e3", "1e400", "1e-400", "NaN", "inf", "-inf", "0x10", "1_000"),
    *("٣", "１２", "²", "½", "9" * 19, "9" * 5000, "0" * 4990 + "1999", "9" * 200_000, "0." + "3" * 200_000),
    *(str(2**31), str(2**63), str(2**64), "null", "true", "[]", "{}", "1\n", "1 ", "1Gi", "-9" * 99),
)
TIMES = (
    *("", "now", "-1", "0", "1767225600", "9" * 5000, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999Z"),
    *("2999-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "2026-01-01T00:00:60Z"),
    *("2026-01-01T00:00:00.1234567890123456789Z", "2026-01-01T00:00:00+99:99", "9999-12-31T23:59:59-14:00"),
    *("0001-01-01T00:00:00+14:00", "2026-01-01", "2026-01-01T00:00:00", "٢٠٢٦-01-01T00:00:00Z", "0000-00-00T00:00:00Z"),
    "2026-01-01T00:00:00." + "1" * 100_000 + "Z",
)
INTEGERS: tuple[object, ...] = (
    *(0, -1, 1, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 1.5, True, None, "5", "", [], {}, [1], {"a": 1}),
    "9" * 5000,
)
NAMES = (
    *("", " ", "/", "..", "../../../pods?x=", "%2e%2e%2f", "a" * 253, "a" * 100_000, "é", "\n", "default", "*", "null"),
    *("kube-system", "system:masters", '"', "{}", "'; --", "-", ".", "honest/gang", "honest"),
)
BOMBS = ("[" * 100_000, '{"a":' * 40_000, '["' + '","' * 60_000 + '"]', "{" * 200_000, '"' * 200_000, "x" * 250_000)
VENDORS = (
    *("hami.io/vgpu", "hami.io/dcu", "hami.io/amd", "hami.io/xpu", "hami.io/Ascend910B3", "hami.io/cambricon-mlu"),
    *("hami.io/mthreads-vgpu", "hami.io/metax-gpu", "hami.io/metax-sgpu", "hami.io/enflame-gcu", "hami.io/aws-neuron"),
    *("hami.io/iluvatar-vgpu", "hami.io/kunlun"),
)
RECORDS = tuple(f"{vendor}{ending}" for vendor in VENDORS for ending in (ALLOCATED, TO_ALLOCATE))
NUMBER_KEYS = (
    *("tonnage.io/min-members", "tonnage.io/max-members", "tonnage/min-members", "kai.scheduler/task-priority"),
    *("volcano.sh/preemptable", "volcano.sh/resource-strategy-weight", "hami.io/device-scoring-weights"),
    *("run.ai/reserve_for_gpu_index", "nvidia.com/numa-bind", "tonnage.io/requeued", "nvidia.com/priority"),
)
SHARE_KEYS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
"""Annotations that ask for a part of a card."""
TIME_KEYS = (
    *("kai.scheduler/stale-podgroup-timestamp", "kai.scheduler/last-start-timestamp", "hami.io/bind-time"),
    *("kai.scheduler/last-eviction-timestamp", "hami.io/vgpu-time"),
)
NAME_KEYS = (
    *("tonnage.io/queue", "scheduling.volcano.sh/queue-name", "scheduling.k8s.io/group-name", "pod-group-name"),
    *(
        "volcano.sh/task-spec",
        "tonnage.io/topology-required",
        "tonnage.io/topology-preferred",
        "kai.scheduler/topology",
    ),
    *("kai.scheduler/topology-required-placement", "kai.scheduler/topology-preferred-placement"),
    *("nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"),
    *(
        "hami.io/gpu-scheduler-policy",
        "hami.io/node-scheduler-policy",
        "nvidia.com/vgpu-mode",
        "hami.io/scheduler-role",
    ),
    *("hami.io/vgpu-mig-allocations", "gpu-fraction-container-name", "kai.scheduler/preemptibility"),
)
LABELS = (
    *(
        "kai.scheduler/queue",
        "runai-gpu-group",
        "runai-gpu-group/a",
        "kai.scheduler/subgroup-name",
        "hami.io/vgpu-node",
    ),
    *("kai.scheduler/node-pool", "volcano.sh/queue-name", "scheduling.x-k8s.io/pod-group", "job", "pod-template-hash"),
)
LABEL_VALUES = ("", "honest", "hostile", "gang", "a" * 63, "0", "true", "n00", "n00-0", "foreign", "0-9", "A_b.c")
REAL = "card"
"""The twist that really asks for cards."""


class Operation(NamedTuple):
    """A request to the API server."""

    kind: str
    method: str
    path: str
    body: Any = None
    type: str = "application/json"
    query: Mapping[str, str] = {}


class Pod(NamedTuple):
    """A pod of the tenant, as far as the tenant cares."""

    name: str
    cards: int
    """What it really asks for."""
    is_kept: bool
    """Whether a finalizer keeps it."""


class Grammar:
    """Draws operations and remembers what they left."""

    def __init__(self, rng: random.Random, scheduler: str, nodes: Sequence[str], queues: Sequence[str]) -> None:
        self._takes_parts = bool(queues)
        self._rng = rng
        self._scheduler, self._nodes, self._queues = scheduler, list(nodes), list(queues)
        self._number = 0
        self.pods: dict[str, Pod] = {}
        self.groups: list[str] = []
        """Paths of PodGroups that were created, the latest last."""
        self._spec_twists: dict[str, Callable[[dict[str, Any]], None]] = {
            "scheduler's name": self._schedulers_name,
            "node set directly": self._node_name,
            "scheduling gate": self._gate,
            "finalizer": self._finalizer,
            "kept Pending": self._kept_pending,
            "grace period": self._grace,
            "priority class": self._priority,
            "affinity": self._affinity,
            "host port": self._host_port,
            "absurd resources": self._absurd,
            "owner": self._owner,
            "claim": self._claim,
            "many containers": self._containers,
            "environment": self._environment,
            "longest name": self._longest,
        }

    def draw(self) -> Operation:
        """The next operation."""
        drawn = self._rng.random()
        if len(self.pods) > MOST_PODS or drawn < 0.15:
            return self._delete()
        if drawn < 0.5:
            return self._create_pod()
        if drawn < 0.8 and self.pods:
            return self._patch_pod()
        if drawn < 0.97:
            return self._group()
        return self._forbidden()

    def gone(self, name: str) -> None:
        """A pod was not created, or is deleted."""
        self.pods.pop(name, None)

    # -- annotations

    def _annotations(self) -> tuple[str, dict[str, str | None]]:
        """A kind and what is written; at most one value is large."""
        written: dict[str, Callable[[], tuple[str, str]]] = {
            "allocation": lambda: (self._pick(RECORDS[:2] * 8 + RECORDS), self._record()),
            "phase": lambda: (PHASE, self._pick(["allocating", "success", "failed", "", "x" * 5000])),
            "number": lambda: (self._pick(NUMBER_KEYS), self._pick(NUMBERS)),
            "time": lambda: (self._pick(TIME_KEYS), self._pick(TIMES)),
            "name": lambda: (self._pick(NAME_KEYS), self._name()),
            "bomb": lambda: (self._pick([*NUMBER_KEYS, *TIME_KEYS, *NAME_KEYS, *RECORDS]), self._pick(BOMBS)),
        }
        kind = self._pick(list(written))
        key, value = written[kind]()
        notes: dict[str, str | None] = {key: value[: _LIMIT - 2000]}
        if kind == "phase" or (kind == "allocation" and self._rng.random() < 0.6):
            notes |= {PHASE: "allocating", ASSIGNED: self._node(), "hami.io/bind-time": "1"}
        if self._rng.random() < 0.1:
            notes[self._pick([*RECORDS[:2], PHASE, *NAME_KEYS])] = None
        return kind, notes

    def _pick(self, choices: Any) -> Any:
        return self._rng.choice(choices)

    def _record(self) -> str:
        """What a device plugin would write about cards."""
        card = f"{self._node()}/{self._rng.randrange(4)}"
        memory = self._pick(["1", "8000", "0", "-8000", "9" * 30, "9" * 5000, "NaN", "1e3", "٣", ""])
        return self._pick(
            [
                f"{card},NVIDIA,8000,100:;",
                f"{card},NVIDIA,{memory},{self._pick(['0', '100', '-1', '9' * 20])}:;",
                "".join(f"{node}/{number},NVIDIA,8000,100:" for node in self._nodes for number in range(4)) + ";",
                "".join(f"g{number:x},N,1,1:" for number in range(20_000)) + ";",
                "GPU-invented,NVIDIA,8000,100:;",
                f"{card},NVIDIA,1,1:" * 5000 + ";",
                f"{card}[0-0],MIG,1000,10:;",
                ";" * 200_000,
                f"{card},NVIDIA,8000,100:;" * 3,
                json.dumps([{"id": card, "devmem": 8000}]),
                *(":", ",,,:;", "a,b,c,d:;", "\x01", "é,é,é,é:;"),
            ]
        )

    def _name(self) -> str:
        groups = [path.rpartition("/")[2] for path in self.groups[-5:]]
        return str(self._pick([*NAMES, *self._queues, *groups, *self._nodes[:2], "gang", "j00001-1"]))

    def _node(self) -> str:
        return str(self._rng.choice(self._nodes))

    # -- pods

    def _create_pod(self) -> Operation:
        self._number += 1
        container: dict[str, Any] = {"name": "main", "image": "practice", "resources": {"limits": {"cpu": "1m"}}}
        pod: dict[str, Any] = {
            "metadata": {"name": f"h{self._number:06}", "annotations": {}, "labels": {}},
            "spec": {"schedulerName": self._scheduler, "containers": [container], "terminationGracePeriodSeconds": 0},
        }
        kinds = []
        if self._rng.random() < 0.7:
            kind, notes = self._annotations()
            pod["metadata"]["annotations"] |= {key: value for key, value in notes.items() if value is not None}
            kinds.append(kind)
        for twist in self._rng.sample(list(self._spec_twists), self._rng.choice([0, 1, 1, 2, 3])):
            self._spec_twists[twist](pod)
            kinds.append(twist)
        if self._rng.random() < 0.2:
            pod["metadata"]["labels"][self._pick(LABELS)] = self._pick(LABEL_VALUES)
            kinds.append("label")
        cards = self._real(pod, kinds)
        name = pod["metadata"]["name"]
        self.pods[name] = Pod(name, cards, "finalizers" in pod["metadata"])
        return Operation(f"create pod: {kinds[-1] if kinds else 'plain'}", "POST", pods_path(HOSTILE), pod)

    def _real(self, pod: dict[str, Any], kinds: list[str]) -> int:
        """Let it really ask for cards, if there is room for that; how many it asks for."""
        if "absurd resources" in kinds or self._rng.random() < 0.6 or self._taken() >= CARDS:
            return 0
        kinds.append(REAL)
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        shape = self._rng.random()
        if shape < 0.3 and self._takes_parts and "nodeName" not in pod["spec"]:
            key, value = self._pick([("gpu-fraction", "0.5"), ("gpu-memory", "500"), ("gpu-fraction", "0.1")])
            pod["metadata"]["annotations"][key] = value
        else:
            limits[RESOURCE] = "1"
            if shape < 0.8:
                limits["nvidia.com/gpumem"] = self._pick(["1", "1000", "8000"])
            if shape > 0.9:
                limits["nvidia.com/gpucores"] = self._pick(["0", "100", "30"])
        return 1

    def _taken(self) -> int:
        return sum(pod.cards for pod in self.pods.values())

    def _schedulers_name(self, pod: dict[str, Any]) -> None:
        pod["spec"]["schedulerName"] = self._pick(
            ["default-scheduler", "other", "hami-scheduler", "tonnage", "a" * 253]
        )

    def _node_name(self, pod: dict[str, Any]) -> None:
        pod["spec"]["nodeName"] = self._pick([self._node(), self._node(), self._node(), "no-such-node"])

    def _gate(self, pod: dict[str, Any]) -> None:
        pod["spec"]["schedulingGates"] = [{"name": f"hostile.example/{number}"} for number in range(3)]

    def _finalizer(self, pod: dict[str, Any]) -> None:
        pod["metadata"]["finalizers"] = [FINALIZER]

    def _kept_pending(self, pod: dict[str, Any]) -> None:
        pod["spec"]["containers"][0]["image"] = NOWHERE

    def _grace(self, pod: dict[str, Any]) -> None:
        pod["spec"]["terminationGracePeriodSeconds"] = self._pick([1, 30, 10**9])

    def _priority(self, pod: dict[str, Any]) -> None:
        classes = ["low", "high", "system-node-critical", "system-cluster-critical", "none"]
        pod["spec"]["priorityClassName"] = self._pick(classes)

    def _affinity(self, pod: dict[str, Any]) -> None:
        term: dict[str, Any] = {"labelSelector": {}, "topologyKey": self._pick(["kubernetes.io/hostname", "zone", "x"])}
        if self._rng.random() < 0.5:
            term |= self._pick([{"namespaces": [HONEST]}, {"namespaceSelector": {}}])
        terms = [term] * self._pick([1, 1, 200])
        which = self._pick(["podAffinity", "podAntiAffinity", "podAntiAffinity"])
        pod["spec"]["affinity"] = {which: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    def _host_port(self, pod: dict[str, Any]) -> None:
        port = self._pick([80, 10250, 65535])
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]

    def _absurd(self, pod: dict[str, Any]) -> None:
        """More than any node has, so that none of it is really taken."""
        much = self._pick(["1000000", "9223372036854775807", "1E", "999999999999999999999", "1e18"])
        asks = {
            RESOURCE: {RESOURCE: much},
            "memory": {RESOURCE: "1000", "nvidia.com/gpumem": much},
            "cores": {RESOURCE: "1000", "nvidia.com/gpucores": much},
            "percentage": {RESOURCE: "1000", "nvidia.com/gpumem-percentage": much},
            "cpu": {"cpu": much},
            "storage": {"ephemeral-storage": much},
            "unknown": {"example.com/unknown": much},
            "vendor": {"huawei.com/Ascend910B3": much},
            "dcu": {"hygon.com/dcunum": much, "hygon.com/dcumem": much},
        }
        pod["spec"]["containers"][0]["resources"]["limits"] |= asks[self._pick(list(asks))]

    def _owner(self, pod: dict[str, Any]) -> None:
        group = self._pick(["scheduling.run.ai/v2alpha2", "scheduling.volcano.sh/v1beta1", "batch/v1"])
        kind = "Job" if group == "batch/v1" else "PodGroup"
        owner = {"apiVersion": group, "kind": kind, "name": self._pick(["gang", "j00001-1", "x"]), "uid": "0" * 36}
        pod["metadata"]["ownerReferences"] = [owner | {"controller": True}]

    def _claim(self, pod: dict[str, Any]) -> None:
        if self._rng.random() < 0.5:
            claim = {"claimName": self._pick(["none", "a" * 253])}
            pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": claim}]
        else:
            pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "none"}]

    def _containers(self, pod: dict[str, Any]) -> None:
        plain = {"image": "practice", "resources": {"limits": {"cpu": "1m"}}}
        pod["spec"]["containers"] += [{"name": f"c{number}", **plain} for number in range(self._pick([2, 300]))]

    def _environment(self, pod: dict[str, Any]) -> None:
        pod["spec"]["containers"][0]["env"] = [{"name": f"E{number}", "value": "x" * 2000} for number in range(200)]

    def _longest(self, pod: dict[str, Any]) -> None:
        pod["metadata"]["name"] = f"{pod['metadata']['name']}-{'n' * 245}"

    def _patch_pod(self) -> Operation:
        pod = self.pods[self._pick(list(self.pods))]
        path, merge = f"{pods_path(HOSTILE)}/{pod.name}", "application/merge-patch+json"
        drawn = self._rng.random()
        if drawn < 0.08:
            self.pods[pod.name] = pod._replace(is_kept=False)
            return Operation("patch pod: finalizers", "PATCH", path, {"metadata": {"finalizers": None}}, merge)
        if drawn < 0.14:
            return Operation("patch pod: gates", "PATCH", path, {"spec": {"schedulingGates": None}}, merge)
        if drawn < 0.22:
            image = {"containers": [{"name": "main", "image": self._pick(["practice", NOWHERE])}]}
            strategic = "application/strategic-merge-patch+json"
            return Operation("patch pod: image", "PATCH", path, {"spec": image}, strategic)
        if drawn < 0.32:
            labels = {self._pick(LABELS): self._pick([*LABEL_VALUES, None])}
            return Operation("patch pod: labels", "PATCH", path, {"metadata": {"labels": labels}}, merge)
        if drawn < 0.4 and (pod.cards or self._taken() < CARDS):
            self.pods[pod.name] = pod._replace(cards=1)
            notes = {self._pick(SHARE_KEYS): self._pick([*NUMBERS, "0.5"])}
            return Operation("patch pod: part of a card", "PATCH", path, {"metadata": {"annotations": notes}}, merge)
        kind, changed = self._annotations()
        return Operation(f"patch pod: {kind}", "PATCH", path, {"metadata": {"annotations": changed}}, merge)

    def _delete(self) -> Operation:
        if not self.pods:
            return self._create_pod()
        pod = self.pods[self._pick(list(self.pods))]
        path = f"{pods_path(HOSTILE)}/{pod.name}"
        if self._rng.random() < 0.1:
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
            return Operation("evict pod", "POST", f"{path}/eviction", body)
        if pod.is_kept and len(self.pods) > MOST_PODS:
            self.pods[pod.name] = pod._replace(is_kept=False)
            merge = "application/merge-patch+json"
            return Operation("patch pod: finalizers", "PATCH", path, {"metadata": {"finalizers": None}}, merge)
        return Operation("delete pod", "DELETE", path, query={"gracePeriodSeconds": self._pick(["0", "0", "1"])})

    # -- groups

    def _group(self) -> Operation:
        drawn = self._rng.random()
        if self.groups and drawn < 0.25:
            return Operation("delete PodGroup", "DELETE", self._pick(self.groups[-20:]))
        kind, notes = self._annotations()
        spec = self._group_spec()
        if self.groups and drawn < 0.6:
            body = {"metadata": {"annotations": notes}, "spec": spec}
            merge = "application/merge-patch+json"
            return Operation(f"patch PodGroup: {kind}", "PATCH", self._pick(self.groups[-20:]), body, merge)
        root = self._pick([KAI_GROUPS, VOLCANO])
        path = f"{root}/namespaces/{HOSTILE}/podgroups"
        name = self._pick(["gang", "j00001-1", f"x{len(self.groups)}", f"x{len(self.groups)}"])
        self.groups.append(f"{path}/{name}")
        version = root.removeprefix("/apis/")
        meta = {"name": name, "annotations": {key: value for key, value in notes.items() if value is not None}}
        body = {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}
        return Operation(f"create PodGroup: {kind}", "POST", path, body)

    def _group_spec(self) -> dict[str, Any]:
        fields: dict[str, Callable[[], Any]] = {
            "minMember": lambda: self._pick(INTEGERS),
            "queue": lambda: self._pick([*self._queues, *NAMES[:12], 5, None]),
            "priorityClassName": lambda: self._pick(["system-node-critical", "high", "none", 5, "a" * 5000]),
            "minResources": lambda: {self._pick(["cpu", RESOURCE, "é"]): self._pick([*NUMBERS, -1, None, [], "1e999"])},
            "minTaskMember": lambda: {"t": self._pick(INTEGERS)},
            "stalenessGracePeriod": lambda: self._pick(
                ["-1s", "9" * 5000 + "s", "1e99h", "", 5, "0.000000001ns", None]
            ),
            "preemptibility": lambda: self._pick(["non-preemptible", "preemptible", 5, ""]),
            "subGroups": self._subgroups,
            "topologyConstraint": lambda: {"topology": self._name(), "requiredTopologyLevel": self._name()},
            "networkTopology": lambda: {"mode": "hard", "highestTierAllowed": self._pick(INTEGERS)},
            "backoffLimit": lambda: self._pick(INTEGERS),
            "schedulingBackoff": lambda: self._pick(INTEGERS),
        }
        return {name: fields[name]() for name in self._rng.sample(list(fields), self._rng.randrange(1, 5))}

    def _subgroups(self) -> Any:
        names = [f"s{number}" for number in range(self._pick([1, 3, 300]))]
        made = [{"name": name, "minMember": self._pick(INTEGERS)} for name in names]
        shape = self._rng.random()
        if shape < 0.3:
            for one, parent in zip(made, [*names[1:], names[0]], strict=True):
                one["parent"] = parent
        elif shape < 0.5:
            for one, parent in zip(made[1:], names, strict=False):
                one["parent"] = parent
        return self._pick([made, made, made + made, "x", {"a": []}, [None, 5]])

    def _forbidden(self) -> Operation:
        """What a tenant has no right to."""
        merge, notes = "application/merge-patch+json", {"metadata": {"annotations": {PHASE: "failed"}}}
        return self._pick(
            [
                Operation("forbidden", "PATCH", f"/api/v1/nodes/{self._node()}", notes, merge),
                Operation("forbidden", "DELETE", f"{pods_path(HONEST)}/j00000"),
                Operation("forbidden", "POST", f"{pods_path(HOSTILE)}/x/binding", {"target": {"name": self._node()}}),
                Operation("forbidden", "GET", pods_path(HONEST)),
            ]
        )
