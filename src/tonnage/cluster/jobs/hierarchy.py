"""The hierarchy of queues: parents, children, and the problems of the tree."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tonnage.cluster.jobs.queue import ROOT, Queue, Shares
from tonnage.model.problem import Problem
from tonnage.model.resources import show


class Hierarchy(NamedTuple):
    """The tree of queues."""

    parents: dict[str, str]
    """The parent of each queue that has one; unknown parents and links that close a circle are left out."""
    children: dict[str, list[str]]
    """The children of each queue that has some, in the order of names."""
    problems: list[Problem]

    def upwards(self, name: str) -> Iterator[str]:
        """A queue and its ancestors, from the bottom up."""
        yield name
        while name in self.parents:
            name = self.parents[name]
            yield name


def hierarchy(queues: Mapping[str, Queue]) -> Hierarchy:
    """The hierarchy of these queues."""
    tree = Hierarchy({}, {}, [])
    for name in sorted(queues):
        parent = queues[name].parent
        if not parent or (parent == ROOT and ROOT not in queues):
            continue
        if parent not in queues:
            message = f"there is no queue {parent}; {name} counts as one without a parent"
            tree.problems.append(_about(name, "parent", "a queue that exists", message))
        elif name in tree.upwards(parent):
            # Links are added in the order of names; the one that would close the circle is left out.
            message = f"{name} would be above itself; it counts as one without a parent"
            tree.problems.append(_about(name, "parent", "queues that form a tree", message))
        else:
            tree.parents[name] = parent
            tree.children.setdefault(parent, []).append(name)
    for name in sorted(queues):
        tree.problems.extend(_shares_that_do_not_fit(queues[name], queues, tree.children.get(name, ())))
    return tree


def _shares_that_do_not_fit(queue: Queue, queues: Mapping[str, Queue], children: Iterable[str]) -> Iterator[Problem]:
    """The problems of shares that contradict each other; the queue is used as given."""
    below: dict[str, float] = {}
    for child in children:
        for resource, value in queues[child].deserved.items():
            below[resource] = below.get(resource, 0.0) + value
    for lower, upper, larger, smaller in (
        (queue.guarantee, queue.deserved, "guarantee", "deserved"),
        (queue.guarantee, queue.limit, "guarantee", "limit"),
        (queue.deserved, queue.limit, "deserved", "limit"),
        (below, queue.deserved, "sum of what its children deserve", "deserved"),
    ):
        for resource in sorted(lower.keys() & upper.keys()):
            if lower[resource] > upper[resource] and not _means_all(lower, resource):
                more, less = show(resource, lower[resource]), show(resource, upper[resource])
                message = f"{larger} of {resource} is {more}, above {smaller} {less}"
                yield _about(queue.name, smaller, "guarantee ≤ deserved ≤ limit", f"{message}; both are used as given")


def _means_all(shares: Shares, resource: str) -> bool:
    return shares[resource] == float("inf")


def _about(name: str, field: str, expected: str, message: str) -> Problem:
    return Problem(f"Queue/{name}", f"spec.{field}", "", expected, message)
