"""The decisions view: the last thousand decisions, by pod, node or reason."""

from functools import partial
from typing import Any

from tonnage.dashboard.decisionlog import LoggedDecision
from tonnage.dashboard.liveview import Parts, RowCache
from tonnage.dashboard.templating import macro
from tonnage.dashboard.views.view import Asked, View

FILTERS = ("pod", "node", "reason")


class DecisionsView(View):
    """What was decided, the newest first."""

    name, title = "decisions", "Decisions"
    parameters = FILTERS

    def __init__(self) -> None:
        self._rows = RowCache()

    def parts(self, asked: Asked) -> Parts:
        row = macro("parts.html", "decision_row")
        self._rows.begin()
        key = asked.base, asked.viewer
        shown = {
            f"d-{one.number}": self._rows.get(
                (one.number, key), one, partial(row, one, asked.base, asked.viewer.sees_nodes)
            )
            for one in asked.board.decisions
            if _passes(one, asked)
        }
        nothing = macro("parts.html", "empty_row")("No decision is shown.", 5)
        return {"decisions": shown or {"no-decisions": str(nothing)}}

    def around(self, asked: Asked) -> dict[str, Any]:
        reasons = sorted({one.reason for one in asked.board.decisions if one.reason})
        return {"filters": {name: asked.params.get(name, "") for name in FILTERS}, "reasons": reasons}


def _passes(one: LoggedDecision, asked: Asked) -> bool:
    pod, node, reason = (asked.params.get(name, "") for name in FILTERS)
    record = one.record
    if not asked.viewer.sees(record.pod) or pod.lower() not in record.pod.lower():
        return False
    if node and (not asked.viewer.sees_nodes or node.lower() not in (record.node or "").lower()):
        return False
    return not reason or reason == one.reason or any(reason == rejected.reason for rejected in record.rejected)
