"""Outcomes of KAI's cases: where each pod stands after a cycle, and what the case expects of it."""

from typing import Any

from tests.groups import add
from tests.kai_cases import (
    STUCK,
    Case,
    asks_for_a_part,
    cluster_of,
    gpus_of,
    group_of,
    key_of,
    oldest_first,
    pod_of,
    pods_of,
    task_name,
)
from tests.scenario import usage
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.group import STALE_SINCE
from tonnage.framework.session import Session


def states(session: Session, case: Case) -> dict[str, tuple[str, str | None]]:
    """Where each pod of a case stands after a cycle, in KAI's words, and on which node."""
    found: dict[str, tuple[str, str | None]] = {}
    evictions = {eviction.pod: eviction for eviction in session.evictions}
    for job in case["jobs"]:
        for number, task in enumerate(job["Tasks"]):
            name, key = task_name(job, number), key_of(job, number)
            decision, eviction = session.decisions.get(key), evictions.get(key)
            if eviction is not None and eviction.to:
                found[name] = "Pipelined", eviction.to
            elif key in session.cluster.leaving:
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


def settle(session: Session, case: Case) -> None:
    """What the world makes of a cycle: placed pods run, stopped ones are made anew, promises are forgotten."""
    cluster = session.cluster
    for key in list(cluster.reserved):
        if key in cluster.pipelined:
            cluster.release(key)
        else:
            cluster.confirm(key)
    for key in [key for key in cluster.waiting if key not in pods_of(case)]:
        cluster.remove_pod(key)
    for key in sorted(cluster.leaving):
        job, number = pods_of(case)[key]
        if job["Tasks"][number]["State"] == STUCK:
            cluster.restore(key)
        elif not job.get("DeleteJobInTest"):
            cluster.remove_pod(key)
            waiting = {**job["Tasks"][number], "State": "Pending"}
            again = {**job, "Tasks": [*job["Tasks"][:number], waiting, *job["Tasks"][number + 1 :]]}
            cluster.upsert_pod(pod_of(again, number))
    for stale in session.stale:
        jobs = oldest_first(case)
        (place,) = [n for n, job in enumerate(jobs) if stale.job == f"{job.get('Namespace', 'default')}/{job['Name']}"]
        add(cluster, group_of(jobs[place], len(jobs) - place, {STALE_SINCE: stale.since}))
    assert cluster.now is not None
    cluster.now += 1


def statuses(cluster: Cluster, case: Case) -> dict[str, tuple[str, str | None]]:
    """Where each pod of a case stands in the world, in KAI's words, and on which node."""
    found: dict[str, tuple[str, str | None]] = {}
    for key, (job, number) in pods_of(case).items():
        on = cluster.holders.get(key)
        given = job["Tasks"][number]["State"]
        state = "Pending" if on is None else "Releasing" if key in cluster.leaving else "Running"
        found[task_name(job, number)] = given if given in ("Failed", "Succeeded", STUCK) else state, on
    return found


# -- what else a case expects


def figures(case: Case) -> dict[str, dict[str, float]]:
    """What the pods of each job ask for together, or one pod of its own, in the words of an expectation."""
    cluster = cluster_of({**case, "jobs": [_as_waiting(job) for job in case["jobs"]]})
    found: dict[str, dict[str, float]] = {}
    for key, (job, number) in pods_of(case).items():
        requests = dict(cluster.waiting[key].requests)
        gpus = gpus_of({**job, "Tasks": [job["Tasks"][number]]})
        each = {
            "GPUsRequired": gpus,
            "MilliCpuRequired": requests.get("cpu", 0),
            "MemoryRequired": requests.get("memory", 0),
        }
        found[task_name(job, number)] = each
        together = found.setdefault(job["Name"], {})
        found[job["Name"]] = {name: together.get(name, 0) + value for name, value in each.items()}
    return found


def _as_waiting(job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "Tasks": [{**task, "State": "Pending"} for task in job["Tasks"]]}


def shared_cards(cluster: Cluster, case: Case) -> list[tuple[str, str, bool, bool]]:
    """Pairs of pods with parts of cards on one node: whether they share one in the case, and whether they do here."""
    named = {}
    for key, (job, number) in pods_of(case).items():
        wanted = expected(case).get(task_name(job, number), {})
        if (
            "GPUGroups" in wanted
            and not wanted.get("DontValidateGPUGroup")
            and asks_for_a_part(job, job["Tasks"][number])
        ):
            named[key] = set(wanted["GPUGroups"])
    staying = [key for key in named if key in cluster.holders and key not in cluster.leaving]
    held = {key: (cluster.holders[key], _cards(cluster, key)) for key in staying}
    return [
        (one, other, bool(named[one] & named[other]), bool(held[one][1] & held[other][1]))
        for one in held
        for other in held
        if one < other and held[one][0] == held[other][0]
    ]


def _cards(cluster: Cluster, key: str) -> set[str]:
    state = cluster.nodes[cluster.holders[key]]
    return {card.uuid for use in state.uses(key) for card in use.cards}


def cards_of_nodes(cluster: Cluster) -> dict[str, dict[str, int]]:
    """How many cards of each node nobody uses, and how many only pods use that are leaving."""
    idle = {name: usage(cluster, name).count((0, 0, 0)) for name in cluster.nodes}
    for key in sorted(cluster.leaving):
        cluster.remove_pod(key)
    later = {name: usage(cluster, name).count((0, 0, 0)) for name in cluster.nodes}
    return {name: {"IdleGPUs": idle[name], "ReleasingGPUs": later[name] - idle[name]} for name in idle}
