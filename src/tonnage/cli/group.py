"""The group of all commands; each is imported only when it is run, so that start-up stays fast."""

import errno
import os
import signal
import sys
from collections.abc import Iterable
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from tonnage import __version__
from tonnage.cli.main import INTERRUPTED

COMPLETING = "_TONNAGE_COMPLETE"
"""The variable by which a shell asks for the completion of a command line."""
_COMMANDS = {
    "schedule": "Say where the waiting pods of a cluster, given as manifests, would go and why.",
    "explain": "Say why a pod waits, who holds what it waits for, and what would let it run.",
    "plan": "Plan changes of a cluster, with price and gain: which pods to move, and where to.",
    "check": "Say whether a scheduler or device configuration is valid, with the place of every error.",
    "plugins": "List the plugins that can be used, with their arguments and extension points; begin a new one.",
    "up": "Watch an invented GPU cluster being packed.",
    "dashboard": "Serve pages about a cluster: who holds which GPU, what waits and why, queues, trends.",
    "top": "Show the nodes, GPUs, pods and queues of a cluster, live in the terminal.",
    "simulate": "Compare policies on a recorded or invented workload, over virtual time.",
    "extender": "Serve webhook, filter and bind for a cluster's kube-scheduler, in place of HAMi's.",
    "scheduler": "Schedule the pods of a cluster that name it: gangs, queues and GPU shares.",
    "agent": "Serve the cards of a GPU node to its kubelet, in place of HAMi's device plugin.",
    "manifests": "Print the manifests that depend on the configuration: admission policies, the webhook's.",
    "migrate": "Say what moving a cluster over from HAMi, Volcano or KAI changes, and how to go there and back.",
    "debug": "Look into how Tonnage sees a live cluster.",
    "lab": "Start a practice cluster: a real API server with invented GPU nodes.",
}


class SuggestingGroup(click.Group):
    """A group that answers a mistyped name with the nearest ones, as click does for flags."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}.{_nearest(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = [repr(one) for one in get_close_matches(name, known)]
    return f" Did you mean {' or '.join(near)}?" if near else f" There are {', '.join(known)}."


class LazyGroup(SuggestingGroup):
    """Knows its commands by name and one line each, and ends all of them in the same orderly way."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.exceptions.Exit(INTERRUPTED) from error
        except OSError as error:
            # A closed pipe is no failure worth words; click ends quietly for it.
            if error.errno == errno.EPIPE:
                raise
            raise click.ClickException(error.strerror or str(error)) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"tonnage.cli.{cmd_name}").command
        if callable(signal.getsignal(signal.SIGINT)):
            # From here on a command may have something to tidy up, so that Ctrl-C raises KeyboardInterrupt.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if COMPLETING in os.environ:
            from tonnage.cli.completion import complete_files

            complete_files(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _version(ctx: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if not is_asked or ctx.resilient_parsing:
        return
    from tonnage.lab.parts import VERSIONS, control_plane

    click.echo(f"tonnage {__version__}, tested with Kubernetes {control_plane(VERSIONS[0]).version.removeprefix('v')}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Show the version, and the version of Kubernetes that it was tested with.",
)
def group(**_: Any) -> None:
    """Pack GPU pods onto the nodes and GPUs of a Kubernetes cluster, and say why.

    Every command but the servers, extender, scheduler, agent and dashboard, takes -o json and -o yaml for machines.
    Errors go to standard error; the exit status is 2 for bad input or usage and 1 for a failure at work.
    """
    for stream in (sys.stdout, sys.stderr):
        # What a terminal has no character for is shown as a question mark.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
