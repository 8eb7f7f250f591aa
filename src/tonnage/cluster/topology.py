"""The topology of the network: HyperNodes with the nodes in each, and Topologies.

Members may be nodes or other HyperNodes, by name, pattern or labels. Members that are not there, patterns that cannot
be read and circles are left out, each with a Problem.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tonnage.cluster.nodestate import NodeState
from tonnage.model.hypernode import HYPERNODE, NODE, HyperNode, LabelMatch, Member
from tonnage.model.node import Node
from tonnage.model.pattern import PatternError, name_pattern
from tonnage.model.problem import Problem
from tonnage.model.selection import SelectionError, check, holds
from tonnage.model.topology import Topology

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class Membership(NamedTuple):
    """The nodes of every HyperNode by name, including those of its members, and the problems of HyperNodes."""

    nodes: dict[str, frozenset[str]]
    problems: list[Problem]


class TopologyIndex:
    """HyperNodes and Topologies by name, with the membership worked out on demand."""

    def __init__(self, nodes: Mapping[str, NodeState]) -> None:
        self._nodes = nodes
        self.hypernodes: dict[str, HyperNode] = {}
        self.topologies: dict[str, Topology] = {}
        self.version = 0
        """Goes up whenever HyperNodes, nodes or their labels change."""
        self._membership: tuple[int, Membership] = -1, Membership({}, [])

    def membership(self) -> Membership:
        """The nodes in each HyperNode, and the problems of HyperNodes."""
        version, known = self._membership
        if version != self.version:
            known = membership(self.hypernodes, {name: state.node for name, state in self._nodes.items()})
            self._membership = self.version, known
        return known

    def problems(self) -> Iterator[Problem]:
        """Everything wrong with HyperNodes and Topologies, each in the order of names."""
        yield from self.membership().problems
        for name in sorted(self.topologies):
            yield from topology_problems(self.topologies[name])


def membership(hypernodes: Mapping[str, HyperNode], nodes: Mapping[str, Node]) -> Membership:
    """Work out the nodes in each HyperNode, in the order of HyperNodes' names."""
    problems: list[Problem] = []
    own: dict[str, set[str]] = {}
    children: dict[str, list[str]] = {}
    parents: dict[str, str] = {}
    for name in sorted(hypernodes):
        own[name], children[name] = set(), []
        for number, member in enumerate(hypernodes[name].spec.members or ()):
            try:
                found = list(_matching(member, hypernodes, nodes))
            except _MemberError as error:
                field = f"spec.members[{number}]{error.field}"
                problems.append(Problem(f"HyperNode/{name}", field, "", error.expected, error.message))
                continue
            if member.type == NODE:
                own[name].update(found)
                continue
            for child in found:
                if child in children[name]:
                    continue
                children[name].append(child)
                problems += _about_child(hypernodes[name], number, hypernodes[child], parents)
                parents.setdefault(child, name)
    return Membership(_with_children(own, children, problems), problems)


