"""What the extender tells the outside about its decisions; metrics, events and log lines hang on here."""

from typing import Protocol

from tonnage.extender.protocol import BindArgs, FilterArgs
from tonnage.extender.reservations import Filtered
from tonnage.framework.decision import Decision
from tonnage.model.pod import Pod


class Recorder(Protocol):
    """Told of every decision and how many seconds it took."""

    def filtered(self, args: FilterArgs, filtered: Filtered, seconds: float) -> None: ...

    def bound(self, args: BindArgs, decision: Decision, seconds: float) -> None: ...

    def not_bound(self, args: BindArgs, why: str, seconds: float) -> None: ...

    def gone(self, key: str) -> None: ...

    def plugin_failed(self, pod: Pod) -> None: ...

    def overlapped(self, pod: Pod, why: str) -> None: ...

    def called(self, outcome: str) -> None: ...
