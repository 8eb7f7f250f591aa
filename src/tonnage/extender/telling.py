"""What the extender tells the outside about its decisions; metrics, events and log lines hang on here."""

import logging
from typing import Protocol

from tonnage.extender.placing import Filtered
from tonnage.extender.protocol import BindArgs, FilterArgs
from tonnage.framework.decision import Decision

log = logging.getLogger(__name__)


class Telling(Protocol):
    """Told of every decision and how many seconds it took."""

    def filtered(self, args: FilterArgs, filtered: Filtered, seconds: float) -> None: ...

    def bound(self, args: BindArgs, decision: Decision, seconds: float) -> None: ...

    def not_bound(self, args: BindArgs, why: str, seconds: float) -> None: ...


class Plain:
    """A line in the log for each decision."""

    def filtered(self, args: FilterArgs, filtered: Filtered, seconds: float) -> None:
        decision = filtered.decision
        if decision is not None:
            where = decision.node or decision.why_not()
            log.info("filter %s: %s (%.2f ms)", decision.task.key, where, seconds * 1000)

    def bound(self, args: BindArgs, decision: Decision, seconds: float) -> None:
        log.info("bind %s to %s (%.2f ms)", args.key, args.node, seconds * 1000)

    def not_bound(self, args: BindArgs, why: str, seconds: float) -> None:
        log.warning("bind %s to %s: %s (%.2f ms)", args.key, args.node, why, seconds * 1000)
