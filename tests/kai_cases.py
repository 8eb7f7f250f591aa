"""KAI's cases as data: from a case to a cluster with its nodes, queues, groups and pods, and back to what became of it.

Nothing here knows the name of a case, so another file of the same form can be read too.
"""

import json
import re
from pathlib import Path
from typing import Any

from tests.config.texts import KAI_DEFAULT
from tests.groups import add, kai_group, kai_queue, priority_class
from tests.scenario import node, part, pod, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import KAI_GROUP, STALE_SINCE
from tonnage.cluster.jobs.queue import KAI_PRIORITY
from tonnage.config.load import complete, load_text
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.model.group import KaiPodGroup
from tonnage.model.node import Node
from tonnage.model.pod import Container, Pod, ResourceRequirements
from tonnage.model.selection import Affinity, Expression, NodeAffinity, NodeSelector, SelectorTerm
from tonnage.model.timestamp import rfc3339
from tonnage.model.wire import convert
from tonnage.plugins.catalog import plugin_class

FILE = Path(__file__).parents[2] / "shared" / "vectors" / "kai_cases.json"
NON_PREEMPTIBLE = 100
NOW = 1_800_000_000.0
NODE_CPU, NODE_MEMORY = "20", "20G"
POD_CPU = 1000
"""What pods ask for that say nothing about processors, in thousandths."""
STUCK = "StuckInReleasing"
Case = dict[str, Any]


def read_cases(path: Path = FILE) -> list[Case]:
    """All cases of a file; none if it is not at hand."""
    cases: list[Case] = json.loads(path.read_text())["cases"] if path.exists() else []
    return cases


def node_of(name: str, given: dict[str, Any]) -> Node:
    labels = {"nvidia.com/gpu.memory": str(given.get("GPUMemory", 100))}
    cpu = f"{given['CPUMillis']}m" if "CPUMillis" in given else NODE_CPU
    made = node(name, labels=labels, cpu=cpu, memory=given.get("CPUMemory", NODE_MEMORY))
    assert made.status.allocatable is not None
    made.status.allocatable["nvidia.com/gpu"] = given.get("GPUs", 0)
    made.status.allocatable.update(given.get("MigInstances", {}))
    return made


def task_name(job: dict[str, Any], number: int) -> str:
    return str(job["Tasks"][number].get("Name") or f"{job['Name']}-{number}")


def gpus_of(job: dict[str, Any]) -> float:
    """The cards that all pods of a job ask for."""
    by_memory = job.get("RequiredGpuMemory", 0) / 100
    each = (job.get("RequiredGPUsPerTask") or by_memory) * job.get("RequiredMultiFractionDevicesPerTask", 1)
    return sum(float(task.get("RequiredGPUs", each)) for task in job["Tasks"])


def pod_of(job: dict[str, Any], number: int) -> Pod:
    """A pod of a job; one that is stuck while it is leaving will not leave, and so is one that runs."""
    task = job["Tasks"][number]
    state, on = task["State"], task.get("NodeName") if task["State"] != "Pending" else None
    gpus, memory = task.get("RequiredGPUs", job.get("RequiredGPUsPerTask")), job.get("RequiredGpuMemory")
    is_part = memory is not None or (gpus is not None and 0 < gpus < 1)
    limits: dict[str, str | int | float] = {**task.get("RequiredMigInstances", {})}
    if gpus and not is_part:
        limits["nvidia.com/gpu"] = int(gpus)
    limits["cpu"] = f"{int(job.get('RequiredCPUsPerTask', POD_CPU))}m"
    if "RequiredMemoryPerTask" in job:
        limits["memory"] = int(job["RequiredMemoryPerTask"])
    more: dict[str, Any] = {
        "terminating": state == "Releasing",
        "priority": job["Priority"],
        "phase": state if state in ("Succeeded", "Failed") else None,
        "containers": [Container("main", ResourceRequirements(limits=limits))],
    }
    if "NodeAffinityNames" in task:
        more["affinity"] = Affinity(NodeAffinity(NodeSelector([_named(task["NodeAffinityNames"])])))
    name, notes = task_name(job, number), {KAI_GROUP: job["Name"]}
    if not is_part:
        return pod(name, on=on, annotations=notes, **more)
    devices = job.get("RequiredMultiFractionDevicesPerTask")
    notes |= {"gpu-fraction-num-devices": str(devices)} if devices else {}
    card = task.get("GPUGroups", [None])[0] if on else None
    fraction = None if memory is not None else gpus
    return part(name, fraction, memory=memory, on=on, group=card, annotations=notes, **more)


