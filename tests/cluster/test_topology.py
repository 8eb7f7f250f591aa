"""HyperNodes: their nodes, and the problems of invalid ones."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.topology.hypernodes import exact, hypernode, labelled, matching
from tests.properties.worlds import examples
from tests.scenario import node, problems, scenario
from tonnage.cluster.cluster import Cluster
from tonnage.model.hypernode import ExactMatch, HyperNode, Member, MemberSelector, RegexMatch
from tonnage.model.pattern import PatternError, name_pattern
from tonnage.model.selection import Expression


def network(*hypernodes: HyperNode, nodes: tuple[str, ...] = ("a1", "a2", "b1", "b2")) -> Cluster:
    cluster = scenario(*(node(name, labels={"rack": name[0], "number": name[1:]}) for name in nodes))
    for one in hypernodes:
        cluster.upsert_hypernode(one)
    return cluster


def members(cluster: Cluster) -> dict[str, list[str]]:
    return {name: sorted(nodes) for name, nodes in cluster.topology.membership().nodes.items()}


def test_members_by_name_pattern_and_labels() -> None:
    cluster = network(
        hypernode("by-name", 1, "a1", "b2"),
        hypernode("by-pattern", 1, matching("^a[0-9]+$"), matching("1")),
        hypernode("by-labels", 1, labelled(rack="b")),
        hypernode("by-rules", 1, labelled(Expression("number", "In", ["1", "3"]), Expression("gone", "DoesNotExist"))),
        hypernode("above", 2, "by-name", matching("^by-l", "HyperNode")),
    )
    assert members(cluster) == {
        "above": ["a1", "b1", "b2"],
        "by-labels": ["b1", "b2"],
        "by-name": ["a1", "b2"],
        "by-pattern": ["a1", "a2", "b1"],
        "by-rules": ["a1", "b1"],
    }
    assert problems(cluster) == []


def test_a_pattern_is_looked_for_anywhere_in_a_name() -> None:
    assert members(network(hypernode("h", 1, matching("1"))))["h"] == ["a1", "b1"]


def test_no_rule_about_labels_means_all_nodes() -> None:
    assert members(network(hypernode("h", 1, labelled())))["h"] == ["a1", "a2", "b1", "b2"]


def test_nodes_that_come_change_and_go_are_taken_over() -> None:
    cluster = network(hypernode("h", 1, labelled(rack="a")), hypernode("n", 1, matching("^c")))
    assert members(cluster) == {"h": ["a1", "a2"], "n": []}
    cluster.upsert_node(node("c1", labels={"rack": "a"}))
    assert members(cluster) == {"h": ["a1", "a2", "c1"], "n": ["c1"]}
    cluster.upsert_node(node("a1", labels={"rack": "b"}))
    cluster.remove_node("a2")
    assert members(cluster) == {"h": ["c1"], "n": ["c1"]}


def test_hypernodes_that_change_and_go_are_taken_over() -> None:
    cluster = network(hypernode("h", 1, "a1"), hypernode("top", 2, "h"))
    cluster.upsert_hypernode(hypernode("h", 1, "b1", "b2"))
    assert members(cluster) == {"h": ["b1", "b2"], "top": ["b1", "b2"]}
    cluster.remove_hypernode("h")
    cluster.remove_hypernode("h")
    assert members(cluster) == {"top": []}
    assert problems(cluster) == [("HyperNode/top", "spec.members[0].selector.exactMatch.name")]


@pytest.mark.parametrize(
    ("member", "field", "says"),
    [
        (exact("zz"), ".selector.exactMatch.name", "there is no Node zz; left out"),
        (exact("zz", "HyperNode"), ".selector.exactMatch.name", "there is no HyperNode zz; left out"),
        (matching("^zz"), ".selector.regexMatch.pattern", "'^zz' matches no Node"),
        (matching("a["), ".selector.regexMatch.pattern", "'a[' cannot be used: unterminated character set"),
        (matching("(?=a)"), ".selector.regexMatch.pattern", "(?= is not supported"),
        (matching("(a+)+$"), ".selector.regexMatch.pattern", "repeats something that holds a repetition"),
        (labelled(rack="zz"), ".selector.labelMatch", "matches no Node"),
        (labelled(kind="HyperNode", rack="a"), ".selector.labelMatch", "goes with nodes only; left out"),
        (labelled(Expression("rack", "In")), ".selector.labelMatch.matchExpressions", "In on rack needs values"),
        (labelled(Expression("number", "Gt", ["0"])), ".selector.labelMatch.matchExpressions", "'Gt' is for numbers"),
        (Member("Rack"), ".type", "'Rack' is no type of member; left out"),
        (Member("Node"), ".selector", "none of them given; left out"),
        (Member("Node", MemberSelector(ExactMatch("a1"), RegexMatch("a"))), ".selector", "2 of them given; left out"),
    ],
)
def test_a_member_that_makes_no_sense_is_left_out_and_said(member: Member, field: str, says: str) -> None:
    cluster = network(hypernode("h", 1, "a1", member, "b1"))
    assert members(cluster) == {"h": ["a1", "b1"]}
    (problem,) = cluster.problems()
    assert (problem.object, problem.field) == ("HyperNode/h", f"spec.members[1]{field}")
    assert says in problem.message


def test_circles_are_cut_and_said() -> None:
    cluster = network(
        hypernode("x", 2, exact("a1"), exact("y", "HyperNode")),
        hypernode("y", 3, exact("a2"), exact("z", "HyperNode")),
        hypernode("z", 4, exact("b1"), exact("x", "HyperNode")),
        hypernode("self", 2, exact("self", "HyperNode"), exact("b2")),
    )
    assert members(cluster) == {"self": ["b2"], "x": ["a1", "a2", "b1"], "y": ["a2", "b1"], "z": ["b1"]}
    said = [problem.message for problem in cluster.problems() if problem.field == "spec.members"]
    assert said == ["self contains self itself; left out", "x contains z itself; left out"]


def test_odd_tiers_and_several_parents_are_said_and_count() -> None:
    cluster = network(
        hypernode("leaf", 1, "a1"),
        hypernode("p1", 2, "leaf"),
        hypernode("p2", 2, "leaf"),
        hypernode("flat", 1, exact("p1", "HyperNode")),
    )
    assert members(cluster) == {"flat": ["a1"], "leaf": ["a1"], "p1": ["a1"], "p2": ["a1"]}
    said = [problem.message for problem in cluster.problems()]
    assert said == ["p1 is of tier 2, which is not below 1; it counts", "leaf is in p1 too; it counts in both"]


def test_a_member_named_twice_counts_once() -> None:
    cluster = network(hypernode("leaf", 1, "a1", "a1"), hypernode("top", 2, "leaf", matching("leaf", "HyperNode")))
    assert members(cluster)["top"] == ["a1"]
    assert problems(cluster) == []


def test_a_long_chain_is_no_trouble() -> None:
    chain = [hypernode(f"h{i:05}", i + 2, f"h{i - 1:05}") for i in range(1, 3000)]
    cluster = network(hypernode("h00000", 1, "a1"), *chain)
    assert members(cluster)["h02999"] == ["a1"]


@pytest.mark.parametrize(
    "text",
    [
        "^node-[0-9]+$",
        r"rack(1|2)-\d+",
        "(rack[0-9]+-)?gpu.*",
        "(ab)+c",
        "a{2,3}",
        "[[a]",
        "[]*+]x",
        "^(a|b)$",
        r"\(a+\)+",
    ],
)
def test_ordinary_patterns_work(text: str) -> None:
    name_pattern(text).search("node-1")


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+$",
        "(a|a)*$",
        "((a|b)c)*",
        "(x(a+)y)+",
        "([a-z]+-){9}",
        "(?:a*)*",
        "a" * 2000,
        "*a",
        r"(a)\1",
        "[[:alpha:]]",
    ],
)
def test_patterns_that_could_take_for_ever_or_mean_something_else_are_refused(text: str) -> None:
    with pytest.raises(PatternError):
        name_pattern(text)


@settings(max_examples=examples(200))
@given(st.text(st.sampled_from("ab1()[]|*+?{},\\^$.:-"), max_size=12))
def test_whatever_the_pattern_it_matches_or_is_refused(text: str) -> None:
    with suppress(PatternError):
        name_pattern(text).search("ab" * 20 + "1" * 20)


SMALL = st.integers(0, 5)


@settings(max_examples=examples(100))
@given(st.dictionaries(SMALL, st.lists(st.tuples(st.booleans(), SMALL), max_size=4), max_size=6))
def test_whatever_is_in_what_every_hypernode_gets_its_own_nodes(drawn: dict[int, list[tuple[bool, int]]]) -> None:
    """Against a search from every HyperNode, where there are no circles; with circles only nothing is invented."""
    made = [
        hypernode(f"h{i}", i, *(exact(f"n{j}") if is_node else exact(f"h{j}", "HyperNode") for is_node, j in parts))
        for i, parts in drawn.items()
    ]
    cluster = network(*made, nodes=tuple(f"n{i}" for i in range(4)))

    def reach(start: int, seen: frozenset[int]) -> set[str]:
        found = {f"n{j}" for is_node, j in drawn[start] if is_node and j < 4}
        for is_node, j in drawn[start]:
            if not is_node and j in drawn and j not in seen:
                found |= reach(j, seen | {j})
        return found

    circles = any("itself" in problem.message for problem in cluster.problems())
    for i in drawn:
        whole = reach(i, frozenset((i,)))
        found = set(members(cluster)[f"h{i}"])
        assert found <= whole if circles else found == whole
