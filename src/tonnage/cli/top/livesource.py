"""A cluster that is followed, or read from files, as the source of the terminal view.

The informer and the view share one event loop: time passes for the one while the other waits for the next frame.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from rich.text import Text

from tonnage.cli.terminal.drawing import ALERT, NAME, QUIET, TITLE, append_figure, bar, row_of
from tonnage.cli.terminal.keyboard import Keyboard
from tonnage.cli.terminal.rows import ViewRows
from tonnage.cli.terminal.source import KeyHelp
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.framework.failures import failure
from tonnage.live.cycle import CycleDecisions, dry_cycle
from tonnage.live.view import ClusterView
from tonnage.model.duration import format_seconds
from tonnage.model.problem import Problem
from tonnage.model.timestamp import known_timestamp
from tonnage.overview.overview import ClusterOverview
from tonnage.overview.podrows import PodRow

FRAME_SECONDS = 1.0
"""Between frames if no key is pressed."""
_NAP = 0.1
"""Seconds after which a signal is noticed at the latest."""
_SHARE = 20
"""Decisions and rows are made again after so many times as long as they took: they cost a twentieth of a core."""
_LONGEST_KEPT = 60.0
"""Seconds after which decisions are made again although nothing changed: some depend on the time."""


class WaitingEntry(NamedTuple):
    """A pod that waits."""

    task: Task
    since: float


class _Explained(NamedTuple):
    """The explanation of a pod."""

    key: str = ""
    lines: Sequence[str] = ()
    changes: int = -1
    due: float = 0.0
    """When it may be worked out again."""


class LiveSource:
    """A view of a cluster, for the terminal."""

    keys: Sequence[KeyHelp] = (KeyHelp("q", "quit", "ends the view, as Ctrl-C does"),)
    figures: Sequence[tuple[str, str]] = (
        ("since, age", "since the pod was created"),
        ("reason, why", "what the configuration in the first line would decide about the pod now"),
    )

    def __init__(
        self,
        view: ClusterView,
        loop: asyncio.AbstractEventLoop | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view = view
        self._loop = loop
        self._clock = clock
        self._is_stopped = False
        self._rows = ViewRows(view.cluster, view.plugins)
        self._decided = CycleDecisions({}, {}, {})
        self._seen, self._decided_at_change = -1, -1
        self._rows_due = self._decisions_due = 0.0
        self._decided_at = 0.0
        self._asked, self._explained = "", _Explained()
        self.refresh()

    # -- the cluster

    @property
    def cluster(self) -> Cluster:
        return self._view.cluster

    @property
    def now(self) -> float:
        return self._view.now()

    @property
    def is_over(self) -> bool:
        return self._is_stopped

    def overview(self) -> ClusterOverview:
        return self._rows.overview

    def pods(self) -> Sequence[PodRow]:
        return self._rows.pods

    def problems(self) -> Sequence[Problem]:
        return self._view.live.problems()

    def refresh(self) -> None:
        """Bring decisions, rows and the explanation that is looked at up to date, as often as their cost allows."""
        self._update()
        self._explain()

    def _update(self) -> None:
        changes, began = self._view.live.changes, self._clock()
        is_old = began - self._decided_at >= _LONGEST_KEPT
        is_new = changes != self._decided_at_change or is_old
        if is_new and began >= self._decisions_due:
            self._decided = dry_cycle(self._view)
            self._decided_at_change, self._decided_at, self._seen = changes, began, -1
        if (changes != self._seen and began >= self._rows_due) or self._seen < 0:
            self._rows.update(self.decision, self._decided.queues)
            self._seen = changes
            took = self._clock() - began
            self._rows_due = began + _SHARE * took
            if self._decided_at == began:
                self._decisions_due = began + _SHARE * took
                # Decisions have touched every row; the next update of rows alone is cheap again.
                self._rows_due = began

    # -- waiting pods

    def waiting(self) -> Collection[WaitingEntry]:
        now = self.now
        return [
            WaitingEntry(task, min(known_timestamp(task.created) or now, now)) for task in self.cluster.waiting.values()
        ]

    def decision(self, task: Task) -> Decision | None:
        return self._decided.waiting.get(task.key)

    def explanation(self, key: str) -> Sequence[str]:
        self._asked = key
        return self._explained.lines if self._explained.key == key else ()

    def _explain(self) -> None:
        """Explain the pod that is looked at, again after changes, as often as the cost allows."""
        key, changes, began = self._asked, self._view.live.changes, self._clock()
        known, self._asked = self._explained, ""
        if not key or (known.key == key and (known.changes == changes or began < known.due)):
            return
        # Many modules, which the first frame does not need.
        from tonnage.cli.explain.text import explanation_text
        from tonnage.explain.names import UnknownNameError
        from tonnage.explain.record import ExplainedKind
        from tonnage.plan.defrag.moves import make_explainer

        namespace, _, name = key.partition("/")
        view = self._view
        self.cluster.now = view.now()
        try:
            explainer = make_explainer(self.cluster, view.plugins, view.actions)
            found = explainer.explain(ExplainedKind.POD, name, namespace)
            lines = explanation_text(found).splitlines()
        except UnknownNameError:
            lines = []
        except Exception as error:
            # A plugin of somebody else's may fail in any way.
            lines = [f"it cannot be explained: {failure(error)}"]
        self._explained = _Explained(key, lines, changes, began + _SHARE * (self._clock() - began))

    def undecided(self, task: Task) -> str:
        placed = self._decided.placed.get(task.key)
        if placed is not None:
            return f"fits on {placed.node} now; waits for its scheduler, {task.pod.scheduler}"
        return self._decided.fault or "not looked at yet"

    def more(self, key: str) -> Sequence[tuple[str, str]]:
        task = self.cluster.waiting.get(key)
        return [] if task is None else [("scheduler", task.pod.scheduler)]

    def gone(self, key: str) -> str:
        row = next((one for one in self._rows.pods if one.pod == key), None)
        node = None if row is None else next((one for one in self.overview().nodes if one.name == row.node), None)
        if row is None:
            return "It is gone."
        held = [
            f"GPU {card.index}: {holder.memory:,} MiB, {holder.cores}% cores"
            for card in (node.cards if node is not None else ())
            for holder in card.holders
            if holder.pod == key
        ]
        age = "" if row.since is None else f", created {format_seconds(max(self.now - row.since, 0.0))} ago"
        return f"It is {row.state} on {row.node}{age}; {'; '.join(held) or 'it holds no GPU'}."

    # -- keys and time

    def press(self, key: str) -> None:
        """It has no keys of its own but q."""

    def stop(self) -> None:
        self._is_stopped = True

    def wait(self, keyboard: Keyboard | None) -> None:
        if self._asked not in ("", self._explained.key):
            # Nobody waits a second for an answer that is not begun yet.
            self._explain()
            return
        loop, deadline, key = self._loop, self._clock() + FRAME_SECONDS, asyncio.Event()
        assert loop is not None, "a view that is printed once does not wait"
        if keyboard is not None:
            loop.add_reader(keyboard.descriptor, key.set)
        try:
            while not (self._is_stopped or key.is_set() or self._clock() >= deadline):
                loop.run_until_complete(_rest(key))
                if keyboard is not None and keyboard.is_interrupted:
                    break
        finally:
            if keyboard is not None:
                loop.remove_reader(keyboard.descriptor)
        self.refresh()

    # -- the top

    def header(self, width: int) -> Text:
        view, since = self._view, self._view.live.stale_since
        left = row_of(("Tonnage", TITLE), "  ", (view.place, NAME))
        right = Text(f"{view.decided_by}  ", QUIET).append(_clock_time(self.now), NAME)
        if since is not None:
            age = format_seconds(max(time.time() - since, 0.0))
            told = f"away: as of {_clock_time(since)}, {age} ago"
            left = row_of((told, f"bold {ALERT}"), "  ", (view.place, NAME))
        if len(left) + len(right) + 2 > width:
            right = Text(_clock_time(self.now), NAME)
        return left.append(" " * max(width - len(left) - len(right) - 1, 1)).append_text(right)

    def totals(self, width: int) -> list[Text]:
        totals = self.overview().totals
        memory = row_of(("GPU memory  ", TITLE), (f"{totals.memory_percent:6.1f}%  ", NAME))
        memory.append_text(bar(totals.memory_percent / 100, max(min(width - 40, 48), 8), totals.memory_percent > 0))
        cards = row_of(("GPU cores   ", TITLE), (f"{totals.cores_percent:6.1f}%", NAME))
        append_figure(cards, width, "fragmentation", f"{totals.fragmentation_percent:.1f}%")
        counts = f"{totals.full:,} full, {totals.partial:,} partly, {totals.idle:,} idle"
        append_figure(cards, width, "GPUs", counts)
        append_figure(cards, width, "free GPUs", f"{totals.free:,.1f}, {totals.usable:,.1f} usable")
        pods = row_of(("pods        ", TITLE), (f"{totals.running:6,} running", NAME), f", {totals.waiting:,} waiting")
        append_figure(pods, width, "nodes", f"{totals.nodes:,}")
        append_figure(pods, width, "stranded GPUs", f"{totals.stranded_free:,.1f} on {totals.stranded:,}")
        append_figure(pods, width, "unhealthy", f"{totals.unhealthy:,}")
        return [memory, cards, pods, *self._notes()]

    def _notes(self) -> list[Text]:
        told = [self._view.note, f"no decisions: {self._decided.fault}" if self._decided.fault else ""]
        return [row_of((one, ALERT)) for one in told if one]


async def _rest(key: asyncio.Event) -> None:
    """Let others work until a key is pressed, but not for long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_NAP):
            await key.wait()


def _clock_time(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))
