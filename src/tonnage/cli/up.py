"""`tonnage up`: an invented cluster and workload, packed before one's eyes.

This module reads the options and drives the replay by the wall clock; the replay itself knows only virtual time. The
engine is imported when the command runs, so that asking for help stays fast.
"""

import math
import re
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from tonnage.cli.inputs import BadInput, config_file, find_plugins, plugin_files
from tonnage.cli.output import JSON, TABLE, YAML, document, output_option
from tonnage.cli.policyflag import decided_by, policy_option

if TYPE_CHECKING:
    from tonnage.framework.plugin import Plugin
    from tonnage.plugins.fragmentation.usablecards import FreeCards, UsableCards
    from tonnage.simulator.measure import Summary
    from tonnage.simulator.replay import Replay

DEFAULT_SPEED = 240.0
FRAMES_PER_SECOND = 8
LONGEST = 366 * 86400.0
_NAP = 0.05
_MOST_BEHIND = 0.5
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
    output: str,
) -> None:
    """Watch an invented GPU cluster being packed.

    Pods that share GPUs, want whole ones or several of them arrive and finish on nodes of different kinds. On a
    terminal this is a live view; otherwise a line per interval. Ctrl-C ends it with the summary.
    """
    from tonnage.plugins.fragmentation.usablecards import UsableCards

    name, wanted, actions = decided_by(policy, config, find_plugins(plugins))
    run = LiveRun(speed if speed is not None else (DEFAULT_SPEED if output == TABLE else 0.0))
    with run.listening():
        run.replay = _invent(nodes, gpus, seed, wanted, actions)
        run.cards = UsableCards(run.replay.cluster, wanted)
        if output != TABLE:
            run.until(duration)
        elif sys.stdout.isatty() and _can_draw():
            _watch(run, duration, name, seed)
        else:
            _log(run, duration, interval)
    summary, cards = run.replay.summary(), run.cards.measure()
    if output != TABLE:
        click.echo(document(_as_data(summary, cards, name, seed, nodes, gpus), output), nl=False)
    else:
        click.echo(_as_text(summary, cards, name, seed, nodes, gpus, run))


