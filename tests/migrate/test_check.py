"""`tonnage migrate check` on the objects of a cluster: what it finds, replays, cannot read and prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import tonnage
from tests.migrate.scenes import config_map, gpu_node, hami, hami_pod, volcano, written


def checked(peer: str, file: str) -> dict[str, Any]:
    done = tonnage("migrate", "check", "--from", peer, "-f", file, "-o", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_hamis_flags_devices_and_pods_are_read_and_replayed(tmp_path: Path) -> None:
    pods = [hami_pod("first", "a", "a/1", 1), hami_pod("second", "a", "a/0", 2), hami_pod("odd", "a", "a/0", 3)]
    file = written(
        tmp_path, *hami("--frobnicate=1", "--profiling"), gpu_node("a"), gpu_node("b"), *pods, hami_pod("next")
    )
    found = checked("hami", file)
    assert found["found"] == "HAMi v2.10.0, Deployment kube-system/hami-scheduler"
    assert found["problems"] == []
    assert any("schedulerName hami-scheduler" in line for line in found["same"])
    assert any("nodes spread, cards spread" in line for line in found["same"])
    assert any("3 running pods stay where they are" in line for line in found["same"])
    assert any("of 1 pods that wait, 1 would be placed at once" in line for line in found["same"])
    assert any("--frobnicate" in line for line in found["unsupported"])
    assert any("--profiling" in line for line in found["unsupported"])
    # By spread the first pod goes to a, as HAMi did it, and the others to the empty node b.
    assert found["replay"] == {"pods": 3, "samePlace": 1, "sameNode": 0, "otherNode": 2, "waiting": 0}
    (other,) = found["differs"]
    assert other["example"].startswith("default/second: is on a, would be on b")
    assert "kubectl -n kube-system scale deployment hami-scheduler --replicas=0" in found["move"]
    assert "kubectl -n kube-system scale deployment hami-scheduler --replicas=2" in found["back"]


def test_the_text_says_the_same_in_words(tmp_path: Path) -> None:
    file = written(tmp_path, *hami(), gpu_node("a"), hami_pod("p", "a", "a/1"))
    done = tonnage("migrate", "check", "--from", "hami", "-f", file)
    assert done.returncode == 0, done.stderr
    for words in ("The same:", "Different:\n  * nothing", "Not supported:", "The move:", "The way back:"):
        assert words in done.stdout
    assert "Could not be read" not in done.stdout


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([], "HAMi's scheduler was not found"),
        (hami(devices="nvidia: [")[:2], "the device configuration is not valid"),
        (hami()[:1], "/device-config.yaml of Deployment kube-system/hami-scheduler is not known"),
        ([{**hami()[0], "spec": 7}], "a Deployment cannot be read"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(tmp_path: Path, objects: list[dict[str, Any]], said: str) -> None:
    found = checked("hami", written(tmp_path, *objects, gpu_node("a")))
    assert any(said in line for line in found["problems"]), found["problems"]


VOLCANO = """
actions: "enqueue, allocate, backfill, shuffle"
tiers:
- plugins:
  - name: gang
  - name: tdm
  - name: binpack
"""


def test_volcanos_configuration_is_read_and_what_has_no_effect_is_said(tmp_path: Path) -> None:
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    queues = {**definition, "metadata": {"name": "queues.scheduling.volcano.sh"}}
    pods = [hami_pod("p", "a", "a/1", scheduler="volcano")]
    file = written(tmp_path, *volcano(VOLCANO, "--schedule-period=1s"), queues, gpu_node("a"), *pods)
    found = checked("volcano", file)
    assert found["found"] == "Volcano v1.15.1, Deployment volcano-system/volcano-scheduler"
    assert found["problems"] == [
        "the definition podgroups.scheduling.volcano.sh is not installed; its objects are none"
    ]
    assert any("actions enqueue, allocate, backfill" in line for line in found["same"])
    assert found["replay"]["pods"] == 1
    told = "\n".join(found["unsupported"])
    for words in ("shuffle", "tdm", "--schedule-period: cycles start when something changes"):
        assert words in told


def test_a_configuration_that_is_not_valid_is_said_with_its_line(tmp_path: Path) -> None:
    found = checked("volcano", written(tmp_path, *volcano("actions: allocate\ntiers:\n- plugin: []\n"), gpu_node("a")))
    (problem,) = found["problems"]
    assert "the configuration is not valid, Volcano's default is assumed" in problem
    assert ":3:" in problem


def test_kai_without_its_scheduler_is_checked_with_its_defaults(tmp_path: Path) -> None:
    others = config_map("default", "unrelated", a="b")
    found = checked("kai", written(tmp_path, others, gpu_node("a"), hami_pod("p", scheduler="kai-scheduler")))
    assert "KAI's scheduler was not found" in found["problems"][0]
    assert any("of 1 pods that wait" in line for line in found["same"])


def test_usage(tmp_path: Path) -> None:
    done = tonnage("migrate", "check", "--from", "hami", "-f", written(tmp_path, *hami()))
    assert done.returncode == 2
    assert "there are no nodes" in done.stderr
    done = tonnage("migrate", "check", "--from", "slurm", "-f", "x")
    assert done.returncode == 2
    assert "'slurm' is not one of 'hami', 'volcano', 'kai'" in done.stderr
    done = tonnage("migrate", "check", "--from", "hami", "-f", "x", "--context", "y")
    assert done.returncode == 2
