"""Controls of the terminal view: the state that keys change, from the order of pods to the page that is shown."""

from dataclasses import dataclass
from enum import StrEnum

from tonnage.cli.terminal.source import KeyHelp, TerminalSource, WaitingTask
from tonnage.overview.podwants import asks

ENTER, ESCAPE, BACKSPACE = ("\n", "\r"), "\x1b", ("\x7f", "\x08")
UP, DOWN = ("\x1b[A", "\x1bOA", "k"), ("\x1b[B", "\x1bOB", "j")
KEYS = (
    KeyHelp("s", "sort", "orders waiting pods: as they are tried, by time, by size, by name"),
    KeyHelp("/", "filter", "shows only waiting pods with a text in their name or in what they want; esc clears it"),
    KeyHelp("↑ ↓", "choose", "chooses a waiting pod, whose reason is then shown whole (j and k do, too)"),
    KeyHelp("enter d", "details", "shows everything that is known about the chosen pod"),
)
"""Keys of every source."""
HELP = KeyHelp("?", "help", "shows and hides this page")


class PodOrder(StrEnum):
    """Orders of waiting pods."""

    TRIED = "as tried"
    LONGEST = "longest wait"
    LARGEST = "largest"
    NAME = "name"


class Overlay(StrEnum):
    """What may lie over the view."""

    NONE = ""
    HELP = "help"
    DETAILS = "details"


@dataclass(slots=True)
class Controls:
    """The state that keys change."""

    order: PodOrder = PodOrder.TRIED
    filter: str = ""
    is_typing: bool = False
    """Whether keys are letters of the filter."""
    chosen: str = ""
    """Namespace and name of the chosen pod."""
    page: Overlay = Overlay.NONE
    has_keys: bool = False
    """Whether keys are read at all."""

    def press(self, key: str, source: TerminalSource) -> None:
        """Do what a key says."""
        if self.is_typing:
            self._type(key)
        elif key == ESCAPE:
            self.page, self.filter = Overlay.NONE, "" if self.page is Overlay.NONE else self.filter
        elif key == "q":
            source.stop()
        elif key == "s":
            orders = list(PodOrder)
            self.order = orders[(orders.index(self.order) + 1) % len(orders)]
        elif key == "/":
            self.is_typing, self.page = True, Overlay.NONE
        elif key == "?":
            self.page = Overlay.NONE if self.page is Overlay.HELP else Overlay.HELP
        elif key in UP or key in DOWN:
            self._choose(source, 1 if key in DOWN else -1)
        elif key in (*ENTER, "d"):
            if self.page is not Overlay.DETAILS and not self.chosen:
                self._choose(source, 1)
            self.page = Overlay.DETAILS if self.page is not Overlay.DETAILS and self.chosen else Overlay.NONE
        else:
            source.press(key)

    def _type(self, key: str) -> None:
        if key in ENTER:
            self.is_typing = False
        elif key == ESCAPE:
            self.is_typing, self.filter = False, ""
        elif key in BACKSPACE:
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _choose(self, source: TerminalSource, step: int) -> None:
        """Choose the next or the previous of the waiting pods; the first one if none was chosen, or it is gone."""
        keys = [pod.task.key for pod in self.waiting(source)]
        if not keys:
            self.chosen = ""
        elif self.chosen in keys:
            self.chosen = keys[min(max(keys.index(self.chosen) + step, 0), len(keys) - 1)]
        else:
            self.chosen = keys[0]

    def waiting(self, source: TerminalSource) -> list[WaitingTask]:
        """The waiting pods that pass the filter, in their order."""
        pods = [pod for pod in source.waiting() if self._passes(pod)]
        match self.order:
            case PodOrder.TRIED:
                pods.sort(key=lambda pod: pod.task.order)
            case PodOrder.LONGEST:
                pods.sort(key=lambda pod: (pod.since, pod.task.key))
            case PodOrder.LARGEST:
                pods.sort(key=lambda pod: (_size(pod), pod.task.key))
            case PodOrder.NAME:
                pods.sort(key=lambda pod: pod.task.key)
        return pods

    def _passes(self, pod: WaitingTask) -> bool:
        return not self.filter or self.filter.lower() in f"{pod.task.key} {asks(pod.task)}".lower()


def _size(pod: WaitingTask) -> tuple[int, int]:
    """How many cards a pod wants, and how much memory of them, as far as it says so; the larger the smaller."""
    requests = [request for demand in pod.task.demands for request in demand.requests]
    return -sum(request.count for request in requests), -sum(request.count * request.memory for request in requests)
