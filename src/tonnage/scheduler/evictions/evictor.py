"""Evictions on their way: for every plan first the nominated nodes of its pods, then its victims, a few at once.

Before each write plan and victim are looked at again: the plan must still stand, and the victim must still be needed.
Who may not be evicted yet, because of a PodDisruptionBudget, is asked again for a while; then the plan is given up, and
who has not been evicted for it stays.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from tonnage.cluster.task import Task
from tonnage.scheduler.evictions.plans import ASKED, LEAVES, SPARED, STAYS, EvictionPlan, Victim
from tonnage.scheduler.evictions.writer import EvictionError, EvictionWriter
from tonnage.scheduler.nominations import Nominations

log = logging.getLogger(__name__)

AT_ONCE = 8
PATIENCE = 30.0
"""Seconds for which what is refused is tried again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_LATE_SECONDS = 10.0
"""How long a write without an answer may still take effect."""
EVICTED, GONE, NOT_NEEDED, REFUSED = "evicted", "gone", "spared", "refused"


class EvictionOutcomes(Protocol):
    """Told what became of evictions."""

    def evicted(self, victim: Victim, outcome: str) -> None: ...

    def postponed(self, plan: EvictionPlan) -> None:
        """Somebody may not be evicted yet."""
        ...


GiveUp = Callable[[EvictionPlan, str, Sequence[Victim]], None]
"""Ends a plan: why, and who could not be evicted."""


class Evictor:
    """Evicts pods while `run` runs."""

    def __init__(
        self,
        writer: EvictionWriter,
        nominations: Nominations,
        outcomes: EvictionOutcomes,
        give_up: GiveUp,
        look_again: Callable[[], None],
        clock: Callable[[], float],
        patience: float = PATIENCE,
    ) -> None:
        self._writer = writer
        self._nominations = nominations
        self._outcomes = outcomes
        self._give_up = give_up
        self._look_again = look_again
        """Called when somebody stays on whose going others may have counted."""
        self._clock = clock
        self._patience = patience
        self._free = asyncio.Semaphore(AT_ONCE)
        self._background: set[asyncio.Task[None]] = set()
        self._clearing: dict[str, asyncio.Task[None]] = {}
        """Pods whose nominated node was just taken off them: the watch may still show it."""

    def __len__(self) -> int:
        """How much has not come to its end."""
        return len(self._background)

    def add(self, plans: Sequence[EvictionPlan]) -> None:
        """Carry out new plans, and say on pods what has changed for them."""
        for plan, decision in self._nominations.promised():
            if decision.task.key in self._clearing:
                plan.nominated[decision.task.key] = ""
        for plan in plans:
            self._later(self._carry_out(plan))
        for plan in self._nominations.plans:
            if plan not in plans and self._unsaid(plan):
                self._later(self._once(self._nominate(plan)))
        for task in self._nominations.take_lost():
            self._clearing[task.key] = self._later(self._once(self._writer.nominate(task, "")))
            asyncio.get_running_loop().call_later(_LATE_SECONDS, self._clearing.pop, task.key, None)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    def _later(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    @staticmethod
    async def _guarded(work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except Exception:
            # A mistake of ours about one plan must not end all others.
            log.exception("an eviction failed")

    # -- one plan

    async def _carry_out(self, plan: EvictionPlan) -> None:
        """Nobody is evicted before it is written down for whom."""
        if not plan.decisions or await self._insist(plan, lambda: self._prepare(plan), lambda: not plan.is_over):
            await asyncio.gather(*[self._evict(plan, victim) for victim in plan.victims])
        for victim in plan.victims:
            if victim.state == SPARED:
                self._tell(victim, NOT_NEEDED)

    async def _prepare(self, plan: EvictionPlan) -> None:
        if len(plan.victims) > 1:
            await self._writer.check_budgets([victim for victim in plan.victims if self._is_due(victim)])
        await self._nominate(plan)

    async def _evict(self, plan: EvictionPlan, victim: Victim) -> None:
        await self._insist(plan, lambda: self._write(victim), lambda: not plan.is_over and self._is_open(victim))
        if victim.state == ASKED:
            # Nobody needs it to go any more; whether it does will have shown by then.
            await asyncio.sleep(_LATE_SECONDS)
            self._nominations.let_stay(victim)
            self._look_again()

    async def _write(self, victim: Victim) -> None:
        if not self._is_due(victim):
            victim.state = LEAVES
            self._tell(victim, GONE)
            return
        victim.state = ASKED
        try:
            was_there = await self._writer.evict(victim)
        except EvictionError as error:
            if error.known:
                victim.state = STAYS
            raise
        victim.state = LEAVES
        self._tell(victim, EVICTED if was_there else GONE)

    @staticmethod
    def _is_open(victim: Victim) -> bool:
        return victim.state in (STAYS, ASKED)

    def _is_due(self, victim: Victim) -> bool:
        return self._is_open(victim) and self._nominations.is_there(victim)

    async def _insist(
        self, plan: EvictionPlan, attempt: Callable[[], Awaitable[None]], is_wanted: Callable[[], bool]
    ) -> bool:
        """Try until it is done or not wanted any more; a plan for which something is refused too long is given up."""
        end, pause = self._clock() + self._patience, _FIRST_PAUSE
        while is_wanted():
            async with self._free:
                # Meanwhile a cycle may have decided otherwise.
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

    def _tell(self, victim: Victim, outcome: str) -> None:
        if not victim.outcome:
            victim.outcome = outcome
            self._outcomes.evicted(victim, outcome)

    def _refused(self, plan: EvictionPlan, error: EvictionError) -> None:
        for victim in error.refused:
            self._tell(victim, REFUSED)
        self._give_up(plan, str(error), error.refused)

    # -- nominated nodes

    def _unsaid(self, plan: EvictionPlan) -> list[tuple[Task, str]]:
        """Pods that name another node than the one that is made free for them."""
        return [
            (decision.task, decision.node)
            for key, decision in plan.decisions.items()
            if decision.node is not None and plan.nominated.get(key) != decision.node
        ]

    async def _nominate(self, plan: EvictionPlan) -> None:
        """Say on all pods of a plan which node is made free for them."""
        for task, node in self._unsaid(plan):
            clearing = self._clearing.pop(task.key, None)
            if clearing is not None:
                await asyncio.wait([clearing])
            await self._writer.nominate(task, node)
            plan.nominated[task.key] = node

    @staticmethod
    async def _once(writing: Coroutine[Any, Any, None]) -> None:
        """Write what nothing waits for."""
        try:
            await writing
        except EvictionError as error:
            log.info("%s", error)
