"""Topologies and what groups say about closeness, as people write them."""

from tests.manifests.texts import read

TOPOLOGY = """\
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: network}
spec:
  levels:
  - nodeLabel: topology/zone
    alias: zone
  - nodeLabel: topology/rack
"""


def test_a_topology_as_people_write_it() -> None:
    manifests = read(TOPOLOGY)
    (found,) = manifests.topologies
    assert found.labels == ("topology/zone", "topology/rack")
    assert manifests.problems == []


def test_a_level_without_a_label_is_told_with_its_line() -> None:
    manifests = read(TOPOLOGY.replace("nodeLabel: topology/rack", "label: topology/rack"))
    assert manifests.topologies == []
    (problem,) = manifests.problems
    assert (problem.object, problem.field) == ("Topology/network", "spec.levels[1]")
    assert "nodeLabel" in problem.message


def test_a_mode_that_there_is_not_is_told() -> None:
    manifests = read(
        """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec:
  minMember: 2
  networkTopology: {mode: firm}
"""
    )
    assert manifests.groups == []
    (problem,) = manifests.problems
    assert problem.field == "spec.networkTopology.mode"