class _MemberError(ValueError):
    """An invalid member: the field, what was expected, and what is wrong."""

    def __init__(self, field: str, expected: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.expected = expected
        self.message = message


def _matching(member: Member, hypernodes: Mapping[str, HyperNode], nodes: Mapping[str, Node]) -> Iterable[str]:
    """The names that a member selects."""
    if member.type not in (NODE, HYPERNODE):
        raise _MemberError(".type", f"{NODE} or {HYPERNODE}", f"{member.type!r} is no type of member; left out")
    selector, known = member.selector, (nodes if member.type == NODE else hypernodes)
    given = [part for part in (selector.exactMatch, selector.regexMatch, selector.labelMatch) if part is not None]
    if len(given) != 1:
        expected = "exactly one of exactMatch, regexMatch and labelMatch"
        raise _MemberError(".selector", expected, f"{len(given) or 'none'} of them given; left out")
    if selector.exactMatch is not None:
        name = selector.exactMatch.name
        if name not in known:
            message = f"there is no {member.type} {name}; left out"
            raise _MemberError(".selector.exactMatch.name", f"a known {member.type}", message)
        return [name]
    if selector.regexMatch is not None:
        field, text = ".selector.regexMatch.pattern", selector.regexMatch.pattern
        try:
            pattern = name_pattern(text)
        except PatternError as error:
            raise _MemberError(field, "a pattern", f"{text!r} cannot be used: {error}; left out") from error
        found = [name for name in sorted(known) if pattern.search(name)]
        if not found:
            raise _MemberError(field, f"the name of a known {member.type}", f"{text!r} matches no {member.type}")
        return found
    if member.type != NODE:
        raise _MemberError(".selector.labelMatch", "exactMatch or regexMatch", "goes with nodes only; left out")
    meets = _label_rule(selector.labelMatch or LabelMatch())
    found = [name for name in sorted(nodes) if meets(nodes[name].labels)]
    if not found:
        raise _MemberError(".selector.labelMatch", "labels of a known Node", "matches no Node")
    return found


def _label_rule(match: LabelMatch) -> Callable[[Mapping[str, str]], bool]:
    wanted, expressions = (match.matchLabels or {}).items(), match.matchExpressions or ()
    for expression in expressions:
        try:
            check(expression)
            fault = "" if expression.operator in _OPERATORS else f"operator {expression.operator!r} is for numbers"
        except SelectionError as error:
            fault = str(error)
        if fault:
            expected = f"an operator of {', '.join(_OPERATORS)}, with values for the first two"
            raise _MemberError(".selector.labelMatch.matchExpressions", expected, f"{fault}; left out")

    def meets(labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in wanted) and all(
            holds(expression, labels.get(expression.key)) for expression in expressions
        )

    return meets


def _about_child(parent: HyperNode, number: int, child: HyperNode, parents: Mapping[str, str]) -> Iterator[Problem]:
    """The problems of one HyperNode being a member of another; its nodes count all the same."""
    name, field = f"HyperNode/{parent.name}", f"spec.members[{number}]"
    if child.spec.tier >= parent.spec.tier:
        message = f"{child.name} is of tier {child.spec.tier}, which is not below {parent.spec.tier}; it counts"
        yield Problem(name, field, child.name, "members of a lower tier", message)
    if child.name in parents:
        message = f"{child.name} is in {parents[child.name]} too; it counts in both"
        yield Problem(name, field, child.name, "every HyperNode in one other", message)


def _with_children(
    own: dict[str, set[str]], children: dict[str, list[str]], problems: list[Problem]
) -> dict[str, frozenset[str]]:
    """The nodes of each HyperNode and of all below it; members that close a circle are left out."""
    done: dict[str, frozenset[str]] = {}
    for start in own:
        path: dict[str, Iterator[str]] = {} if start in done else {start: iter(children[start])}
        while path:
            name = next(reversed(path))
            child = next(path[name], None)
            if child is None:
                del path[name]
                done[name] = frozenset(own[name])
                if path:
                    own[next(reversed(path))] |= own[name]
            elif child in path:
                message = f"{child} contains {name} itself; left out"
                problems.append(Problem(f"HyperNode/{name}", "spec.members", child, "no circles", message))
            elif child in done:
                own[name] |= done[child]
            else:
                path[child] = iter(children[child])
    return done


def topology_problems(topology: Topology) -> Iterator[Problem]:
    """The problems of a Topology's levels."""
    name, seen = f"Topology/{topology.name}", set[str]()
    if not topology.labels:
        yield Problem(name, "spec.levels", "", "at least one level", "there are no levels, so that no job can use it")
    for number, level in enumerate(topology.spec.levels or ()):
        if level.nodeLabel in seen:
            message = f"the label {level.nodeLabel} is a level already; this one is left out"
            yield Problem(name, f"spec.levels[{number}].nodeLabel", "", "every label once", message)
        seen.add(level.nodeLabel)
