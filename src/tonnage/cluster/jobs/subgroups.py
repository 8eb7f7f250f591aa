"""Subgroups: parts of a group that are placed whole, each perhaps in one topology domain.

KAI's PodGroup names its subgroups, which may contain others; a label of a pod says in which it is. Volcano's policies
divide pods by the values of labels. Both become a tree: a subgroup without subgroups is complete with so many pods,
another one with so many complete subgroups.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from tonnage.cluster.jobs.topologyconstraint import HyperNodeConstraint, LabelConstraint, in_network, said_constraint
from tonnage.model.excerpt import quoted
from tonnage.model.group import SubGroup, SubGroupPolicy
from tonnage.model.meta import NOTHING
from tonnage.model.pod import Pod
from tonnage.model.podselector import meets, requirements
from tonnage.model.selection import Expression, SelectionError

KAI_ROLE = "kai.scheduler/subgroup-name"
MOST_DEPTH = 16
"""How deep subgroups may nest."""
Path = tuple[str, ...]
"""The names of a subgroup and of those around it, the outermost first; empty for the whole group."""
CountPods = Callable[[Path], int]
"""How many pods of a subgroup without subgroups count."""


class SubGroupRule(msgspec.Struct, gc=False, frozen=True):
    """What a group says of a subgroup."""

    size: int = 0
    """With how many pods it is complete if it has no subgroups."""
    needed: int | None = None
    """With how many complete subgroups it is complete; nothing if all must be."""
    near: LabelConstraint | None = None
    network: HyperNodeConstraint | None = None

    @property
    def is_kept_together(self) -> bool:
        """Whether its pods have a topology constraint."""
        return self.near is not None or self.network is not None


class SubGroupLabels(msgspec.Struct, gc=False, frozen=True):
    """The pods that a policy divides into subgroups: by the values of some of their labels."""

    policy: str
    wanted: tuple[Expression, ...]
    keys: tuple[str, ...]
    each: SubGroupRule
    """The rule of each of the subgroups."""

    def path_of(self, labels: Mapping[str, str]) -> Path | None:
        """The subgroup of a pod with these labels; nothing if the policy is not about it."""
        values = [labels.get(key) for key in self.keys]
        if not all(values) or not meets(labels, self.wanted):
            return None
        return self.policy, "-".join([value for value in values if value])


class SubGroups(msgspec.Struct, gc=False, frozen=True):
    """The subgroups of a group, as its object gives them."""

    rules: Mapping[Path, SubGroupRule]
    """Rules of named subgroups and of policies."""
    named: Mapping[str, Path] = msgspec.field(default_factory=dict[str, Path])
    """Subgroups of pods, by KAI's label."""
    policies: tuple[SubGroupLabels, ...] = ()

    def rule(self, path: Path) -> SubGroupRule:
        known = self.rules.get(path)
        if known is not None:
            return known
        return next((one.each for one in self.policies if (one.policy,) == path[:-1]), SubGroupRule())

    def path_of(self, pod: Pod) -> Path:
        """The subgroup that a pod is in; empty if it is in none."""
        labels = pod.metadata.labels or NOTHING
        if self.named:
            return self.named.get(labels.get(KAI_ROLE, ""), ())
        for policy in self.policies:
            path = policy.path_of(labels)
            if path is not None:
                return path
        return ()

    def constraints(self) -> list[SubGroupRule]:
        """The rules with a topology constraint."""
        rules = [*self.rules.values(), *(one.each for one in self.policies)]
        return [rule for rule in rules if rule.is_kept_together]


