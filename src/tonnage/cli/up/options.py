"""The command `tonnage up`: its flags, and the cluster and workload that they invent.

The engine is imported when the command runs, so that asking for help stays fast.
"""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tonnage.cli.flags.policy import decided_by, policy_option
from tonnage.cli.inputs import BadInput, config_file, find_plugins, plugin_files
from tonnage.cli.output import JSON, TABLE, YAML, document, output_option
from tonnage.server.flags import parsed

if TYPE_CHECKING:
    from tonnage.framework.plugin import Plugin
    from tonnage.server.flagvalues import Address
    from tonnage.simulator.replay import Replay

DEFAULT_SPEED = 240.0
LONGEST = 366 * 86400.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?[smhd])+")
_PART = re.compile(r"([0-9.]+)([smhd])")


def _duration(_context: click.Context, _option: click.Parameter, text: str) -> float:
    """Seconds from a text such as 90s, 30m, 8h, 1d or 1h30m."""
    seconds = 0.0
    if _DURATION.fullmatch(text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if not 0 < seconds <= LONGEST:
        raise click.BadParameter(f"{text!r} is not a duration; write 90s, 30m, 8h or 1d, up to 366d.")
    return seconds


def _speed(_context: click.Context, _option: click.Parameter, speed: float | None) -> float | None:
    if speed is not None and not (math.isfinite(speed) and speed >= 0):
        raise click.BadParameter(f"{speed:g} is not a speed; write a number from 0 up, 0 for full speed.")
    return speed


@click.command("up")
@click.option("--nodes", type=click.IntRange(1, 5000), default=12, show_default=True, help="Nodes in the cluster.")
@click.option("--gpus", type=click.IntRange(1, 16), default=8, show_default=True, help="GPUs per node.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed invents the same again."
)
@click.option(
    "--speed",
    type=float,
    callback=_speed,
    metavar="NUMBER",
    help=f"Virtual seconds per second, 0 for full speed.  [default: {DEFAULT_SPEED:g}; 0 with -o json or yaml]",
)
@click.option(
    "--duration",
    callback=_duration,
    metavar="TIME",
    default="8h",
    show_default=True,
    help="Virtual time to run: 90s, 30m, 8h, 1d.",
)
@policy_option
@config_file
@plugin_files
@click.option(
    "--interval",
    callback=_duration,
    metavar="TIME",
    default="30m",
    show_default=True,
    help="Virtual time between lines when there is no terminal.",
)
@click.option(
    "--web",
    is_flag=False,
    flag_value="127.0.0.1:8090",
    callback=parsed("address"),
    metavar="[HOST:PORT]",
    help="Show it as pages instead, at 127.0.0.1:8090 unless an address is given, until Ctrl-C.",
)
@output_option(TABLE, JSON, YAML)
def command(
    nodes: int,
    gpus: int,
    seed: int,
    speed: float | None,
    duration: float,
    policy: str | None,
    config: str | None,
    plugins: tuple[str, ...],
    interval: float,
    web: "Address | None",
    output: str,
) -> None:
    """Watch an invented GPU cluster being packed.

    Pods that share GPUs, want whole ones or several of them arrive and finish on nodes of different kinds. On a
    terminal this is a live view with keys (? lists them); otherwise a line per interval. Ctrl-C ends it with the
    summary.
    """
    from tonnage.cli.terminal.frames import can_draw, show
    from tonnage.cli.terminal.signals import stopping
    from tonnage.cli.up.liverun import LiveRun
    from tonnage.cli.up.replaysource import ReplaySource
    from tonnage.cli.up.summary import as_data, as_text, log_lines

    name, wanted, actions = decided_by(policy, config, find_plugins(plugins))
    if web is not None:
        if output != TABLE:
            raise click.UsageError("--web shows pages; leave out -o")
        from tonnage.cli.up.web import show_pages

        run = LiveRun(DEFAULT_SPEED if speed is None else speed)
        run.replay = _invent(nodes, gpus, seed, wanted, actions)
        show_pages(run, duration, wanted, actions, name, web)
        click.echo(as_text(run.replay.summary(), run.replay.cards.count(), name, seed, nodes, gpus, run))
        return
    run = LiveRun(speed if speed is not None else (DEFAULT_SPEED if output == TABLE else 0.0))
    with stopping(run.stop):
        run.replay = _invent(nodes, gpus, seed, wanted, actions)
        if output != TABLE:
            run.until(duration)
        elif can_draw():
            show(ReplaySource(run, duration, name, seed, wanted))
        else:
            log_lines(run, duration, interval)
    summary, cards = run.replay.summary(), run.replay.cards.count()
    if output != TABLE:
        click.echo(document(as_data(summary, cards, name, seed, nodes, gpus), output), nl=False)
    else:
        click.echo(as_text(summary, cards, name, seed, nodes, gpus, run))


def _invent(nodes: int, gpus: int, seed: int, plugins: "Sequence[Plugin]", actions: "Sequence[str]") -> "Replay":
    from random import Random

    from tonnage.actions.catalog import make_actions
    from tonnage.cluster.cluster import Cluster
    from tonnage.devices.catalog import default_vendors
    from tonnage.framework.session import Session, SessionError
    from tonnage.simulator.placer import ClassPlacer, CyclePlacer, Placer
    from tonnage.simulator.replay import Replay
    from tonnage.simulator.shortcut import goes_by_pods_alone
    from tonnage.simulator.workloads.demo import demo_arrivals, demo_nodes

    rng = Random(seed)
    cluster = Cluster(default_vendors())
    for node in demo_nodes(nodes, gpus, rng):
        cluster.upsert_node(node)
    try:
        session = Session(cluster, plugins)
    except SessionError as error:
        raise BadInput(str(error)) from error
    if goes_by_pods_alone(plugins, actions, session, has_priorities=True):
        placer: Placer = ClassPlacer(cluster, session)
    else:
        session.close()
        placer = CyclePlacer(cluster, plugins, make_actions(actions))
    return Replay(cluster, placer, demo_arrivals(nodes, gpus, rng), plugins=plugins)
