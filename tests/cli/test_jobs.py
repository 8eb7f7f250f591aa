"""Jobs and queues through the command line."""

import json
from pathlib import Path

from tests.cli.command import tonnage
from tests.paths import ROOT

GANG = ROOT / "examples" / "gang.yaml"


def test_the_record_of_a_pod_names_its_job_and_queue() -> None:
    done = tonnage("schedule", "-f", str(GANG), "-o", "json")
    found = {one["pod"]: one for one in json.loads(done.stdout)["decisions"]}
    assert {one["job"] for one in found.values()} == {"research/train", "serving/chat"}
    assert {one["queue"] for one in found.values()} == {"research", "serving"}
    waits = found["research/train-0"]
    assert (waits["outcome"], waits["rejected"][0]["reason"]) == ("waiting", "JobNotReady")
    assert waits["message"].startswith("JobNotReady: research/train needs 4 of 4 pods placed, 3 fit; ")


def test_a_group_of_a_missing_queue_is_a_problem_and_the_others_are_served(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(GANG.read_text().replace("queue: research}", "queue: reserach}"))
    done = tonnage("schedule", "-f", str(path))
    assert done.returncode == 0
    assert "PodGroup/research/train: spec.queue: there is no queue reserach; its pods wait" in done.stdout
    assert "QueueNotFound: research/train is in queue reserach, which is not known" in done.stdout
    assert "2 pods placed, 4 waiting, on 1 node, 1 problem" in done.stdout


def test_volcanos_file_makes_the_same_of_it(tmp_path: Path) -> None:
    config = tmp_path / "volcano.conf"
    config.write_text(
        'actions: "enqueue, allocate, backfill"\n'
        "tiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  - name: binpack\n"
    )
    done = tonnage("schedule", "-f", str(GANG), "--config", str(config))
    assert "2 pods placed, 4 waiting, on 1 node" in done.stdout
    assert done.stderr == ""
    without = config.read_text().replace("  - name: gang\n", "  - name: gang\n    enableJobReady: false\n")
    config.write_text(without)
    done = tonnage("schedule", "-f", str(GANG), "--config", str(config))
    assert "3 pods placed, 3 waiting, on 1 node" in done.stdout


QUEUES = ROOT / "examples" / "queues.yaml"
SHARES = ROOT / "examples" / "queues-config.yaml"


def test_queues_are_in_the_document_with_what_they_deserve_hold_and_borrow() -> None:
    done = tonnage("schedule", "-f", str(QUEUES), "--config", str(SHARES), "-o", "json")
    found = {one["name"]: one for one in json.loads(done.stdout)["queues"]}
    assert found["research"]["resources"]["gpu"] == {
        "deserved": "1",
        "fairShare": "2",
        "allocated": "2",
        "borrowed": "1",
    }
    assert set(found) == {"research", "serving", "default"}


def test_there_is_no_table_of_queues_without_queues() -> None:
    done = tonnage("schedule", "-f", str(ROOT / "examples" / "cluster.yaml"), "--config", str(SHARES))
    assert done.returncode == 0
    assert "QUEUE " not in done.stdout
