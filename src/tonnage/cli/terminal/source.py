"""Sources of the terminal view: a cluster in which time passes, and what is known about its waiting pods."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from rich.text import Text

from tonnage.cli.terminal.keyboard import Keyboard
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision
from tonnage.model.problem import Problem
from tonnage.overview.overview import ClusterOverview
from tonnage.overview.podrows import PodRow


class KeyHelp(NamedTuple):
    """A key, a word for the legend, and what it does."""

    key: str
    word: str
    meaning: str


class WaitingTask(Protocol):
    """A pod that waits."""

    @property
    def task(self) -> Task: ...

    @property
    def since(self) -> float:
        """Since when, by the source's clock."""
        ...


class TerminalSource(Protocol):
    """What the view shows."""

    keys: Sequence[KeyHelp]
    """Keys of its own."""
    figures: Sequence[tuple[str, str]]
    """What the figures that it shows mean, by name."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def now(self) -> float:
        """The time by its clock, in seconds."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to see, or somebody asked for the end."""
        ...

    def overview(self) -> ClusterOverview:
        """The rows of nodes and queues, and totals."""
        ...

    def pods(self) -> Sequence[PodRow]:
        """The rows of all pods."""
        ...

    def problems(self) -> Sequence[Problem]:
        """What is wrong with objects, or may not be read."""
        ...

    def waiting(self) -> Collection[WaitingTask]:
        """All pods that wait."""
        ...

    def decision(self, task: Task) -> Decision | None:
        """The latest decision about a waiting pod."""
        ...

    def explanation(self, key: str) -> Sequence[str]:
        """Lines that explain where a pod is and why; none if the source cannot, or is still working them out."""
        ...

    def undecided(self, task: Task) -> str:
        """Why a pod waits that there is no decision about."""
        ...

    def more(self, key: str) -> Sequence[tuple[str, str]]:
        """What else is known about a waiting pod, by title."""
        ...

    def gone(self, key: str) -> str:
        """What became of a pod that does not wait any more."""
        ...

    def header(self, width: int) -> Text:
        """The first line."""
        ...

    def totals(self, width: int) -> list[Text]:
        """Lines with the figures of the whole cluster."""
        ...

    def press(self, key: str) -> None:
        """Do what a key says that the view has no use for."""
        ...

    def stop(self) -> None:
        """End the view."""
        ...

    def wait(self, keyboard: Keyboard | None) -> None:
        """Let time pass until the next frame is due, or a key was pressed."""
        ...


def why(source: TerminalSource, task: Task) -> str:
    """Why a pod waits, in one line."""
    decision = source.decision(task)
    return decision.why_not() if decision is not None else source.undecided(task)
