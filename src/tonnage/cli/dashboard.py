"""`tonnage dashboard`: pages about a live cluster, or about one in files."""

import asyncio
import signal
from typing import TYPE_CHECKING

import click

from tonnage.cli.flags.filenames import FilenamesCommand
from tonnage.cli.flags.live import ViewSource, live_options
from tonnage.cli.startup import importing
from tonnage.server.flags import parsed

if TYPE_CHECKING:
    from tonnage.dashboard.board import Board
    from tonnage.server.flagvalues import Address
    from tonnage.server.viewer import Viewer

_EXAMPLES = """\b
Examples:
  tonnage dashboard
  tonnage dashboard -f cluster.yaml --http-bind 127.0.0.1:9000
"""
_MOST_PROBLEMS = 10


@click.command("dashboard", cls=FilenamesCommand, epilog=_EXAMPLES)
@live_options
@click.option(
    "--http-bind",
    "bind",
    default="127.0.0.1:8090",
    show_default=True,
    callback=parsed("address"),
    metavar="HOST:PORT",
    help="Where to serve the pages. Whoever reaches it reads them, so it is this machine alone unless you say more.",
)
@click.option(
    "--namespace",
    "-n",
    metavar="NAME",
    help="Show the pods of this namespace only, and whatever of the nodes your rights allow.",
)
def command(source: ViewSource, bind: "Address", namespace: str | None) -> None:
    """Serve pages about a cluster: every GPU and who holds it, what waits and why, queues, decisions and trends.

    The cluster is read through the API server with your own rights, or from files; nothing is ever written. Works until
    it is told to stop (Ctrl-C or SIGTERM).
    """
    with importing():
        from tonnage.server.endpoint import ServeError

    try:
        asyncio.run(_serve(source, bind, namespace))
    except ServeError as error:
        raise click.ClickException(str(error)) from error


async def _serve(source: ViewSource, bind: "Address", namespace: str | None) -> None:
    with importing():
        from tonnage.dashboard.board import Board
        from tonnage.dashboard.sources.viewedsource import ViewedSource
        from tonnage.server.viewer import Viewer

    async with source.follow(namespace) as view:
        if view.note:
            click.echo(f"note: {view.note}", err=True)
        for problem in view.live.problems()[:_MOST_PROBLEMS]:
            click.echo(f"note: {problem}", err=True)
        viewed = ViewedSource(view)
        own = None if namespace is None else frozenset((namespace,))
        await serve_board(Board(viewed), bind, Viewer(own, viewed.reads_nodes))


async def serve_board(board: "Board", bind: "Address", viewer: "Viewer") -> None:
    """Serve the pages of a board until a signal comes."""
    from tonnage.dashboard.app import Dashboard, always
    from tonnage.server.callers import LOOPBACK_NAMES, is_loopback
    from tonnage.server.endpoint import Endpoint
    from tonnage.server.http import serve

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    place = Endpoint(*bind)
    is_private = is_loopback(place.host) or place.host == "localhost"
    reach = "this machine alone reaches it" if is_private else "everybody who reaches this port can read it"
    click.echo(f"The dashboard is at {place}/ ({reach}; Ctrl-C ends it)", err=True)
    app = Dashboard(board, always(viewer)).app(LOOPBACK_NAMES if is_private else ())
    looking = asyncio.create_task(board.run())
    looking.add_done_callback(lambda _: stop.set())
    stop_streams = asyncio.create_task(_ended(stop, board))
    try:
        await serve([(app, place)], stop)
    finally:
        board.stop()
        await asyncio.gather(looking, stop_streams)


async def _ended(stop: asyncio.Event, board: "Board") -> None:
    await stop.wait()
    board.stop()
