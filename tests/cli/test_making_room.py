"""`tonnage schedule` where a team takes back its share: who goes, for whom, where to, and who waits for what."""

from pathlib import Path

import pytest

from tests.cli.command import EXAMPLES, cycle, schedule

ARGUMENTS = ("-f", EXAMPLES / "reclaim.yaml", "--config", EXAMPLES / "reclaim-config.yaml")


def table(text: str, header: str) -> list[list[str]]:
    """The rows of the table whose first column is called so."""
    (found,) = [part for part in text.split("\n\n") if part.startswith(header)]
    return [line.split(maxsplit=4) for line in found.splitlines()[1:]]


def test_the_table_names_who_has_to_go_for_whom_and_where_to() -> None:
    why = "queue serving takes back its share"
    assert table(schedule(*ARGUMENTS), "EVICTED") == [
        ["research/sweep-5", "gpu-2", "serving/rank", "-", why],
        ["research/sweep-3", "gpu-1", "serving/rank", "-", why],
        ["research/sweep-2", "gpu-1", "serving/rank", "gpu-3", why],
    ]


def test_the_gang_waits_for_those_who_leave_and_another_job_for_its_share() -> None:
    text = schedule(*ARGUMENTS)
    assert "    goes to gpu-2 once research/sweep-2, research/sweep-3, research/sweep-5 left\n" in text
    assert "  reclaim: queue research holds 4 of its share of 4 gpu; the job asks for 2 more\n" in text
    assert "  preempt: needs 1 × 2 nvidia.com/gpu with 2 cpu; no node could hold one even if all went" in text


def test_the_document_says_the_same() -> None:
    document = cycle(*ARGUMENTS)
    assert document["evictions"] == [
        {
            "pod": f"research/sweep-{number}",
            "node": node,
            "for": "serving/rank",
            "reason": why,
            "action": "reclaim",
            **to,
        }
        for number, node, to in ((5, "gpu-2", {}), (3, "gpu-1", {}), (2, "gpu-1", {"to": "gpu-3"}))
        for why in ["queue serving takes back its share"]
    ]
    (job,) = document["jobs"]
    assert (job["name"], job["queue"], job["asks"]) == (
        "research/train-0",
        "research",
        "1 × 2 nvidia.com/gpu with 2 cpu",
    )
    assert [(one["action"], one["reason"]) for one in job["waitsFor"]] == [
        ("reclaim", "QueueBeyondFairShare"),
        ("preempt", "NoRoomCanBeMade"),
    ]
    told = {one["pod"]: (one["outcome"], one.get("message", "")) for one in document["decisions"]}
    gone = "research/sweep-2, research/sweep-3, research/sweep-5 left"
    assert told["serving/rank-0"] == ("waiting", f"goes to gpu-1 once {gone}")
    assert told["serving/rank-1"] == ("waiting", f"goes to gpu-2 once {gone}")
    shares = {one["name"]: one["resources"]["gpu"]["allocated"] for one in document["queues"]}
    assert shares == {"research": "4", "serving": "6", "default": "0"}


def test_the_same_again_gives_the_same() -> None:
    assert schedule(*ARGUMENTS) == schedule(*ARGUMENTS, stdin="not read")


MIXED = """
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 2, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: theirs}
spec: {nodeName: a, schedulerName: other, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: ours}
spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
status: {phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: high}
spec: {priority: 50, schedulerName: SCHEDULER, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""
PREEMPT = "actions: allocate, preempt\ntiers:\n- plugins:\n  - name: priority\n"


@pytest.mark.parametrize(("scheduler", "gone"), [("default-scheduler", "default/ours"), ("other", "default/theirs")])
def test_only_pods_of_schedulers_that_pending_pods_name_are_stopped(scheduler: str, gone: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(MIXED.replace("SCHEDULER", scheduler))
    (tmp_path / "config.yaml").write_text(PREEMPT)
    document = cycle("-f", tmp_path / "cluster.yaml", "--config", tmp_path / "config.yaml")
    assert [eviction["pod"] for eviction in document["evictions"]] == [gone]