class LiveRun:
    """Drives a replay by the wall clock, until its end or a signal."""

    replay: "Replay"
    cards: "UsableCards"

    def __init__(
        self, speed: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.speed = speed
        self.clock = clock
        self.stopped = False
        self.begun = clock()
        self.busy = 0.0
        """Seconds of work, without waiting for time to pass."""
        self._sleep = sleep
        self._anchor: tuple[float, float] | None = None
        self._recent: deque[tuple[float, int, float]] = deque(maxlen=2 * FRAMES_PER_SECOND)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Stop in an orderly way at the first signal; a second one does what it did before."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def stop(_number: int, _frame: FrameType | None) -> None:
            self.stopped = True
            restore()

        for number in before:
            signal.signal(number, stop)
        try:
            yield
        finally:
            restore()

    def until(self, limit: float, deadline: float = math.inf) -> bool:
        """Let virtual time move on to a limit, but not beyond a wall time; whether it got there."""
        while not self.stopped:
            self._work(min(limit, self._due()), deadline)
            rest = deadline - self.clock()
            if self.replay.now >= limit:
                return True
            if rest <= 0:
                return False
            if self.speed and not self.stopped:
                self._sleep(min(rest, _NAP, (limit - self.replay.now) / self.speed))
        return False

    def pace(self) -> tuple[float, float]:
        """Decisions and virtual seconds per second over the last moments; to be asked once per frame."""
        now = self.clock(), self.replay.decisions, self.replay.now
        self._recent.append(now)
        then = self._recent[0]
        seconds = now[0] - then[0]
        return ((now[1] - then[1]) / seconds, (now[2] - then[2]) / seconds) if seconds > 0 else (0.0, self.speed)

    def _due(self) -> float:
        """The virtual time that it should be now."""
        if not self.speed:
            return math.inf
        wall, virtual = self.clock(), self.replay.now
        if self._anchor is None:
            self._anchor = wall, virtual
        due = self._anchor[1] + (wall - self._anchor[0]) * self.speed
        if due - virtual > _MOST_BEHIND * self.speed:
            # Too slow a machine, or one that slept: go on from here instead of chasing what was missed.
            due = virtual + _MOST_BEHIND * self.speed
            self._anchor = wall, due
        return due

    def _work(self, until: float, deadline: float) -> None:
        """Small steps, so that a signal or a frame that is due need not wait for long."""
        begin = self.clock()
        now = begin
        while self.replay.next_time <= until and not self.stopped and now < deadline:
            self.replay.step()
            now = self.clock()
        if self.replay.next_time > until and not self.stopped:
            self.replay.advance(until)
        self.busy += now - begin


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
    return Replay(cluster, placer, demo_arrivals(nodes, gpus, rng))


# -- on a terminal


def _can_draw() -> bool:
    """Whether the terminal can move its cursor and show block characters."""
    from rich.console import Console

    console = Console()
    return not console.is_dumb_terminal and console.encoding.lower().startswith("utf")


def _watch(run: LiveRun, duration: float, policy: str, seed: int) -> None:
    from rich.console import Console
    from rich.live import Live

    from tonnage.cli.liveview import Caption, render

    console = Console(highlight=False, emoji=False)
    done = False
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not (done or run.stopped):
            caption = Caption(duration, run.speed, policy, seed, *run.pace(), run.cards.measure())
            live.update(render(run.replay, caption, console.width, console.height), refresh=True)
            done = run.until(duration, run.clock() + 1 / FRAMES_PER_SECOND)


# -- without one


def _log(run: LiveRun, duration: float, interval: float) -> None:
    from tonnage.cli.liveview import clock
    from tonnage.simulator.measure import measure

    replay, number = run.replay, 1
    while run.until(min(number * interval, duration)):
        usage = measure(replay.cluster)
        click.echo(
            f"{clock(replay.now)}  running {replay.running:5d}  waiting {len(replay.waiting):4d}"
            f"  finished {replay.finished:6d}  GPU memory {usage.memory:5.1f}%"
            f"  fragmentation {usage.fragmentation:5.1f}%  decisions {replay.decisions:7d}"
        )
        if replay.now >= duration:
            return
        number += 1


def _as_data(
    summary: "Summary", cards: "FreeCards", policy: str, seed: int, nodes: int, gpus: int
) -> dict[str, object]:
    from msgspec.structs import asdict

    free = {"gpus_free": round(cards.free, 3), "gpus_free_usable": round(cards.usable, 3)}
    return {"policy": policy, "seed": seed, "nodes": nodes, "gpus": gpus, **asdict(summary), **free}


def _as_text(summary: "Summary", free: "FreeCards", policy: str, seed: int, nodes: int, gpus: int, run: LiveRun) -> str:
    from tonnage.cli.liveview import span

    pods, waits, cards = summary.pods, summary.wait_seconds, summary.cards
    reasons = [f"{reason.pods:,} x {reason.reason}" for reason in summary.waited_for[:4]]
    table = [
        (
            "pods",
            f"{pods.arrived:,} arrived, {pods.placed:,} placed, {pods.finished:,} finished, {pods.waiting:,} waiting",
        ),
        (
            "waiting time",
            f"mean {span(waits.mean)}, median {span(waits.p50)}, "
            f"95% within {span(waits.p95)}, longest {span(waits.max)}",
        ),
        *(("" if number else "waited for", reason) for number, reason in enumerate(reasons or ["nothing"])),
        *(
            (title, f"{course.mean:.1f}% on average, {course.final:.1f}% at the end")
            for title, course in (
                ("GPU memory", summary.gpu_memory_percent),
                ("GPU cores", summary.gpu_cores_percent),
                ("fragmentation", summary.fragmentation_percent),
            )
        ),
        ("GPUs at the end", f"{cards.full:,} full, {cards.partial:,} partly used, {cards.idle:,} idle"),
        ("free GPUs", f"{free.free:,.1f} in all at the end, of which a typical pod can use {free.usable:,.1f}"),
        ("free nodes", f"{summary.free_nodes:,}"),
        ("problems", f"{summary.problems:,}"),
    ]
    wall = max(run.clock() - run.begun, 1e-9)
    each = run.busy / summary.decisions * 1e6 if summary.decisions else 0.0
    return "\n".join(
        [
            "",
            f"{span(summary.duration)} of virtual time: {nodes:,} nodes x {gpus} GPUs, {policy}, seed {seed}",
            "",
            *(f"  {title:<17}{text}" for title, text in table),
            "",
            f"{summary.decisions:,} decisions in {wall:.1f} s: {summary.decisions / wall:,.0f} per second, "
            f"{each:,.0f} us of work each",
        ]
    )
