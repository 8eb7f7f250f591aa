"""The example on which fragmentation-aware packing places more pods than the default."""

from pathlib import Path

import pytest

from tests.cli.command import decided, tonnage
from tests.paths import ROOT

CLUSTER, CONFIG = ROOT / "examples/fragmentation.yaml", ROOT / "examples/fgd.yaml"


def placed(*options: str) -> dict[str, str]:
    """The nodes of the placed pods."""
    found = decided("-f", CLUSTER, *options)
    return {name.removeprefix("default/"): one["node"] for name, one in found.items() if one["outcome"] == "placed"}


@pytest.mark.parametrize(
    "options", [[], ["--gpu-scheduler-policy", "binpack"], ["--node-scheduler-policy", "spread"]], ids=" ".join
)
def test_the_default_leaves_every_pod_waiting_that_needs_an_a100(options: list[str]) -> None:
    assert set(placed(*options)) == {"etl", *(f"notebook-{number}" for number in range(4))}


def test_with_the_configuration_every_pod_runs_and_a100s_are_kept_for_those_that_need_them() -> None:
    nodes = placed("--config", str(CONFIG))
    assert len(nodes) == 9
    assert {name for name, node in nodes.items() if node == "a100-1"} == {f"train-{number}" for number in range(4)}


def test_the_names_of_nodes_make_no_difference(tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.yaml"
    renamed.write_text(CLUSTER.read_text().replace("name: a100-1", "name: z"))
    found = decided("-f", renamed, "--config", CONFIG)
    assert {one["outcome"] for one in found.values()} == {"placed"}


def test_on_the_cluster_of_all_kinds_the_configuration_places_as_many_as_the_default() -> None:
    cluster = ROOT / "examples/cluster.yaml"
    default, aware = decided("-f", cluster), decided("-f", cluster, "--config", CONFIG)
    running = {name for name, one in default.items() if one["outcome"] == "placed"}
    assert {name for name, one in aware.items() if one["outcome"] == "placed"} == running


def test_tonnage_up_takes_the_configuration_without_a_word() -> None:
    done = tonnage("up", "--config", CONFIG, "--nodes", "4", "--duration", "30m", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
