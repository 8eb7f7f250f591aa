"""Rankings of policies by a measure: which is best, which equal it, and which did less work for it."""

import math

from tonnage.report.measures import ALLOCATED, Measure
from tonnage.simulator.studies.results import Results, SeedSpread

Ranking = list[tuple[str, SeedSpread]]
"""Policies with their figure, the best first."""
NOTICEABLE = {"%": 0.05, "": 0.5}
"""The rounding error, by unit."""
NOTICEABLE_SECONDS = 1.0


def ranking(results: Results, measure: Measure) -> Ranking:
    """The policies that have the measure, the best first, ties by name."""
    figures = [(name, policy.compared.get(measure.name)) for name, policy in results.policies.items()]
    found = [(name, value) for name, value in figures if value is not None]
    return sorted(found, key=lambda pair: (-pair[1].mean if measure.more_is_better else pair[1].mean, pair[0]))


def time_ranking(results: Results, times: str, percentile: str) -> Ranking:
    """The policies by a percentile of waiting or completion times, the shortest first."""
    known = [(name, getattr(policy, times)) for name, policy in results.policies.items()]
    found = [(name, value[percentile]) for name, value in known if percentile in value]
    return sorted(found, key=lambda pair: (pair[1].mean, pair[0]))


def equal(one: SeedSpread, other: SeedSpread, noticeable: float) -> bool:
    """Whether two figures differ by less than the spread of seeds, or less than anyone would notice."""
    return abs(one.mean - other.mean) <= max(math.hypot(one.sd, other.sd), noticeable)


def like_the_best(ranked: Ranking, noticeable: float) -> list[str]:
    """The best policy and its ties."""
    return [name for name, value in ranked if equal(value, ranked[0][1], noticeable)]


def best_by(results: Results, measure: Measure) -> list[str]:
    """The best policies of a column; none if all tie, and none that are best only because they did less work."""
    ranked = ranking(results, measure)
    leaders = like_the_best(ranked, NOTICEABLE[measure.unit]) if ranked else []
    if len(leaders) == len(ranked):
        return []
    idle = less_allocated(results) if measure.gains_by_idling else ()
    return [name for name in leaders if name not in idle]


def best_by_time(results: Results, times: str, percentile: str) -> list[str]:
    """The same by a percentile of times, which count only pods that ran."""
    ranked = time_ranking(results, times, percentile)
    leaders = like_the_best(ranked, NOTICEABLE_SECONDS) if ranked else []
    unserved = more_never_ran(results)
    return [name for name in leaders if name not in unserved] if len(leaders) < len(ranked) else []


def less_allocated(results: Results) -> list[str]:
    """The policies that allocated less than the best, so that what they left free is no merit."""
    ranked = ranking(results, ALLOCATED)
    leaders = like_the_best(ranked, NOTICEABLE[ALLOCATED.unit]) if ranked else []
    return [name for name, _ in ranked if name not in leaders]


def more_never_ran(results: Results) -> list[str]:
    """The policies with which more pods never ran than with the best, so that the waits of the others are no merit."""
    unserved = [
        (name, SeedSpread(sum(v.mean for v in found), math.hypot(*(v.sd for v in found))))
        for name, policy in results.policies.items()
        for found in [policy.failures.values()]
    ]
    ranked = sorted(unserved, key=lambda pair: pair[1].mean)
    leaders = like_the_best(ranked, NOTICEABLE[""]) if ranked else []
    return [name for name, _ in ranked if name not in leaders]
