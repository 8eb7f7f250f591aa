"""Queues in a few words, for tests of what they get."""

from fractions import Fraction
from math import floor

from tonnage.plugins.queues._fairshare import divide
from tonnage.plugins.queues._queuetable import Amounts, Dimension, QueueTable, QueueTerms
from tonnage.plugins.queues._queueusage import QueueUsage

GPU = Dimension("gpu", 1000)
UNLIMITED = -1


def gpus(number: float) -> tuple[int]:
    """GPUs as counted: in thousandths; -1 stays as it is."""
    return (UNLIMITED if number == UNLIMITED else round(number * 1000),)


def queue(
    name: str,
    deserved: float = 0,
    *,
    request: float = 0,
    holds: float = 0,
    fixed: float = 0,
    limit: float = UNLIMITED,
    weight: int = 1,
    priority: int = 100,
    parent: str = "",
    created: str = "",
) -> QueueTerms:
    """A queue that shares GPUs only; it asks for what it holds at least."""
    return QueueTerms(
        name=name,
        parent=parent,
        priority=priority,
        created=created,
        deserved=gpus(deserved),
        limit=gpus(limit),
        weight=(weight,),
        request=gpus(max(request, holds)),
        allocated=gpus(holds),
        fixed=gpus(fixed),
    )


def shares(total: float, *queues: QueueTerms) -> dict[str, float]:
    """The fair share of every queue in GPUs."""
    table = QueueTable([GPU], queues)
    result = divide(table, gpus(total))
    return {name: float(result[0, row]) / 1000 for name, row in table.rows.items()}


def usage(total: float, *queues: QueueTerms) -> QueueUsage:
    table = QueueTable([GPU], queues)
    return QueueUsage(table, divide(table, gpus(total)), gpus(total))


def standing_of(dimensions: list[Dimension], total: Amounts, *queues: QueueTerms) -> QueueUsage:
    table = QueueTable(dimensions, queues)
    return QueueUsage(table, divide(table, total), total)


def naive_division(total: int, unit: int, queues: list[QueueTerms], place: int) -> dict[str, int]:
    """One level and one resource by the letter of the rules, in fractions."""

    def wanted(queue: QueueTerms) -> int:
        limit = queue.limit[place] if queue.limit else UNLIMITED
        return queue.request[place] if limit == UNLIMITED else min(limit, queue.request[place])

    share = {}
    for one in queues:
        deserved = total if one.deserved[place] == UNLIMITED else one.deserved[place]
        share[one.name] = min(deserved, wanted(one))
    left = Fraction(max(total - sum(share.values()), 0))
    by_name = {one.name: one for one in queues}
    for priority in sorted({one.priority for one in queues}, reverse=True):
        group = [one for one in queues if one.priority == priority]
        rests: dict[str, Fraction] = {}
        while True:
            hungry = [one for one in group if wanted(one) > share[one.name] and one.weight[place] > 0]
            weights = sum(one.weight[place] for one in hungry)
            if not hungry or left == 0:
                break
            amount, another = left, False
            rests = {}
            for one in hungry:
                slice_, wish = amount * one.weight[place] / weights, wanted(one) - share[one.name]
                if wish <= slice_:
                    given, another = wish, another or wish < slice_
                else:
                    given = floor(slice_ / unit) * unit
                    rests[one.name] = slice_ - given
                share[one.name] += given
                left -= given
            if not another:
                break
        for _, _, name in sorted((-rest, by_name[name].created, name) for name, rest in rests.items()):
            given = min(unit, left, wanted(by_name[name]) - share[name])
            share[name] += given
            left -= given
    return {name: int(amount) for name, amount in share.items()}