def _named(nodes: list[str]) -> SelectorTerm:
    return SelectorTerm(matchFields=[Expression("metadata.name", "In", nodes)])


def cluster_of(case: Case) -> Cluster:
    """The cluster of a case, with KAI's objects."""
    cluster = scenario(*[node_of(name, given) for name, given in case["nodes"].items()])
    cluster.now = NOW
    parents = [{"GPUOverQuotaWeight": given.get("DeservedGPUs", 0), **given} for given in case.get("parents", ())]
    for number, given in enumerate([*parents, *case["queues"]]):
        gpu = {"quota": given.get("DeservedGPUs", 0), "limit": given.get("MaxAllowedGPUs", -1)}
        gpu["overQuotaWeight"] = max(given.get("GPUOverQuotaWeight", 0), 0)
        cpu = {**gpu, "quota": given.get("DeservedCPUs", -1), "limit": given.get("MaxAllowedCPUs", -1)}
        memory = {**gpu, "quota": given.get("DeservedMemory", -1), "limit": -1}
        spec = {"resources": {"gpu": gpu, "cpu": cpu, "memory": memory}, "parentQueue": given.get("ParentQueue")}
        spec |= {"priority": _queue_priority(given["Priority"])} if "Priority" in given else {}
        add(cluster, kai_queue(given["Name"], created=_time(number), **spec))
    for number, job in enumerate(_oldest_first(case)):
        add(cluster, priority_class(f"class-{job['Priority']}", job["Priority"]))
        add(cluster, group_of(job, number, _stale_since(job)))
        for place in range(len(job["Tasks"])):
            cluster.upsert_pod(pod_of(job, place))
    return cluster


def group_of(job: dict[str, Any], number: int, annotations: dict[str, str]) -> KaiPodGroup:
    """The group of a job that is the n-th to have come."""
    least = job.get("MinMember", len(job["Tasks"]))
    spec = {"queue": job["QueueName"], "priorityClassName": f"class-{job['Priority']}"}
    spec |= {**_grace_of(job), **_delay_of(job)}
    created = rfc3339(NOW) if "PreemptionDelay" in job else _time(number)
    return kai_group(job["Name"], least, created=created, annotations=annotations, **spec)


def _oldest_first(case: Case) -> list[dict[str, Any]]:
    return sorted(case["jobs"], key=lambda job: -job["Priority"])


def plugins_of(case: Case) -> list[Plugin]:
    """KAI's plugins, or those that the case names beside the order of jobs."""
    if "plugins" not in case:
        return load_text(KAI_DEFAULT, "KAI").plugins
    named = [("priority", {}), ("elastic", {}), *((one["name"], one["args"]) for one in case["plugins"])]
    kinds = [(plugin_class(name), arguments) for name, arguments in named]
    return complete([kind(convert(arguments, kind.Arguments)) for kind, arguments in kinds if kind is not None])


def states(session: Session, case: Case) -> dict[str, tuple[str, str | None]]:
    """Where each pod of a case stands after a cycle, in KAI's words, and on which node."""
    found: dict[str, tuple[str, str | None]] = {}
    evictions = {eviction.pod: eviction for eviction in session.evictions}
    for job in case["jobs"]:
        for number, task in enumerate(job["Tasks"]):
            name = task_name(job, number)
            decision = session.decisions.get(f"default/{name}")
            eviction = evictions.get(f"default/{name}")
            if eviction is not None and eviction.to:
                found[name] = "Pipelined", eviction.to
            elif f"default/{name}" in session.cluster.leaving:
                found[name] = "Releasing", task.get("NodeName")
            elif decision is None:
                found[name] = task["State"], None if task["State"] == "Pending" else task.get("NodeName")
            elif decision.node is None:
                found[name] = "Pending", None
            else:
                found[name] = "Binding" if decision.outcome == "placed" else "Pipelined", decision.node
    return found


