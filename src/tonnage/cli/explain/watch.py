"""The answer that is given again whenever it changes, while the cluster is followed."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from tonnage.cli.flags.live import ViewSource
from tonnage.cli.inputs import BadInput
from tonnage.model.duration import format_seconds
from tonnage.model.timestamp import rfc3339

if TYPE_CHECKING:
    from tonnage.explain.record import Explanation, PodHolding
    from tonnage.live.view import ClusterView

Explain = Callable[["ClusterView"], "Explanation"]
Show = Callable[["Explanation"], None]

_PAUSE = 1.0
"""Seconds between two looks; an answer may take longer than that to work out."""
_OLD = 5.0
"""From so many seconds on it is said that the picture is old."""


def watched(source: ViewSource, explain: Explain, show: Show) -> None:
    """Answer until the command is interrupted, or until there is no such thing any more."""
    asyncio.run(_watch(source, explain, show))


async def _watch(source: ViewSource, explain: Explain, show: Show) -> None:
    async with source.follow() as view:
        last: Explanation | None = None
        seen = -1
        is_told = False
        while True:
            if view.live.changes != seen:
                seen = view.live.changes
                found = _answer(explain, view, last)
                if found is None:
                    return
                # Ages grow without anything having changed.
                if last is None or _timeless(found) != _timeless(last):
                    show(found)
                last = found
            is_told = _tell_age(view, is_told)
            await asyncio.sleep(_PAUSE)


def _answer(explain: Explain, view: "ClusterView", last: "Explanation | None") -> "Explanation | None":
    """The answer; nothing if the thing is gone that there was before."""
    try:
        return explain(view)
    except BadInput as error:
        if last is None:
            raise
        click.echo(error.message, err=True)
        return None


def _timeless(found: "Explanation") -> "Explanation":
    def ageless(holders: "list[PodHolding]") -> "list[PodHolding]":
        return [replace(one, age=None) for one in holders]

    return replace(
        found,
        age=None,
        misses=[replace(one, holders=ageless(one.holders)) for one in found.misses],
        suggestions=[
            replace(one, ends=ageless(one.ends), moves=[replace(pod, gpu_hours=0.0) for pod in one.moves])
            for one in found.suggestions
        ],
        holders=ageless(found.holders),
        cards=[replace(one, holders=ageless(one.holders)) for one in found.cards],
    )


def _tell_age(view: "ClusterView", is_told: bool) -> bool:
    """Say once that the cluster is no longer followed, and once that it is again."""
    since = view.live.stale_since
    old = since is not None and view.now() - since > _OLD
    if old and not is_told and since is not None:
        age = format_seconds(view.now() - since)
        click.echo(f"the API server does not answer; this is as of {rfc3339(since)}, {age} ago", err=True)
    elif is_told and not old:
        click.echo("the API server answers again", err=True)
    return old
