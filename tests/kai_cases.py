"""KAI's cases as data: from a case to a cluster with its nodes, queues, groups and pods.

Nothing here knows the name of a case, so another file of the same form can be read too. Every field of a case has a
meaning here; one that has none is an error, not something to pass over.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.config.texts import KAI_DEFAULT
from tests.groups import add, kai_group, kai_queue, priority_class
from tests.paths import KAI_CASES
from tests.scenario import node, part, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import KAI_GROUP, STALE_SINCE
from tonnage.cluster.jobs.queue import KAI_PRIORITY
from tonnage.config.load import complete, load_text
from tonnage.framework.plugin import Plugin
from tonnage.model.group import KaiPodGroup, KaiQueue
from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod, ResourceRequirements
from tonnage.model.selection import (
    Affinity,
    Expression,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    PodAffinity,
    PodAffinityTerm,
    SelectorTerm,
)
from tonnage.model.timestamp import rfc3339
from tonnage.model.wire import convert
from tonnage.plugins.catalog import plugin_class
from tonnage.plugins.jobs.taskorder import LABEL as TASK_PRIORITY

NOW = 1_800_000_000.0
STUCK = "StuckInReleasing"
DEFAULT_PARENT = "default"
Case = dict[str, Any]
Test = TypeVar("Test", bound=Callable[..., None])

DEFAULTS: dict[str, Any] = {
    "node_cpu": 20000,
    "node_memory": "20G",
    "node_pods": 110,
    "gpu_memory_mib": 100,
    "pod_cpu": 1,
    "pod_memory": "1G",
    "cpu_memory_over_quota_weight": 1,
}
"""What the file's own defaults say in figures; what they say in words is the code below."""
FIELDS = {
    "case": "id run nodes queues parents jobs plugins expect_jobs expect_tasks expect_nodes",
    "node": "GPUs GPUMemory CPUMillis CPUMemory MigStrategy MigInstances Labels",
    "queue": "Name ParentQueue Priority GPUOverQuotaWeight "
    "DeservedGPUs DeservedCPUs DeservedMemory MaxAllowedGPUs MaxAllowedCPUs MaxAllowedMemory",
    "job": "Name Namespace QueueName Priority MinMember Tasks RequiredGPUsPerTask RequiredGpuMemory "
    "RequiredMultiFractionDevicesPerTask RequiredCPUsPerTask RequiredMemoryPerTask IsBestEffortJob JobAgeInMinutes "
    "DeleteJobInTest PreemptionDelay StaleDuration PerJobStalenessGracePeriod",
    "task": "Name State NodeName GPUGroups Priority RequiredGPUs RequiredMigInstances IsLegacyMigTask "
    "NodeAffinityNames PodAffinityLabels PodAffinityTopologyKey PodAntiAffinityTopologyKey",
    "plugin": "name args",
    # ExpectedErrorMessage is in KAI's words and LastStartTimestampOlderThan about a status that KAI's binder writes.
    "expectation": "Status NodeName GPUsRequired GPUsAccepted MemoryRequired MilliCpuRequired GPUGroups "
    "DontValidateGPUGroup ExpectedErrorMessage LastStartTimestampOlderThan",
    "expected node": "IdleGPUs ReleasingGPUs",
}
"""The fields that have a meaning here, by what they are fields of."""


class UnknownFieldError(ValueError):
    """A case has a field that nothing here reads."""


def read_cases(path: Path = KAI_CASES) -> list[Case]:
    """All cases of a file; none if it is not at hand."""
    if not path.exists():
        return []
    text = json.loads(path.read_text())
    for name, value in DEFAULTS.items():
        assert text["defaults"][name] == value, name
    cases: list[Case] = text["cases"]
    for case in cases:
        check_fields(case)
    return cases


def check_fields(case: Case) -> None:
    for what, given in _parts(case):
        unknown = sorted(given.keys() - set(FIELDS[what].split()))
        if unknown:
            raise UnknownFieldError(f"{case.get('id')}: {what}: {', '.join(unknown)}")


