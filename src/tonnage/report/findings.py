"""Findings of a simulation, one sentence each. Differences below the spread of the seeds are no findings."""

from collections.abc import Iterator, Sequence

from tonnage.report.measures import ALLOCATED, FAILED, FRAGMENTATION, NODES_FREE
from tonnage.report.pages import text
from tonnage.report.ranking import (
    NOTICEABLE,
    NOTICEABLE_SECONDS,
    Ranking,
    equal,
    less_allocated,
    like_the_best,
    more_never_ran,
    ranking,
    time_ranking,
)
from tonnage.simulator.studies.results import Results, SeedSpread


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
    leaders = like_the_best(ranked, NOTICEABLE[ALLOCATED.unit])
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
    bound = results.bound.get(results.compared_at)
    if bound is None:
        return
    most = f"No policy could allocate more than {text.percent(bound)}"
    left = bound - best.mean
    if left <= NOTICEABLE[ALLOCATED.unit]:
        yield f"{most}, and {name} does."
    else:
        yield f"{most}; {name} is {text.number(left, 1)} points below that, {gpus(results, left)}."


def _fragmentation(results: Results) -> Iterator[str]:
    ranked = ranking(results, FRAGMENTATION)
    if len(ranked) > 1:
        leaders = like_the_best(ranked, NOTICEABLE[FRAGMENTATION.unit])
        (_, best), (last, worst) = ranked[0], ranked[-1]
        words = f"{text.percent(best.mean)} of all GPUs are free but of no use to the typical pods"
        if len(leaders) == len(ranked):
            yield f"All policies leave GPUs equally fragmented: {words}."
        else:
            yield (
                f"{text.listed(leaders)} {_verb(leaders, 'leaves', 'leave')} the least fragmentation: "
                f"{words}, against {text.percent(worst.mean)} with {last}{_but_less(results, leaders)}."
            )


def _failures(results: Results) -> Iterator[str]:
    ranked = ranking(results, FAILED)
    if len(ranked) < 2 or not ranked[-1][1].mean:
        return
    leaders = like_the_best(ranked, NOTICEABLE[FAILED.unit])
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
    leaders = like_the_best(ranked, NOTICEABLE[NODES_FREE.unit])
    best, least = ranked[0][1], ranked[-1][1]
    if best.mean < 0.5:
        yield "No policy left a node entirely free."
    elif len(leaders) == len(ranked):
        yield f"All policies left equally many nodes entirely free, {text.number(best.mean)}."
    else:
        yield (
            f"{text.listed(leaders)} left the most nodes entirely free: "
            f"{text.number(best.mean)}, the others down to {text.number(least.mean)}{_but_less(results, leaders)}."
        )


def _but_less(results: Results, leaders: Sequence[str]) -> str:
    """An addition about policies that are ahead of others because they allocated less."""
    idle = [name for name in leaders if name in less_allocated(results)]
    return f"; but {text.listed(idle)} allocated less than {ranking(results, ALLOCATED)[0][0]}" if idle else ""


def _waiting(results: Results) -> Iterator[str]:
    """The shortest waits by the highest percentile below the maximum, which is what users complain about."""
    waits = [set(policy.waiting_time) for policy in results.policies.values() if policy.waiting_time]
    shared = set.intersection(*waits) if waits else set()
    percentiles = sorted((key for key in shared if _percentile(key)), key=_percentile, reverse=True)
    if len(waits) < 2 or not percentiles:
        return
    ranked = time_ranking(results, "waiting_time", percentiles[0])
    (first, best), (last, worst) = ranked[0], ranked[-1]
    by = f"by the {_ordinal(percentiles[0])} percentile: {_percentile(percentiles[0]):g}{text.NARROW}% of them started"
    if equal(best, worst, NOTICEABLE_SECONDS):
        words = f"Pods waited equally long with every policy {by} within {text.duration(best.mean)}"
    else:
        words = f"Pods waited least with {first} {by} within {text.duration(best.mean)}, "
        words += f"against {text.duration(worst.mean)} with {last}"
        if first in more_never_ran(results):
            words += f"; but more pods never ran with {first} than with another policy"
    yield f"{words}{_otherwise(results, percentiles)}."


def _otherwise(results: Results, percentiles: Sequence[str]) -> str:
    """An addition about percentiles that say otherwise than the first one: other policies have the shortest waits."""
    best, *rankings = [time_ranking(results, "waiting_time", key) for key in percentiles]
    said = like_the_best(best, NOTICEABLE_SECONDS)
    all_tie = len(said) == len(best)
    words = ""
    for key, ranked in zip(percentiles[1:], rankings, strict=True):
        leaders = like_the_best(ranked, NOTICEABLE_SECONDS)
        if len(leaders) < len(ranked) if all_tie else not set(said) & set(leaders):
            behind = ranked[-1] if all_tie else next(one for one in ranked if one[0] in said)
            words += f"; by the {_ordinal(key)} least with {text.listed(leaders)}, {text.duration(ranked[0][1].mean)} "
            words += f"against {text.duration(behind[1].mean)} with {behind[0]}"
    return words


def _ordinal(key: str) -> str:
    return f"{_percentile(key):g}th"


def _percentile(key: str) -> float:
    """50 for p50 or 50; 0 for anything but a percentile below the last."""
    digits = key.removeprefix("p")
    return float(digits) if digits.replace(".", "", 1).isdigit() and float(digits) < 100 else 0.0


def _verb(names: list[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many
