"""The dashboard as a part of a server: its routes under /dashboard, and the loop that keeps it current."""

import asyncio
from typing import NamedTuple

from starlette.routing import BaseRoute, Mount

from tonnage.dashboard.app import Dashboard
from tonnage.dashboard.board import Board
from tonnage.dashboard.source import ClusterSource
from tonnage.kube.supervision import keep_running
from tonnage.server.access import CallerAccess
from tonnage.server.authorization import Authorizer

PATH = "/dashboard"


class MountedDashboard(NamedTuple):
    """A dashboard that a server serves."""

    board: Board
    routes: list[BaseRoute]

    async def run(self, stop: asyncio.Event) -> None:
        """Keep it current until the server stops; a failure of it stops nothing else."""
        looking = asyncio.create_task(keep_running("dashboard", self.board.run))
        try:
            await stop.wait()
        finally:
            self.board.stop()
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


def mounted(source: ClusterSource, authorizer: Authorizer | None) -> MountedDashboard:
    """The dashboard of a source, for the callers that may look at /debug too, and for tenants."""
    board = Board(source)
    app = Dashboard(board, CallerAccess(authorizer, lambda: source.cluster).viewer_of(PATH)).app()
    return MountedDashboard(board, [Mount(PATH, app=app)])
