"""KAI's own cases of placing that need no queues, gangs or evictions: the same pods land on the same nodes."""

from typing import Any

import pytest

from tests.kai_cases import gpus_of, node_of, on_cases, pod_of, read_cases
from tests.plugins.scoring.kai import kai, session
from tests.scenario import scenario
from tonnage.cluster.task import make_task
from tonnage.model.wire import convert
from tonnage.plugins.catalog import plugin_class

NON_PREEMPTIBLE = 100
PLACED = ("Binding", "Running")
STATES = ("Running", "Pending", "StuckInReleasing")


def needs_placing_only(case: dict[str, Any]) -> bool:
    """Whether a case has one queue without limits, jobs of one pod, and nobody who must make room."""
    jobs, queues = case["jobs"], case["queues"]
    if case["run"] not in ("allocate", "cycle") or len(queues) != 1 or "MaxAllowedGPUs" in queues[0]:
        return False
    if any(len(job["Tasks"]) != 1 or job["Tasks"][0]["State"] not in STATES for job in jobs):
        return False
    if any(job["Tasks"][0].get("IsLegacyMigTask") for job in jobs) or any(not n for n in case["nodes"].values()):
        return False
    fixed = sum(gpus_of(job) for job in jobs if job["Priority"] >= NON_PREEMPTIBLE)
    stay = {job["Name"]: job["Tasks"][0]["State"] for job in jobs if job["Tasks"][0]["State"] != "Pending"}
    expected = case.get("expect_jobs", {})
    return (
        fixed <= queues[0].get("DeservedGPUs", 0)
        and all(expected.get(name, {}).get("Status") == state for name, state in stay.items())
        and all(found["Status"] in (*PLACED, *STATES) for found in expected.values())
    )


CASES = [case for case in read_cases() if needs_placing_only(case)]


@pytest.mark.kai_cases
def test_there_are_such_cases():
    assert len(CASES) >= 15


@on_cases(CASES, at_least=15)
def test_pods_land_where_kai_puts_them(case):
    jobs = sorted(case["jobs"], key=lambda job: -job["Priority"])
    cluster = scenario(*[node_of(name, given) for name, given in case["nodes"].items()])
    for job in jobs:
        if job["Tasks"][0]["State"] != "Pending":
            cluster.upsert_pod(pod_of(job, 0))
    plugins = kai()
    if "plugins" in case:
        kinds = [(plugin_class(one["name"]), one["args"]) for one in case["plugins"]]
        plugins = [kind(convert(given, kind.Arguments)) for kind, given in kinds if kind is not None]
    with session(cluster, *plugins) as opened:
        for job in jobs:
            if job["Tasks"][0]["State"] == "Pending":
                decision = opened.place(make_task(pod_of(job, 0), cluster.vendors))
                expected = case["expect_jobs"][job["Name"]]
                assert (decision.node is not None) == (expected["Status"] in PLACED), job["Name"]
                assert expected.get("NodeName") in (None, decision.node), job["Name"]
