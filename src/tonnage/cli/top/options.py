"""The command `tonnage top`: its flags, and whether a screen is drawn or lines are printed."""

import click

from tonnage.cli.flags.filenames import FilenamesCommand
from tonnage.cli.flags.live import ViewSource, live_options
from tonnage.cli.output import JSON, TABLE, YAML, document, output_option

_VIEWS = ("cluster", "nodes", "gpus", "pods", "queues")
_EXAMPLES = """\b
Examples:
  tonnage top
  tonnage top pods --context prod
  kubectl get nodes,pods -A -o json | tonnage top gpus -f -
"""


@click.command("top", cls=FilenamesCommand, epilog=_EXAMPLES)
@click.argument("view", type=click.Choice(_VIEWS), default="cluster", metavar="[VIEW]")
@live_options
@click.option("--once", is_flag=True, help="Print plain lines once, as in a pipe; also for screen readers.")
@output_option(TABLE, JSON, YAML)
def command(view: str, source: ViewSource, once: bool, output: str) -> None:
    """Show the nodes, GPUs, pods and queues of a cluster, live in the terminal.

    VIEW is what is shown first: cluster, nodes, gpus, pods or queues. Keys sort, filter, change the view and show why a
    pod waits; ? lists them. In a pipe, and with --once, lines are printed once. Nothing is written to the cluster.
    """
    import asyncio

    from tonnage.cli.startup import importing

    with importing():
        from tonnage.cli.terminal.frames import can_draw, show
        from tonnage.cli.terminal.signals import stopping
        from tonnage.cli.terminal.tabs import Tab
        from tonnage.cli.top.livesource import LiveSource
        from tonnage.cli.top.plain import as_data, as_text

    if once or output != TABLE or not can_draw():
        read = source.read()
        shown = LiveSource(read)
        if output == TABLE:
            click.echo(as_text(shown, read, Tab(view)))
        else:
            click.echo(document(as_data(shown, read), output), nl=False)
        return
    with asyncio.Runner() as runner:
        following = source.follow()
        followed = runner.run(following.__aenter__())
        try:
            shown = LiveSource(followed, runner.get_loop())
            with stopping(shown.stop):
                show(shown, Tab(view))
        finally:
            runner.run(following.__aexit__(None, None, None))
