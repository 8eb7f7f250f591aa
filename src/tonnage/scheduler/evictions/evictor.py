"""Evictor: carries out eviction plans; it writes the nominated nodes of a plan first, then evicts the victims.

Before each write it checks that the plan still stands and the victim is still needed. An eviction that a
PodDisruptionBudget refuses is repeated for 30 seconds; then the plan is given up, and the victims that are left stay.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from tonnage.cluster.task import Task
from tonnage.kube.supervision import background
from tonnage.scheduler.evictions.plans import ASKED, LEAVES, SPARED, STAYS, EvictionPlan, Victim
from tonnage.scheduler.evictions.writer import EvictionError, EvictionWriter
from tonnage.scheduler.nominations import Nominations

log = logging.getLogger(__name__)

AT_ONCE = 8
PATIENCE = 30.0
"""Seconds for which a refused write is repeated."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_LATE_SECONDS = 10.0
"""How long a write without an answer may still take effect."""
EVICTED, GONE, NOT_NEEDED, REFUSED = "evicted", "gone", "spared", "refused"


class EvictionOutcomes(Protocol):
    """Receives the outcome of each eviction."""

    def evicted(self, victim: Victim, outcome: str) -> None: ...

    def postponed(self, plan: EvictionPlan) -> None:
        """A victim may not be evicted yet."""
        ...


GiveUp = Callable[[EvictionPlan, str, Sequence[Victim]], None]
"""Ends a plan: why, and which victims could not be evicted."""