class SubGroupTree:
    """The subgroups that a job has: those that its group names, and those that labels of its pods make."""

    def __init__(self, said: SubGroups, leaves: Iterable[Path] = ()) -> None:
        self._said = said
        children: dict[Path, dict[Path, None]] = {(): {}}
        for path in (*said.rules, *sorted(leaves)):
            for depth in range(len(path)):
                children.setdefault(path[:depth], {})[path[: depth + 1]] = None
        for path, rule in said.rules.items():
            if rule.needed is not None:
                children.setdefault(path, {})
        self._children = {path: tuple(inside) for path, inside in children.items()}

    def children(self, path: Path) -> tuple[Path, ...] | None:
        """The subgroups directly inside of one; nothing if it consists of pods."""
        return self._children.get(path)

    def shortfalls(self, count: CountPods, path: Path = ()) -> dict[Path, int]:
        """What is missing of a subgroup until it is complete: pods, or complete subgroups where some of them do."""
        children, rule = self._children.get(path), self._said.rule(path)
        if children is None:
            missing = rule.size - count(path)
            return {path: missing} if missing > 0 else {}
        short = [found for child in children if (found := self.shortfalls(count, child))]
        if rule.needed is None:
            return {inside: missing for found in short for inside, missing in found.items()}
        missing = rule.needed - (len(children) - len(short))
        return {path: missing} if missing > 0 else {}

    def missing(self, count: CountPods, path: Path = ()) -> int:
        """How many pods a subgroup lacks at least until it is complete."""
        children, rule = self._children.get(path), self._said.rule(path)
        if children is None:
            return max(rule.size - count(path), 0)
        lacking = sorted([self.missing(count, child) for child in children])
        return sum(lacking if rule.needed is None else lacking[: rule.needed])


def by_policies(policies: Iterable[SubGroupPolicy]) -> tuple[SubGroups | None, list[tuple[str, str]]]:
    """The subgroups of Volcano's policies, and fields without effect with the reason."""
    rules: dict[Path, SubGroupRule] = {}
    divided: list[SubGroupLabels] = []
    without: list[tuple[str, str]] = []
    for number, policy in enumerate(policies):
        field = f"spec.subGroupPolicy[{number}]"
        name = policy.name if policy.name and (policy.name,) not in rules else f"{policy.name}[{number}]"
        rules[(name,)] = SubGroupRule(needed=policy.minSubGroups or 0)
        each = SubGroupRule(1 if policy.subGroupSize is None else policy.subGroupSize)
        each = msgspec.structs.replace(each, network=in_network(policy.networkTopology))
        try:
            wanted = requirements(policy.labelSelector) if policy.labelSelector is not None else ()
        except SelectionError as error:
            without.append((f"{field}.labelSelector", f"{error}; the policy selects no pod"))
            continue
        if not policy.matchLabelKeys:
            without.append((f"{field}.matchLabelKeys", "names no label, so that no pod is in a subgroup"))
            continue
        divided.append(SubGroupLabels(name, wanted, tuple(policy.matchLabelKeys), each))
    return (SubGroups(rules, policies=tuple(divided)) if rules else None), without


def by_names(parts: Iterable[SubGroup], needed: int | None) -> tuple[SubGroups, str]:
    """The subgroups that a PodGroup of KAI names, and what is wrong with them."""
    known: dict[str, SubGroup] = {}
    for part in parts:
        if part.name in known:
            return SubGroups({}), f"two subgroups are called {quoted(part.name)}"
        known[part.name] = part
    inner = {part.parent for part in known.values() if part.parent}
    rules: dict[Path, SubGroupRule] = {(): SubGroupRule(needed=needed)}
    named: dict[str, Path] = {}
    for name, part in known.items():
        path: Path = (name,)
        around = part.parent
        while around:
            if around not in known:
                return SubGroups({}), f"the parent {quoted(around)} of subgroup {quoted(path[0])} is no subgroup"
            if around in path or len(path) >= MOST_DEPTH:
                return SubGroups({}), f"subgroup {quoted(name)} is inside of itself, or more than {MOST_DEPTH} deep"
            path, around = (around, *path), known[around].parent
        size = 0 if name in inner else 1 if part.minMember is None else part.minMember
        rules[path] = SubGroupRule(size, part.minSubGroup, said_constraint(part.topologyConstraint))
        if name not in inner:
            named[name] = path
            if part.minSubGroup is not None:
                return SubGroups({}), f"subgroup {quoted(name)} has no subgroups, but minSubGroup"
    subgroups = SubGroups(rules, named)
    tree = SubGroupTree(subgroups)
    for path, rule in rules.items():
        inside = len(tree.children(path) or ())
        if rule.needed is not None and rule.needed > inside:
            name = f"subgroup {quoted(path[-1])}" if path else "the group"
            return subgroups, f"minSubGroup is {rule.needed}, and {name} has {inside} subgroups"
    return subgroups, ""
