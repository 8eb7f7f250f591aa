"""Proportion: queues share the cluster by KAI's rules if there are KAI queues, else by Volcano's."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tonnage.framework.plugin import ArgumentError, PluginArguments
from tonnage.plugins.queues._kaiqueues import KaiQueues
from tonnage.plugins.queues._queuerules import QueueRules
from tonnage.plugins.queues._queueshares import QueueShares
from tonnage.plugins.queues._volcanoqueues import VolcanoQueues
from tonnage.plugins.queues._waterfill import deserved_by_weight, most_possible

MULTIPLIER = "reclaimerSaturationMultiplier"
AS_KAI_SPELLS_IT = "relcaimerSaturationMultiplier"


class Proportion(QueueShares, trusted=True):
    """Queues deserve what they state, and a part of the rest by weight."""

    name = "proportion"

    class Arguments(PluginArguments):
        """The settings beyond the queues themselves."""

        saturation_multiplier: float = msgspec.field(default=1.0, name=MULTIPLIER)
        """KAI's saturation multiplier: how far a queue over its fair share stays behind its victims', at least 1."""

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Callable[[str, str], None]) -> PluginArguments:
        """The arguments, also under KAI's name for the multiplier and as text, which KAI requires."""
        names = [name for name in (AS_KAI_SPELLS_IT, MULTIPLIER) if name in given]
        if len(names) == 2:
            raise ArgumentError(AS_KAI_SPELLS_IT, f"is KAI's spelling of {MULTIPLIER}, which is given too; keep one")
        arguments = dict(given)
        for name in names:
            value = _number(name, arguments.pop(name))
            if value < 1:
                warn(name, f"{value:g} is below 1; 1 is used, as in KAI")
            arguments[MULTIPLIER] = max(value, 1.0)
        return super().read_arguments(arguments, warn)

    def make_rules(self, by_kai: bool) -> QueueRules:
        """KAI's rules of a tree of queues, or Volcano's of flat ones."""
        if by_kai:
            table = self.table(self._session.cluster.groups.hierarchy().parents)
            return KaiQueues(table, self._counts, self._session.next_jobs, self.args.saturation_multiplier)
        table, total = self.table({}), self._counts.total
        return VolcanoQueues(table, deserved_by_weight(table, total), most_possible(table, total))


def _number(name: str, value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentError(name, f"expected a number, got {value!r}")
    return number
