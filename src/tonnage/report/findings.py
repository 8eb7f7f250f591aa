"""Findings of a simulation, one sentence each. Differences below the spread of the seeds are no findings."""

import math
from collections.abc import Iterator

from tonnage.report.measures import ALLOCATED, FAILED, FRAGMENTATION, NODES_FREE, Measure, compared_at, figure
from tonnage.report.pages import text
from tonnage.simulator.studies.results import Results, SeedSpread

Ranking = list[tuple[str, SeedSpread]]
"""Policies with their figure, the best first."""
_NOTICEABLE = {"%": 0.05, "": 0.5}
"""The rounding error."""


def ranking(results: Results, measure: Measure) -> Ranking:
    """The policies that have the measure, the best first, ties by name."""
    at = compared_at(results)
    figures = [(name, figure(measure, measure.curve(policy), at)) for name, policy in results.policies.items()]
    found = [(name, value) for name, value in figures if value is not None]
    return sorted(found, key=lambda pair: (-pair[1].mean if measure.more_is_better else pair[1].mean, pair[0]))


def equal(one: SeedSpread, other: SeedSpread, noticeable: float) -> bool:
    """Whether two figures differ by less than the spread of seeds, or less than anyone would notice."""
    return abs(one.mean - other.mean) <= max(math.hypot(one.sd, other.sd), noticeable)


def like_the_best(ranked: Ranking, measure: Measure) -> list[str]:
    """The best policy and its ties."""
    best = ranked[0][1]
    return [name for name, value in ranked if equal(value, best, _NOTICEABLE[measure.unit])]


def findings(results: Results) -> list[str]:
    """The sentences, the most important first, all about the checkpoint at which policies are compared."""
    sentences = [*_allocation(results), *_fragmentation(results), *_failures(results), *_free_nodes(results)]
    sentences += _waiting(results)
    if len(results.seeds) == 1 and len(results.policies) > 1:
        sentences.append("All of this is one seed: small differences may be chance, and more seeds would tell.")
    return sentences


def gpus(results: Results, points: float) -> str:
    """Percentage points of all GPUs, as a number of GPUs."""
    return text.counted(abs(points) * results.gpus / 100, "GPU")


def _allocation(results: Results) -> Iterator[str]:
    ranked = ranking(results, ALLOCATED)
    if not ranked:
        return
    name, best = ranked[0]
    leaders = like_the_best(ranked, ALLOCATED)
    rest = [(other, value) for other, value in ranked if other not in leaders]
    share = f"{text.percent(best.mean)} of all GPUs"
    if len(ranked) == 1:
        yield f"{name} allocated {share}, {gpus(results, best.mean)}."
    elif len(leaders) == 1:
        yield f"{name} allocated the most, {share}: {_more_than(results, best, rest)}."
    else:
        lead = f"{text.listed(leaders)} allocated equally much, up to {share}"
        yield f"{lead}: {_more_than(results, best, rest)}." if rest else f"{lead}: no policy did better than another."
    yield from _bound(results, name, best)


def _more_than(results: Results, best: SeedSpread, rest: Ranking) -> str:
    (second, next_best), (last, worst) = rest[0], rest[-1]
    words = f"{gpus(results, best.mean - next_best.mean)} more than {second}"
    if len(rest) > 1:
        words += (
            f", the next, and {text.number((best.mean - worst.mean) * results.gpus / 100)} more than {last}, the last"
        )
    return words


def _bound(results: Results, name: str, best: SeedSpread) -> Iterator[str]:
    bound = results.bound.get(compared_at(results) or "")
    if bound is None:
        return
    most = f"No policy could allocate more than {text.percent(bound)}"
    left = bound - best.mean
    if left <= _NOTICEABLE["%"]:
        yield f"{most}, and {name} does."
    else:
        yield f"{most}; {name} is {text.number(left, 1)} points below that, {gpus(results, left)}."


def _fragmentation(results: Results) -> Iterator[str]:
    ranked = ranking(results, FRAGMENTATION)
    if len(ranked) > 1:
        leaders = like_the_best(ranked, FRAGMENTATION)
        (_, best), (last, worst) = ranked[0], ranked[-1]
        words = f"{text.percent(best.mean)} of all GPUs are free but of no use to the typical pods"
        if len(leaders) == len(ranked):
            yield f"All policies leave GPUs equally fragmented: {words}."
        else:
            yield (
                f"{text.listed(leaders)} {_verb(leaders, 'leaves', 'leave')} the least fragmentation: "
                f"{words}, against {text.percent(worst.mean)} with {last}."
            )


def _failures(results: Results) -> Iterator[str]:
    ranked = ranking(results, FAILED)
    if len(ranked) < 2 or not ranked[-1][1].mean:
        return
    leaders = like_the_best(ranked, FAILED)
    (_, best), (last, worst) = ranked[0], ranked[-1]
    if len(leaders) == len(ranked):
        yield f"Equally many pods failed with every policy, about {text.number(best.mean)}."
    else:
        yield (
            f"The fewest pods failed with {text.listed(leaders)}, {text.number(best.mean)}; "
            f"the most with {last}, {text.number(worst.mean)}."
        )


def _free_nodes(results: Results) -> Iterator[str]:
    ranked = ranking(results, NODES_FREE)
    if len(ranked) < 2:
        return
    leaders = like_the_best(ranked, NODES_FREE)
    best, least = ranked[0][1], ranked[-1][1]
    if best.mean < 0.5:
        yield "No policy left a node entirely free."
    elif len(leaders) == len(ranked):
        yield f"All policies left equally many nodes entirely free, {text.number(best.mean)}."
    else:
        yield (
            f"{text.listed(leaders)} left the most nodes entirely free: "
            f"{text.number(best.mean)}, the others down to {text.number(least.mean)}."
        )


def _waiting(results: Results) -> Iterator[str]:
    """The shortest waits by the highest percentile below the maximum, which is what users complain about."""
    waits = {name: policy.waiting_time for name, policy in results.policies.items() if policy.waiting_time}
    shared = set.intersection(*map(set, waits.values())) if waits else set()
    percentiles = sorted((key for key in shared if _percentile(key)), key=_percentile)
    if len(waits) < 2 or not percentiles:
        return
    key = percentiles[-1]
    ranked = sorted(((name, wait[key]) for name, wait in waits.items()), key=lambda pair: (pair[1].mean, pair[0]))
    (first, best), (last, worst) = ranked[0], ranked[-1]
    share = f"{_percentile(key):g}{text.NARROW}%"
    if equal(best, worst, 1.0):
        yield f"Pods waited equally long with every policy: {share} of them started within {text.duration(best.mean)}."
    else:
        yield (
            f"Pods waited least with {first}: {share} of them started within {text.duration(best.mean)}, "
            f"against {text.duration(worst.mean)} with {last}."
        )


def _percentile(key: str) -> float:
    """50 for p50 or 50; 0 for anything but a percentile below the last."""
    digits = key.removeprefix("p")
    return float(digits) if digits.replace(".", "", 1).isdigit() and float(digits) < 100 else 0.0


def _verb(names: list[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many
