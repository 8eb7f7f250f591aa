"""`tonnage up --web`: the invented cluster as pages, driven by the wall clock between their requests."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tonnage.cli.up.liverun import LiveRun
    from tonnage.framework.plugin import Plugin
    from tonnage.server.flagvalues import Address

_STEP, _SLICE = 0.1, 0.05
"""Seconds between steps, and the longest that one keeps pages waiting."""


def show_pages(
    run: "LiveRun", duration: float, plugins: "Sequence[Plugin]", actions: Sequence[str], policy: str, bind: "Address"
) -> None:
    """Serve pages about a run until Ctrl-C; at the end of its time it stands still."""
    from tonnage.server.endpoint import ServeError

    try:
        asyncio.run(_serve(run, duration, plugins, actions, policy, bind))
    except ServeError as error:
        raise click.ClickException(str(error)) from error


async def _serve(
    run: "LiveRun", duration: float, plugins: "Sequence[Plugin]", actions: Sequence[str], policy: str, bind: "Address"
) -> None:
    from tonnage.cli.dashboard import serve_board
    from tonnage.dashboard.board import Board
    from tonnage.dashboard.sources.simulationsource import SimulationSource
    from tonnage.server.viewer import EVERYTHING

    cluster = run.replay.cluster
    title = f"Invented cluster of {len(cluster.nodes)} nodes"
    board = Board(SimulationSource(title, run.replay, plugins, actions, policy))
    driving = asyncio.create_task(_drive(run, duration))
    try:
        await serve_board(board, bind, EVERYTHING)
    finally:
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)


async def _drive(run: "LiveRun", duration: float) -> None:
    """Let virtual time pass in short slices."""
    # Pages are answered while nothing is due.
    run.sleep = lambda seconds: run.wake()
    while run.replay.now < duration and not run.stopped:
        run.until(duration, run.clock() + _SLICE)
        await asyncio.sleep(_STEP)
