"""How the answers of several plugins become one; each rule is one that `points` states."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.framework.decision import Reason


class Registered(NamedTuple):
    """A callback, and the plugin and tier it belongs to."""

    plugin: str
    tier: int
    function: Callable[..., Any]
    is_veto: bool = False
    """Of a callback about victims: whether it only takes away from what others allow."""


def first_decides(functions: Sequence[Registered], one: object, other: object) -> int:
    """Which of two comes first, by the first plugin that has an opinion; 0 if none has."""
    for registered in functions:
        order: int = registered.function(one, other)
        if order:
            return order
    return 0


def first_reason(functions: Sequence[Registered], *about: object) -> tuple[str, Reason] | None:
    """The first reason against something, with the plugin that gives it."""
    for registered in functions:
        reason: Reason | None = registered.function(*about)
        if reason is not None:
            return registered.plugin, reason
    return None


def all_agree(functions: Sequence[Registered], job: Job) -> bool:
    """Whether nobody says no."""
    return False not in [registered.function(job) for registered in functions]


def by_vote(functions: Sequence[Registered], job: Job) -> bool:
    """No as soon as one says no; yes after the first tier with a yes, or if nobody votes."""
    for _, tier in groupby(functions, lambda registered: registered.tier):
        votes = [registered.function(job) for registered in tier]
        if False in votes:
            return False
        if True in votes:
            return True
    return True


def common_victims(functions: Sequence[Registered], job: Job, candidates: Sequence[Task]) -> list[Task]:
    """The victims that the tiers allow, without those to which somebody of any tier has a veto."""
    victims = _allowed([one for one in functions if not one.is_veto], job, candidates)
    for registered in functions:
        if registered.is_veto and victims:
            answer: Sequence[Task] | None = registered.function(job, victims)
            if answer is not None:
                left = {task.key for task in answer}
                victims = [task for task in victims if task.key in left]
    return victims


def _allowed(functions: Sequence[Registered], job: Job, candidates: Sequence[Task]) -> list[Task]:
    """The victims that every plugin of the first tier with an opinion allows; none if nobody has one."""
    for _, tier in groupby(functions, lambda registered: registered.tier):
        answers = [registered.function(job, candidates) for registered in tier]
        opinions = [{task.key for task in answer} for answer in answers if answer is not None]
        if opinions:
            allowed = set.intersection(*opinions)
            return [task for task in candidates if task.key in allowed]
    return []
