"""Controls of the terminal view: the state that keys change, from the order of items to the page that is shown."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tonnage.cli.terminal.itemtable import ItemTable
from tonnage.cli.terminal.source import KeyHelp, TerminalSource
from tonnage.cli.terminal.tabs import Tab, content

ENTER, ESCAPE, BACKSPACE = ("\n", "\r"), "\x1b", ("\x7f", "\x08")
_TABS = {str(number): tab for number, tab in enumerate(Tab, 1)}
_NEXT_TAB, _PREVIOUS_TAB = "\t", "\x1b[Z"
_FAR = 10**9
_STEPS = {
    **dict.fromkeys(("\x1b[A", "\x1bOA", "k"), -1),
    **dict.fromkeys(("\x1b[B", "\x1bOB", "j"), 1),
    "\x1b[5~": -10,
    "\x1b[6~": 10,
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~", "g"), -_FAR),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~", "G"), _FAR),
}
"""How far keys move the choice."""
KEYS = (
    KeyHelp("1-5 tab", "view", "shows the cluster, its nodes, GPUs, pods or queues"),
    KeyHelp("s", "sort", "orders what is listed in another way"),
    KeyHelp("/", "filter", "lists only what has a text in its name or description; esc clears it"),
    KeyHelp(
        "↑ ↓",
        "choose",
        "chooses one of the list (j and k do, too); page up and down, home and end go further, and move pages",
    ),
    KeyHelp("enter d", "details", "shows everything about the chosen one: of a waiting pod, why it waits"),
    KeyHelp("p", "problems", "shows what is wrong with objects, or may not be read"),
)
"""Keys of every source."""
HELP = KeyHelp("?", "help", "shows and hides this page")


class Overlay(StrEnum):
    """What may lie over the view."""

    NONE = ""
    HELP = "help"
    DETAILS = "details"
    PROBLEMS = "problems"


@dataclass(slots=True)
class Controls:
    """The state that keys change."""

    tab: Tab = Tab.CLUSTER
    order: int = 0
    """The number of the order, of those that the tab's table has."""
    filter: str = ""
    is_typing: bool = False
    """Whether keys are letters of the filter."""
    chosen: str = ""
    """The key of the chosen item: a pod, node, card or queue."""
    page: Overlay = Overlay.NONE
    has_keys: bool = False
    """Whether keys are read at all."""
    top: int = 0
    """The first line of a long page that is shown."""
    _elsewhere: dict[Tab, tuple[int, str]] = field(default_factory=dict)
    """Order and choice of the other tabs."""

    def press(self, key: str, source: TerminalSource) -> None:
        """Do what a key says."""
        if self.is_typing:
            self._type(key)
        elif key == ESCAPE:
            self.page, self.filter = Overlay.NONE, "" if self.page is Overlay.NONE else self.filter
        elif key == "q":
            source.stop()
        elif key in _TABS:
            self._show(_TABS[key])
        elif key in (_NEXT_TAB, _PREVIOUS_TAB):
            tabs = list(Tab)
            self._show(tabs[(tabs.index(self.tab) + (1 if key == _NEXT_TAB else -1)) % len(tabs)])
        elif key == "s":
            self.order += 1
        elif key == "/":
            self.is_typing, self.page = True, Overlay.NONE
        elif key in ("?", "p"):
            page = Overlay.HELP if key == "?" else Overlay.PROBLEMS
            self.page, self.top = Overlay.NONE if self.page is page else page, 0
        elif key in _STEPS:
            self._step(source, _STEPS[key])
        elif key in (*ENTER, "d"):
            self._open_details(source)
        else:
            source.press(key)

    def _show(self, tab: Tab) -> None:
        self._elsewhere[self.tab] = self.order, self.chosen
        self.tab, self.page = tab, Overlay.NONE
        self.order, self.chosen = self._elsewhere.get(tab, (0, ""))

    def _type(self, key: str) -> None:
        if key in ENTER:
            self.is_typing = False
        elif key == ESCAPE:
            self.is_typing, self.filter = False, ""
        elif key in BACKSPACE:
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key

    def _open_details(self, source: TerminalSource) -> None:
        if self.page is not Overlay.DETAILS and not self.chosen:
            self._choose(source, 1)
        self.page = Overlay.DETAILS if self.page is not Overlay.DETAILS and self.chosen else Overlay.NONE
        self.top = 0

    def _step(self, source: TerminalSource, step: int) -> None:
        """Move the choice; a page that is not about the choice is moved, and a long one by long steps."""
        if self.page in (Overlay.HELP, Overlay.PROBLEMS) or (self.page is Overlay.DETAILS and abs(step) > 1):
            self.top = max(self.top + step, 0)
        else:
            self._choose(source, step)
            self.top = 0

    def _choose(self, source: TerminalSource, step: int) -> None:
        """Choose another item; the first one if none was chosen, or it is gone."""
        table = content(self.tab, source).table
        keys = [table.key(item) for item in self.items(source)]
        if not keys:
            self.chosen = ""
        elif self.chosen in keys:
            self.chosen = keys[min(max(keys.index(self.chosen) + step, 0), len(keys) - 1)]
        else:
            self.chosen = keys[0]

    def notes(self, table: ItemTable[Any]) -> list[str]:
        """What was done to the items: their order if it is not the usual one, and the filter."""
        order = table.order(self.order)
        notes = [f"by {order}"] if order != table.order(0) else []
        return [*notes, f"with “{self.filter}”"] if self.filter else notes

    def items(self, source: TerminalSource) -> list[Any]:
        """The items of the tab that pass the filter, in their order."""
        table, items = content(self.tab, source)
        return table.chosen_from(items, self.order, self.filter)
