"""`tonnage schedule` with Volcano's scoring plugins, on files as a user has them."""

from pathlib import Path

from tests.cli.command import cycle, manifest, tonnage
from tests.scenario import node, pod

LEAF = """\
---
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {name: NAME}
spec:
  tier: 1
  members:
  - {type: Node, selector: {regexMatch: {pattern: PATTERN}}}
"""


def configuration(folder: Path, plugin: str, arguments: str = "{}") -> Path:
    file = folder / "scheduler.yaml"
    file.write_text(f"actions: allocate\ntiers:\n- plugins:\n  - name: {plugin}\n    arguments: {arguments}\n")
    return file


def test_hypernodes_of_a_file_lead_a_pod_to_the_fuller_rack(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    nodes = [node(name, cpu=8) for name in ("a1", "a2", "b1", "b2")]
    cluster.write_text(manifest(*nodes, pod("busy", on="b1", cpu=8), pod("new", cpu=2)))
    network = tmp_path / "network.yaml"
    network.write_text(
        LEAF.replace("NAME", "a").replace("PATTERN", "'^a'") + LEAF.replace("NAME", "b").replace("PATTERN", "'^b'")
    )
    config = configuration(tmp_path, "network-topology-aware")
    found = cycle("-f", cluster, "-f", network, "--config", config)
    assert [decision["node"] for decision in found["decisions"]] == ["b2"]
    assert found["problems"] == []


def test_what_is_wrong_with_a_hypernode_is_among_the_problems(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(manifest(node("a1"), pod("new", cpu=2)))
    network = tmp_path / "network.yaml"
    network.write_text(LEAF.replace("NAME", "a").replace("PATTERN", "'(a+)+$'"))
    found = cycle("-f", cluster, "-f", network, "--config", configuration(tmp_path, "network-topology-aware"))
    assert [decision["node"] for decision in found["decisions"]] == ["a1"]
    assert [problem["object"] for problem in found["problems"]] == ["HyperNode/a"]


def test_what_is_kept_for_cards_shows_as_a_reason(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    gpus = {"nvidia.com/gpu": 4}
    cluster.write_text(manifest(node("a", gpus=4, cpu=40, **gpus), pod("small", cpu=8), pod("wide", cpu=9)))
    keep = "{proportional: {enable: true, resources: nvidia.com/gpu, resourceProportion: {nvidia.com/gpu.cpu: 6}}}"
    done = tonnage("schedule", "-f", cluster, "--config", configuration(tmp_path, "resource-strategy-fit", keep))
    assert done.returncode == 0, done.stderr
    assert (
        "ReservedForScarceResource, such as a: cpu: wants 9, 32 free, of which 24 are kept for 4 nvidia.com/gpu"
        in done.stdout
    )