def expected(case: Case) -> dict[str, dict[str, Any]]:
    """What is expected of each pod: that of its own, or that of its job."""
    by_job, by_task = case.get("expect_jobs", {}), case.get("expect_tasks", {})
    names = {task_name(job, n): job["Name"] for job in case["jobs"] for n in range(len(job["Tasks"]))}
    both = {name: by_task.get(name) or by_job.get(job) for name, job in names.items()}
    return {name: wanted for name, wanted in both.items() if wanted is not None}


def _stale_since(job: dict[str, Any]) -> dict[str, str]:
    """Since when a job has lacked pods, as its group says it."""
    return {STALE_SINCE: rfc3339(NOW - _seconds(job["StaleDuration"]))} if "StaleDuration" in job else {}


def _grace_of(job: dict[str, Any]) -> dict[str, str]:
    given = job.get("PerJobStalenessGracePeriod")
    return {} if given is None else {"stalenessGracePeriod": f"{_seconds(given['Duration'])}s"}


def _queue_priority(given: int | str) -> int:
    """A number, or the usual priority of queues and something beside it."""
    if isinstance(given, int):
        return given
    _, sign, beside = re.split(r"([+-])", given)
    return KAI_PRIORITY + int(sign + beside)


def _delay_of(job: dict[str, Any]) -> dict[str, str]:
    given = job.get("PreemptionDelay")
    return {} if given is None else {"preemptionDelay": f"{_seconds(given['Duration'])}s"}


def _seconds(text: str) -> int:
    """A duration of whole seconds or minutes as the cases write it."""
    found = re.fullmatch(r"(-?\d+)\*time\.(Second|Minute)", text)
    assert found, text
    return int(found[1]) * (60 if found[2] == "Minute" else 1)


def _time(number: int) -> str:
    return f"2026-01-01T{number // 60:02}:{number % 60:02}:00Z"


def settle(session: Session, case: Case) -> None:
    """What the world makes of a cycle: placed pods run, stopped ones are made anew, promises are forgotten."""
    cluster = session.cluster
    for key in list(cluster.reserved):
        if key in cluster.pipelined:
            cluster.release(key)
        else:
            cluster.confirm(key)
    for key in [key for key in cluster.waiting if key not in _pods(case)]:
        cluster.remove_pod(key)
    for key in sorted(cluster.leaving):
        job, number = _pods(case)[key]
        if job["Tasks"][number]["State"] == STUCK:
            cluster.restore(key)
        elif not job.get("DeleteJobInTest"):
            cluster.remove_pod(key)
            waiting = {**job["Tasks"][number], "State": "Pending"}
            again = {**job, "Tasks": [*job["Tasks"][:number], waiting, *job["Tasks"][number + 1 :]]}
            cluster.upsert_pod(pod_of(again, number))
    for stale in session.stale:
        (place,) = [n for n, job in enumerate(_oldest_first(case)) if stale.job == f"default/{job['Name']}"]
        add(cluster, group_of(_oldest_first(case)[place], place, {STALE_SINCE: stale.since}))
    assert cluster.now is not None
    cluster.now += 1


def statuses(cluster: Cluster, case: Case) -> dict[str, tuple[str, str | None]]:
    """Where each pod of a case stands in the world, in KAI's words, and on which node."""
    found: dict[str, tuple[str, str | None]] = {}
    for key, (job, number) in _pods(case).items():
        on = cluster.holders.get(key)
        given = job["Tasks"][number]["State"]
        state = "Pending" if on is None else "Releasing" if key in cluster.leaving else "Running"
        found[task_name(job, number)] = given if given in ("Failed", "Succeeded", STUCK) else state, on
    return found


def _pods(case: Case) -> dict[str, tuple[dict[str, Any], int]]:
    """The job of each pod and its number there."""
    pods = [(job, number) for job in case["jobs"] for number in range(len(job["Tasks"]))]
    return {f"{job.get('Namespace', 'default')}/{task_name(job, number)}": (job, number) for job, number in pods}
