"""A replay as the source of the terminal view: its clock and pace, the figures, and keys for the time."""

import math
from collections.abc import Collection, Sequence

from rich.text import Text

from tonnage.cli.terminal.drawing import NAME, QUIET, RISING, TITLE, append_figure, bar, row_of
from tonnage.cli.terminal.keyboard import Keyboard
from tonnage.cli.terminal.rows import ViewRows
from tonnage.cli.terminal.source import KeyHelp
from tonnage.cli.up.durations import clock
from tonnage.cli.up.liverun import FRAMES_PER_SECOND, LiveRun
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.framework.plugin import Plugin
from tonnage.model.duration import format_seconds
from tonnage.model.problem import Problem
from tonnage.overview.overview import ClusterOverview
from tonnage.overview.podrows import PodRow
from tonnage.overview.usage import measure
from tonnage.simulator.replay import SAMPLE_EVERY, WaitingPod

_ROWS_SECONDS = 0.5


class ReplaySource:
    """A run for a duration, under a policy."""

    keys: Sequence[KeyHelp] = (
        KeyHelp("q", "quit", "ends the run with its summary, as Ctrl-C does"),
        KeyHelp("space", "pause", "stops virtual time, and lets it go on"),
        KeyHelp("+ -", "speed", "twice or half as fast"),
    )
    figures: Sequence[tuple[str, str]] = (
        (
            "pods/s decided",
            "how many pods the demo's clock brings to a decision; it rises with the speed (+) and is not what the "
            "engine could do",
        ),
        ("µs each", "the engine's own time per decision, arrivals and departures included"),
    )

    def __init__(self, run: LiveRun, duration: float, policy: str, seed: int, plugins: Sequence[Plugin] = ()) -> None:
        self._run = run
        self._replay = run.replay
        self._duration = duration
        self._policy = policy
        self._seed = seed
        self._is_done = False
        self._plugins = plugins
        self._view_rows: ViewRows | None = None
        self._rows_until = 0.0

    @property
    def cluster(self) -> Cluster:
        return self._replay.cluster

    @property
    def now(self) -> float:
        return self._replay.now

    @property
    def is_over(self) -> bool:
        return self._is_done or self._run.stopped

    def overview(self) -> ClusterOverview:
        return self._rows().overview

    def pods(self) -> Sequence[PodRow]:
        return self._rows().pods

    def _rows(self) -> ViewRows:
        """Rows that are some moments old at most; those who look at bars only do not need them."""
        now = self._run.clock()
        if self._view_rows is None:
            self._view_rows = ViewRows(self.cluster, self._plugins)
        if now >= self._rows_until:
            self._view_rows.update(self.decision, {})
            self._rows_until = now + _ROWS_SECONDS
        return self._view_rows

    def problems(self) -> Sequence[Problem]:
        return list(self.cluster.problems())

    def waiting(self) -> Collection[WaitingPod]:
        return self._replay.waiting.values()

    def decision(self, task: Task) -> Decision | None:
        return self._replay.placer.about(task)

    def explanation(self, key: str) -> Sequence[str]:
        # An explanation rehearses cycles, which the placer's open session does not take part in.
        return ()

    def undecided(self, task: Task) -> str:
        return "not looked at yet"

    def more(self, key: str) -> Sequence[tuple[str, str]]:
        return [("would run", format_seconds(self._replay.waiting[key].duration))]

    def gone(self, key: str) -> str:
        replay, run = self._replay, self._replay.runs.get(key)
        if run is None:
            return "It has finished."
        node = replay.cluster.holders.get(key, "a node")
        runs, waited = format_seconds(replay.now - run.started), format_seconds(run.started - run.since)
        return f"It runs on {node} for {runs}, after {waited} of waiting."

    def press(self, key: str) -> None:
        if key == " ":
            self._run.pause()
        elif key in ("+", "="):
            self._run.faster()
        elif key in ("-", "_"):
            self._run.slower()

    def stop(self) -> None:
        self._run.stop()

    def wait(self, keyboard: Keyboard | None) -> None:
        run = self._run
        if keyboard is not None:
            run.sleep = lambda seconds: run.wake() if keyboard.wait(seconds) else None
        self._is_done = run.until(self._duration, run.clock() + 1 / FRAMES_PER_SECOND)

    # -- the top

    def header(self, width: int) -> Text:
        share = min(self.now / self._duration, 1.0)
        left = row_of(
            ("Tonnage", TITLE), "  ", (clock(self.now), NAME), (f" of {format_seconds(self._duration)}  ", QUIET)
        )
        if width >= 100:
            left.append_text(bar(share, 12, share > 0)).append("  ")
        left.append(self._policy, NAME)
        if width >= 120:
            left.append(f"  seed {self._seed}", QUIET)
        right = next((text for text in self._rates() if len(left) + len(text) + 2 <= width), "")
        return left.append(" " * max(width - len(left) - len(right) - 1, 1)).append(right, NAME)

    def _rates(self) -> tuple[str, ...]:
        """How fast the demo goes, and what a decision costs the engine; in ever fewer words."""
        run = self._run
        rate, real = run.pace()
        behind = real < 0.8 * run.speed or not run.speed
        pace = real if behind and not run.is_paused else run.speed
        times = f"{pace:,.0f}×" if pace >= 10 else f"{pace:.2g}×"
        cost = f"{run.each:,.0f} µs each"
        if run.is_paused:
            return f"paused at {times} real time, {cost}", f"paused at {times}", "paused"
        decided = f"{rate:,.0f} pods/s"
        return (
            f"{decided} decided at {times} real time, {cost}",
            f"{decided} at {times}, {cost}",
            f"{decided} at {times}",
            times,
        )

    def totals(self, width: int) -> list[Text]:
        replay, free = self._replay, self._replay.cards.count()
        usage = measure(replay.cluster)
        memory = row_of(("GPU memory  ", TITLE), (f"{usage.memory:6.1f}%  ", NAME))
        memory.append_text(self._course(max(min(width - len(memory) - 14, 64), 10)))
        cards = row_of(("GPU cores   ", TITLE), (f"{usage.cores:6.1f}%", NAME))
        append_figure(cards, width, "fragmentation", f"{free.fragmentation:.1f}%")
        append_figure(cards, width, "GPUs", f"{usage.full:,} full, {usage.partial:,} partly, {usage.idle:,} idle")
        append_figure(cards, width, "free nodes", f"{usage.free_nodes:,}")
        append_figure(cards, width, "free GPUs", f"{free.free:,.1f}, {free.usable:,.1f} usable")
        pods = row_of(("pods        ", TITLE), (f"{replay.running:6,} running", NAME))
        pods.append(f", {len(replay.waiting):,} waiting, {replay.finished:,} finished, {replay.arrived:,} arrived")
        return [memory, cards, pods]

    def _course(self, width: int) -> Text:
        """The memory given out since the start, or over the last day, on a scale that stays as it is."""
        samples, duration = self._replay.samples, self._duration
        values = [sample.memory for sample in samples]
        window = math.ceil(min(duration / SAMPLE_EVERY, samples.maxlen or math.inf))
        each = math.ceil(window / width)
        columns = [values[start : start + each] for start in range(0, len(values), each)]
        levels = (sum(column) / len(column) / 100 for column in columns)
        graph = "".join(RISING[min(max(int(level * 8 + 0.5), 1), 8)] for level in levels)
        line = Text(graph, "cyan").append("·" * (-(-window // each) - len(graph)), QUIET)
        over = "over" if window * SAMPLE_EVERY >= duration else "last"
        return line.append(f"  {over} {format_seconds(min(window * SAMPLE_EVERY, duration))}", QUIET)