def _parts(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "case", case
    yield from (("node", given) for given in case["nodes"].values())
    yield from (("queue", given) for given in (*case["queues"], *case.get("parents", ())))
    yield from (("job", job) for job in case["jobs"])
    yield from (("task", task) for job in case["jobs"] for task in job["Tasks"])
    yield from (("plugin", given) for given in case.get("plugins", ()))
    wanted = {**case.get("expect_jobs", {}), **case.get("expect_tasks", {})}
    yield from (("expectation", given) for given in wanted.values())
    yield from (("expected node", given) for given in case.get("expect_nodes", {}).values())


def on_cases(cases: list[Case], at_least: int) -> Callable[[Test], Test]:
    """Run a test on each of the cases; without them that many tests are skipped, so that their number is seen."""
    parameters = cases or [pytest.param({}, id=f"missing{number}") for number in range(at_least)]
    each = pytest.mark.parametrize("case", parameters, ids=None if not cases else (lambda case: case["id"]))
    return lambda test: pytest.mark.kai_cases(each(test))


# -- nodes and queues


def node_of(name: str, given: dict[str, Any]) -> Node:
    """A node; its `CPUMillis` are whole CPUs."""
    strategy = given.get("MigStrategy", "").rpartition("MigStrategy")[2].lower()
    labels = {"nvidia.com/gpu.memory": str(given.get("GPUMemory", DEFAULTS["gpu_memory_mib"]))}
    if strategy:
        labels |= {"nvidia.com/mig.strategy": strategy, "node-role.kubernetes.io/mig-enabled": "true"}
    made = node(
        name,
        labels=labels | given.get("Labels", {}),
        cpu=given.get("CPUMillis", DEFAULTS["node_cpu"]),
        memory=given.get("CPUMemory", DEFAULTS["node_memory"]),
        pods=DEFAULTS["node_pods"],
    )
    assert made.status.allocatable is not None
    made.status.allocatable["nvidia.com/gpu"] = 0 if strategy == "mixed" else given.get("GPUs", 0)
    made.status.allocatable.update(given.get("MigInstances", {}))
    return made


def queues_of(case: Case) -> list[KaiQueue]:
    """The queues of a case in the order of their creation, below one unlimited queue if it names no parents."""
    parents = [{"GPUOverQuotaWeight": given.get("DeservedGPUs", 0), **given} for given in case.get("parents", ())]
    queues = [given if parents else {"ParentQueue": DEFAULT_PARENT, **given} for given in case["queues"]]
    known = {given["Name"] for given in (*parents, *queues)}
    absent = dict.fromkeys(given["ParentQueue"] for given in queues if given.get("ParentQueue", "") not in {"", *known})
    unlimited = [{"Name": name, "DeservedGPUs": -1} for name in absent]
    return [queue_of(given, number) for number, given in enumerate([*unlimited, *parents, *queues])]


def queue_of(given: dict[str, Any], number: int) -> KaiQueue:
    """The n-th queue: CPU in thousandths and memory in MB, as in KAI's objects; a limit of 0 is none."""
    resources = {}
    for name, field, quota in (("gpu", "GPUs", 0), ("cpu", "CPUs", -1), ("memory", "Memory", -1)):
        weight = DEFAULTS["cpu_memory_over_quota_weight"] if name != "gpu" else given.get("GPUOverQuotaWeight", 0)
        resources[name] = {
            "quota": given.get(f"Deserved{field}", quota),
            "limit": given.get(f"MaxAllowed{field}") or -1,
            "overQuotaWeight": max(weight, 0),
        }
    spec = {"resources": resources, "parentQueue": given.get("ParentQueue")}
    spec |= {"priority": _queue_priority(given["Priority"])} if "Priority" in given else {}
    return kai_queue(given["Name"], created=rfc3339(NOW - 86_400 + 60 * number), **spec)


def _queue_priority(given: int | str) -> int:
    """A number, or the usual priority of queues and something beside it."""
    if isinstance(given, int):
        return given
    _, sign, beside = re.split(r"([+-])", given)
    return KAI_PRIORITY + int(sign + beside)


# -- jobs and pods


def task_name(job: dict[str, Any], number: int) -> str:
    return str(job["Tasks"][number].get("Name") or f"{job['Name']}-{number}")


def key_of(job: dict[str, Any], number: int) -> str:
    return f"{job.get('Namespace', 'default')}/{task_name(job, number)}"


def gpus_of(job: dict[str, Any]) -> float:
    """The cards that all pods of a job ask for."""
    by_memory = job.get("RequiredGpuMemory", 0) / DEFAULTS["gpu_memory_mib"]
    each = (job.get("RequiredGPUsPerTask") or by_memory) * job.get("RequiredMultiFractionDevicesPerTask", 1)
    return sum(float(task.get("RequiredGPUs", each)) for task in job["Tasks"])


def asks_for_a_part(job: dict[str, Any], task: dict[str, Any]) -> bool:
    gpus = task.get("RequiredGPUs", job.get("RequiredGPUsPerTask")) or 0
    return "RequiredGpuMemory" in job or 0 < gpus < 1


def requests_of(job: dict[str, Any], task: dict[str, Any]) -> dict[str, str | int | float]:
    """What the container of a pod asks for, beside a part of a card."""
    if job.get("IsBestEffortJob"):
        return {}
    gpus = task.get("RequiredGPUs", job.get("RequiredGPUsPerTask"))
    requests: dict[str, str | int | float] = {**task.get("RequiredMigInstances", {})}
    if gpus and not asks_for_a_part(job, task):
        requests["nvidia.com/gpu"] = int(gpus)
    requests["cpu"] = job.get("RequiredCPUsPerTask") or DEFAULTS["pod_cpu"]
    requests["memory"] = job.get("RequiredMemoryPerTask") or DEFAULTS["pod_memory"]
    return requests


def pod_of(job: dict[str, Any], number: int) -> Pod:
    """A pod of a job; one that is stuck while it is leaving will not leave, and so is one that runs."""
    task = job["Tasks"][number]
    state, on = task["State"], task.get("NodeName") if task["State"] != "Pending" else None
    labels = dict(task.get("PodAffinityLabels", {}))
    labels |= {TASK_PRIORITY: str(task["Priority"])} if "Priority" in task else {}
    more: dict[str, Any] = {
        "terminating": state == "Releasing",
        "priority": job["Priority"],
        "phase": state if state in ("Succeeded", "Failed") else None,
        "containers": [Container("main", ResourceRequirements(limits=requests_of(job, task)))],
        "affinity": affinity_of(task),
        "labels": labels,
        "namespace": job.get("Namespace", "default"),
    }
    name, notes = task_name(job, number), {KAI_GROUP: job["Name"]}
    if not asks_for_a_part(job, task) or job.get("IsBestEffortJob"):
        return pod(name, on=on, annotations=notes, **more)
    devices = job.get("RequiredMultiFractionDevicesPerTask")
    notes |= {"gpu-fraction-num-devices": str(devices)} if devices else {}
    own = [f"{name}/{place}" for place in range(devices or 1)]
    groups = task.get("GPUGroups", own) if on else []
    memory, gpus = job.get("RequiredGpuMemory"), job.get("RequiredGPUsPerTask")
    card = groups if len(groups) > 1 else "".join(groups)
    return part(name, None if memory is not None else gpus, memory=memory, on=on, group=card, annotations=notes, **more)


def affinity_of(task: dict[str, Any]) -> Affinity | None:
    """Nodes by their names, and pods with the labels that the pod has itself."""
    nodes, labels = task.get("NodeAffinityNames"), LabelSelector(task.get("PodAffinityLabels", {}))
    near, apart = task.get("PodAffinityTopologyKey"), task.get("PodAntiAffinityTopologyKey")
    if not (nodes or near or apart):
        return None
    term = SelectorTerm(matchFields=[Expression("metadata.name", "In", nodes or [])])
    return Affinity(
        NodeAffinity(NodeSelector([term])) if nodes else None,
        PodAffinity([PodAffinityTerm(near, labels)]) if near else None,
        PodAffinity([PodAffinityTerm(apart, labels)]) if apart else None,
    )


def cluster_of(case: Case) -> Cluster:
    """The cluster of a case, with KAI's objects."""
    cluster = scenario(*[node_of(name, given) for name, given in case["nodes"].items()])
    cluster.now = NOW
    add(cluster, *queues_of(case))
    for job, group in zip(oldest_first(case), groups_of(case), strict=True):
        add(cluster, priority_class(f"class-{job['Priority']}", job["Priority"]), group)
        for place in range(len(job["Tasks"])):
            cluster.upsert_pod(pod_of(job, place))
    return cluster


def groups_of(case: Case) -> list[KaiPodGroup]:
    """The groups of all jobs, the oldest first."""
    jobs = oldest_first(case)
    return [group_of(job, len(jobs) - number, _stale_since(job)) for number, job in enumerate(jobs)]


def group_of(job: dict[str, Any], minutes: int, annotations: dict[str, str]) -> KaiPodGroup:
    """The group of a job, that many minutes old unless the case says otherwise."""
    least = job.get("MinMember", len(job["Tasks"]))
    spec = {"queue": job["QueueName"], "priorityClassName": f"class-{job['Priority']}"}
    spec |= {**_grace_of(job), **_delay_of(job)}
    created = rfc3339(NOW - 60 * (job.get("JobAgeInMinutes") or minutes))
    namespace = job.get("Namespace", "default")
    return kai_group(job["Name"], least, namespace=namespace, created=created, annotations=annotations, **spec)


def oldest_first(case: Case) -> list[dict[str, Any]]:
    return sorted(case["jobs"], key=lambda job: -job["Priority"])


def _stale_since(job: dict[str, Any]) -> dict[str, str]:
    """Since when a job has lacked pods, as its group says it."""
    return {STALE_SINCE: rfc3339(NOW - _seconds(job["StaleDuration"]))} if "StaleDuration" in job else {}


def _grace_of(job: dict[str, Any]) -> dict[str, str]:
    given = job.get("PerJobStalenessGracePeriod")
    return {} if given is None else {"stalenessGracePeriod": f"{_seconds(given['Duration'])}s"}


def _delay_of(job: dict[str, Any]) -> dict[str, str]:
    given = job.get("PreemptionDelay")
    return {} if given is None else {"preemptionDelay": f"{_seconds(given['Duration'])}s"}


def _seconds(given: int | str) -> int:
    """A duration of whole seconds or minutes as the cases write it, or a plain 0."""
    if str(given) == "0":
        return 0
    found = re.fullmatch(r"(-?\d+)\*time\.(Second|Minute)", str(given))
    assert found, given
    return int(found[1]) * (60 if found[2] == "Minute" else 1)


def pods_of(case: Case) -> dict[str, tuple[dict[str, Any], int]]:
    """The job of each pod and its number there."""
    pods = [(job, number) for job in case["jobs"] for number in range(len(job["Tasks"]))]
    return {key_of(job, number): (job, number) for job, number in pods}


# -- plugins


def plugins_of(case: Case) -> list[Plugin]:
    """KAI's plugins, or those that the case names beside the order of jobs."""
    if "plugins" not in case:
        return load_text(KAI_DEFAULT, "KAI").plugins
    named = [("priority", {}), ("elastic", {}), *((one["name"], one["args"]) for one in case["plugins"])]
    kinds = [(plugin_class(name), arguments) for name, arguments in named]
    return complete([kind(convert(arguments, kind.Arguments)) for kind, arguments in kinds if kind is not None])
