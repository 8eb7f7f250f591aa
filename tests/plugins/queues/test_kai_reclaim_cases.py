"""KAI's own cases of taking back: what is stopped there may be stopped here."""

import pytest

from tests.kai_cases import Case, cluster_of, on_cases, plugins_of, read_cases, task_name
from tests.kai_outcomes import expected
from tests.plugins.eviction import Asking

STARTED, STOPPED = ("Pipelined", "Binding", "Running"), ("Releasing", "Pending")


def reclaims(case: Case) -> dict[str, list[str]]:
    """Pods that waited and start, one of each job, with the pods of other queues that are stopped meanwhile."""
    queues, before, first = {}, {}, {}
    for job in case["jobs"]:
        for number, task in enumerate(job["Tasks"]):
            name = task_name(job, number)
            queues[name], before[name] = job["QueueName"], task["State"]
            first.setdefault(job["Name"], name) if task["State"] == "Pending" else None
    after = {name: wanted.get("Status") for name, wanted in expected(case).items()}
    stopped = [name for name in after if before[name] == "Running" and after[name] in STOPPED]
    started = [name for name in first.values() if after.get(name) in STARTED]
    found = {name: [one for one in stopped if queues[one] != queues[name]] for name in started}
    # Who of several jobs something was stopped for cannot be told.
    return found if len(started) == 1 and all(found.values()) else {}


CASES = [case for case in read_cases() if case["run"] in ("reclaim", "cycle") and reclaims(case)]


@pytest.mark.kai_cases
def test_there_are_such_cases():
    assert len(CASES) >= 20


@on_cases(CASES, at_least=20)
def test_what_kai_stops_may_be_stopped(case):
    ((pod, victims),) = reclaims(case).items()
    asking = Asking(cluster_of(case), *plugins_of(case))
    assert asking.why_not(pod) is None
    assert asking.reclaimable(pod, *victims) == victims