class Evictor:
    """Evicts pods while `run` runs."""

    def __init__(
        self,
        writer: EvictionWriter,
        nominations: Nominations,
        outcomes: EvictionOutcomes,
        give_up: GiveUp,
        retry_all: Callable[[], None],
        clock: Callable[[], float],
        patience: float = PATIENCE,
        look_again: Callable[[str], None] = lambda pod: None,
    ) -> None:
        self._writer = writer
        self._nominations = nominations
        self._outcomes = outcomes
        self._give_up = give_up
        self._retry_all = retry_all
        """Called when a victim stays after all: other pods may have counted on its room."""
        self._clock = clock
        self._patience = patience
        self._look_again = look_again
        """Called with a pod whose nominated node was cleared: an earlier write may have come true after that."""
        self._free = asyncio.Semaphore(AT_ONCE)
        self._background: set[asyncio.Task[None]] = set()
        self._clearing: dict[str, asyncio.Task[None]] = {}
        """Pods whose nominated node is being cleared: the watch may still show it."""

    def __len__(self) -> int:
        """How many writes and plans are in progress."""
        return len(self._background)

    def add(self, plans: Sequence[EvictionPlan]) -> None:
        """Carry out new plans, and write the nominated nodes that have changed."""
        for plan, decision in self._nominations.nominated():
            if decision.task.key in self._clearing:
                plan.nominated[decision.task.key] = ""
        for plan in plans:
            self._later(self._carry_out_or_end(plan))
        for plan in self._nominations.plans:
            if plan not in plans and self._unwritten(plan):
                self._later(self._once(self._nominate(plan)))
        for task in self._nominations.take_lost():
            self._clear(task)

    def clear(self, task: Task) -> None:
        """Clear the nominated node of a pod that is not nominated, unless that is under way."""
        if task.key not in self._clearing:
            self._clear(task)

    def _clear(self, task: Task) -> None:
        clearing = self._clearing[task.key] = self._later(self._once(self._writer.nominate(task, "")))
        asyncio.get_running_loop().call_later(_LATE_SECONDS, self._cleared, task, clearing)

    def _cleared(self, task: Task, clearing: "asyncio.Task[None]") -> None:
        """Look again once the write can take no effect any more."""
        if self._clearing.get(task.key) is clearing:
            del self._clearing[task.key]
            self._look_again(task.key)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    def _later(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        # A bug that one plan meets must not end all others.
        return background("eviction", work, self._background)

    # -- one plan

    async def _carry_out_or_end(self, plan: EvictionPlan) -> None:
        """A plan that nobody carries out must not keep its places."""
        try:
            await self._carry_out(plan)
        except Exception:
            self._give_up(plan, "the evictions failed; the log says why", ())
            raise

    async def _carry_out(self, plan: EvictionPlan) -> None:
        """Write the nominated nodes, then evict: after a crash, the nominations tell for whom pods were evicted."""
        if not plan.decisions or await self._retry(plan, lambda: self._prepare(plan), lambda: not plan.is_over):
            await asyncio.gather(*[self._evict(plan, victim) for victim in plan.victims])
        for victim in plan.victims:
            if victim.state == SPARED:
                self._settle(victim, NOT_NEEDED)

    async def _prepare(self, plan: EvictionPlan) -> None:
        if len(plan.victims) > 1:
            await self._writer.check_budgets([victim for victim in plan.victims if self._is_due(victim)])
        await self._nominate(plan)

    async def _evict(self, plan: EvictionPlan, victim: Victim) -> None:
        await self._retry(plan, lambda: self._write(victim), lambda: not plan.is_over and self._is_open(victim))
        if victim.state == ASKED:
            # The plan ended while the outcome was unknown; after 10 seconds the watch has shown it.
            await asyncio.sleep(_LATE_SECONDS)
            self._nominations.let_stay(victim)
            self._retry_all()

    async def _write(self, victim: Victim) -> None:
        if not self._is_due(victim):
            victim.state = LEAVES
            self._settle(victim, GONE)
            return
        victim.state = ASKED
        try:
            was_there = await self._writer.evict(victim)
        except EvictionError as error:
            if error.known:
                victim.state = STAYS
            raise
        victim.state = LEAVES
        self._settle(victim, EVICTED if was_there else GONE)

    @staticmethod
    def _is_open(victim: Victim) -> bool:
        return victim.state in (STAYS, ASKED)

    def _is_due(self, victim: Victim) -> bool:
        return self._is_open(victim) and self._nominations.is_running(victim)

    async def _retry(
        self, plan: EvictionPlan, attempt: Callable[[], Awaitable[None]], is_wanted: Callable[[], bool]
    ) -> bool:
        """Repeat until it succeeds or is not wanted any more; a plan that is refused for too long is given up."""
        end, pause = self._clock() + self._patience, _FIRST_PAUSE
        while is_wanted():
            async with self._free:
                # A cycle may have changed the plan meanwhile.
                if is_wanted() and self._nominations.stands(plan):
                    try:
                        await attempt()
                        plan.against = ""
                        return True
                    except EvictionError as error:
                        if error.lasting or (error.known and self._clock() >= end):
                            self._refused(plan, error)
                            return False
                        plan.against = str(error)
                        self._outcomes.postponed(plan)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return False

    def _settle(self, victim: Victim, outcome: str) -> None:
        if not victim.outcome:
            victim.outcome = outcome
            self._outcomes.evicted(victim, outcome)

    def _refused(self, plan: EvictionPlan, error: EvictionError) -> None:
        for victim in error.refused:
            self._settle(victim, REFUSED)
        self._give_up(plan, str(error), error.refused)

    # -- nominated nodes

    def _unwritten(self, plan: EvictionPlan) -> list[tuple[Task, str]]:
        """Pods whose nominated node in the API server is not the one of the plan."""
        return [
            (decision.task, decision.node)
            for key, decision in plan.decisions.items()
            if decision.node is not None and plan.nominated.get(key) != decision.node
        ]

    async def _nominate(self, plan: EvictionPlan) -> None:
        """Write the nominated node of each pod of a plan."""
        for task, node in self._unwritten(plan):
            clearing = self._clearing.pop(task.key, None)
            if clearing is not None:
                await asyncio.wait([clearing])
            await self._writer.nominate(task, node)
            plan.nominated[task.key] = node

    @staticmethod
    async def _once(writing: Coroutine[Any, Any, None]) -> None:
        """Write without repeating: nothing depends on it."""
        try:
            await writing
        except EvictionError as error:
            log.info("%s", error)
