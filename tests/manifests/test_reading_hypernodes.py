"""HyperNodes as people write them, and what is wrong with some."""

from tests.manifests.texts import read
from tonnage.model.hypernode import HyperNode

HYPERNODE = """\
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata:
  name: s0
spec:
  tier: 1
  tierName: leaf
  members:
  - type: Node
    selector:
      exactMatch:
        name: node-0
  - type: Node
    selector:
      regexMatch:
        pattern: "^node-[12]$"
  - type: Node
    selector:
      labelMatch:
        matchLabels: {rack: a}
        matchExpressions:
        - {key: zone, operator: In, values: [x]}
"""


def test_a_hypernode_as_people_write_it() -> None:
    manifests = read(HYPERNODE)
    (found,) = manifests.hypernodes
    assert isinstance(found, HyperNode)
    assert (found.name, found.spec.tier, found.spec.tierName) == ("s0", 1, "leaf")
    exact, pattern, labels = (member.selector for member in found.spec.members or ())
    assert exact.exactMatch is not None
    assert exact.exactMatch.name == "node-0"
    assert pattern.regexMatch is not None
    assert pattern.regexMatch.pattern == "^node-[12]$"
    assert labels.labelMatch is not None
    assert labels.labelMatch.matchLabels == {"rack": "a"}
    assert (manifests.problems, manifests.skipped) == ([], {})


def test_the_later_of_two_counts() -> None:
    manifests = read(f"{HYPERNODE}---\n{HYPERNODE.replace('tier: 1', 'tier: 2')}")
    assert [one.spec.tier for one in manifests.hypernodes] == [2]
    assert [problem.object for problem in manifests.problems] == ["HyperNode/s0"]


def test_what_cannot_be_read_is_a_problem_with_its_line_and_hides_nothing_else() -> None:
    for wrong in ("tier: high", "tier: -1", "tier: 99999999999999999999", "tier: 1.5"):
        other = HYPERNODE.replace("name: s0", "name: s1")
        manifests = read(f"{HYPERNODE.replace('tier: 1', wrong)}---\n{other}")
        assert [one.name for one in manifests.hypernodes] == ["s1"]
        (problem,) = manifests.problems
        assert (problem.object, problem.field, problem.position) == ("HyperNode/s0", "spec.tier", "FILE line 6")


def test_a_tier_must_be_said() -> None:
    (problem,) = read(HYPERNODE.replace("  tier: 1\n", "")).problems
    assert "the field tier is missing" in problem.message


def test_another_version_is_skipped() -> None:
    manifests = read(HYPERNODE.replace("v1alpha1", "v9"))
    assert manifests.skipped == {"topology.volcano.sh/v9 HyperNode": 1}
