"""The samples fit clusters of every size, as `tonnage schedule` finds on the same objects."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.cli.command import tonnage
from tonnage.cli.lab import command
from tonnage.lab.api import node_manifest
from tonnage.lab.samples import SAMPLES
from tonnage.simulator.workloads.demo import demo_nodes


def placed(sample: str, nodes: int, gpus: int, folder: Path) -> tuple[Counter[str], int, int]:
    """How many pods of each gang or queue are placed, on how many nodes, and how many pods there are in all."""
    made = demo_nodes(nodes, gpus, Random(0))
    objects = SAMPLES[sample].objects(sum(not node.spec.taints for node in made), gpus)
    file = folder / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*map(node_manifest, made), *objects]}))
    config = SAMPLES[sample].config
    done = tonnage("schedule", "-f", str(file), "-o", "json", *(["--config", str(config)] if config else []))
    assert done.returncode == 0, done.stderr
    decisions = json.loads(done.stdout)["decisions"]
    found = [one for one in decisions if one["outcome"] == "placed"]
    names = Counter(one["pod"].partition("/")[2].rpartition("-")[0] for one in found)
    return names, len({one["node"] for one in found}), len(decisions)


@pytest.mark.parametrize(("nodes", "gpus"), [(1, 1), (3, 2), (12, 8)])
def test_all_pods_that_share_run_at_once_on_few_nodes(nodes: int, gpus: int, tmp_path: Path) -> None:
    names, used, pods = placed("sharing", nodes, gpus, tmp_path)
    assert names.total() == pods
    assert used <= max(1, nodes // 4) or nodes == 3


@pytest.mark.parametrize(("nodes", "gpus"), [(3, 2), (12, 8)])
def test_three_of_four_gangs_run_whole_at_once(nodes: int, gpus: int, tmp_path: Path) -> None:
    names, _, pods = placed("gangs", nodes, gpus, tmp_path)
    assert sorted(names.values()) == [pods // 4] * 3


def test_two_queues_share_the_cluster_by_weight(tmp_path: Path) -> None:
    names, _, pods = placed("queues", 12, 8, tmp_path)
    assert pods == 44
    assert names == {"research": 15, "serving": 7}


def test_samples_that_only_the_batch_scheduler_can_show_say_so() -> None:
    assert {name for name, sample in SAMPLES.items() if sample.is_batch} == {"gangs", "queues"}


def test_the_command_offers_every_sample() -> None:
    (flag,) = [parameter for parameter in command.params if parameter.name == "sample"]
    assert list(getattr(flag.type, "choices", ())) == list(SAMPLES)
