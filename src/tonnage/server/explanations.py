"""Explanations that a process works out about its cluster, on copies beside its own work, a few at a time.

What explains is imported with the first question: a server that starts has better things to do.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.explain.record import ExplainedKind, Explanation
from tonnage.framework.plugin import Plugin
from tonnage.server.copies import CopyError, in_copy

SECONDS = 20.0
"""How long an explanation may take."""
AT_ONCE = 2
"""Explanations that are worked out at once; one of them for callers who do not see everything."""


class ScheduledCluster(NamedTuple):
    """A cluster as it is now, with what decides on it."""

    cluster: Cluster
    plugins: Sequence[Plugin]
    actions: Sequence[str]
    now: float


class ExplainQuestion(NamedTuple):
    """What is asked about."""

    kind: ExplainedKind
    name: str
    namespace: str = "default"


class BusyError(Exception):
    """Other explanations are being worked out."""


class UnknownThing(msgspec.Struct, frozen=True):
    """Nothing has the name that was asked about."""

    message: str
    near: list[str]


class Explanations:
    """Answers questions about one cluster; the same question by several callers is worked out once."""

    def __init__(self, scheduled: Callable[[], ScheduledCluster]) -> None:
        self._scheduled = scheduled
        self._running: dict[ExplainQuestion, asyncio.Task[Explanation | UnknownThing]] = {}
        self._tenants: set[ExplainQuestion] = set()

    async def ask(self, question: ExplainQuestion, *, is_tenant: bool = False) -> Explanation | UnknownThing:
        """The answer, whole; BusyError if there are too many questions, CopyError if it cannot be found."""
        task = self._running.get(question)
        if task is None:
            if len(self._running) >= AT_ONCE or (is_tenant and self._tenants):
                raise BusyError
            task = self._running[question] = asyncio.create_task(_explained(self._scheduled(), question))
            if is_tenant:
                self._tenants.add(question)
            task.add_done_callback(lambda _: self._forget(question))
        return await asyncio.shield(task)

    def _forget(self, question: ExplainQuestion) -> None:
        self._running.pop(question, None)
        self._tenants.discard(question)


class _Answer(msgspec.Struct, frozen=True):
    """What comes out of a copy."""

    found: Explanation | None = None
    unknown: UnknownThing | None = None


async def _explained(scheduled: ScheduledCluster, question: ExplainQuestion) -> Explanation | UnknownThing:
    answer = await in_copy(partial(_work_out, scheduled, question), _Answer, SECONDS)
    found = answer.found or answer.unknown
    if found is None:
        raise CopyError("it ended without an answer")
    return found


def _work_out(scheduled: ScheduledCluster, question: ExplainQuestion) -> _Answer:
    from tonnage.explain.names import UnknownNameError
    from tonnage.explain.settling import settle_places
    from tonnage.plan.defrag.moves import make_explainer

    cluster, plugins, actions, now = scheduled
    settle_places(cluster)
    cluster.now = now
    # A plugin with options of its own shares nothing with the one whose session is open.
    explainer = make_explainer(cluster, [plugin.with_options() for plugin in plugins], actions)
    try:
        return _Answer(explainer.explain(*question))
    except UnknownNameError as error:
        return _Answer(unknown=UnknownThing(str(error), error.near))
