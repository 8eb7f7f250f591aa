"""The waiting view: pods that wait, grouped by reason, with their age."""

from functools import partial
from typing import Any

from tonnage.dashboard.liveview import Parts, RowCache
from tonnage.dashboard.templating import macro
from tonnage.dashboard.views.view import Asked, View
from tonnage.overview.waitingpods import WaitingGroup, WaitingRow

FEW, MANY = 50, 1000
"""Pods of each reason that are shown among all reasons, and alone."""


class WaitingView(View):
    """Pods that wait, by reason."""

    name, title = "waiting", "Waiting pods"
    parameters = ("reason", "queue")

    def __init__(self) -> None:
        self._rows = RowCache()

    def parts(self, asked: Asked) -> Parts:
        groups = self.groups(asked)
        shell, count, row = (macro("parts.html", name) for name in ("waiting_shell", "waiting_count", "waiting_row"))
        most = MANY if asked.params.get("reason") is not None else FEW
        self._rows.begin()
        parts: dict[str, dict[str, str]] = {
            "groups": {f"g-{group.reason}": str(shell(group, "", asked.base)) for group, _ in groups}
            or {"nobody": str(macro("parts.html", "empty")("No pod waits.", ""))}
        }
        for group, pods in groups:
            parts[f"count-{group.reason}"] = {
                f"number-{group.reason}": str(count(group, len(pods), min(len(pods), most), asked.base))
            }
            parts[f"rows-{group.reason}"] = {
                f"w-{one.pod}": self._rows.get((one.pod, asked.base), one, partial(row, one, asked.base))
                for one in pods[:most]
            }
        return parts

    def groups(self, asked: Asked) -> list[tuple[WaitingGroup, list[WaitingRow]]]:
        """The groups that are asked for, with the pods that the caller may see."""
        reason, queue = asked.params.get("reason"), asked.params.get("queue")
        found = []
        for group in asked.board.current.waiting:
            pods = [one for one in group.pods if asked.viewer.sees(one.pod) and queue in (None, "", one.queue)]
            if pods and reason in (None, group.reason):
                found.append((group, pods))
        return found

    def around(self, asked: Asked) -> dict[str, Any]:
        return {"reason_asked": asked.params.get("reason"), "queue_asked": asked.params.get("queue") or ""}
