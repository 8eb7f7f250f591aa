"""The comparison of policies: the one figure by which each measure of a policy is told, wherever it is told.

A fill is compared at 100 % of arrived demand, or at its last checkpoint before that. A replay is compared by averages
over the time in which pods arrive, because at its end all pods may have left.
"""

from itertools import pairwise

from msgspec.structs import replace

from tonnage.simulator.studies.results import CURVES, Checkpoint, Curve, PolicyResult, Results, SeedSpread

FULL_DEMAND = 100
"""The percent of arrived demand at which a fill is compared."""
AVERAGE = "average"
"""Stands for the checkpoint where averages over time are compared."""
_TOTALS = ("pods_failed",)
"""Measures whose last value suffices, because it counts everything so far."""
_DIGITS = 4


def with_comparison(results: Results) -> Results:
    """The results with the figures by which policies are compared."""
    at = _compared_at(results)
    policies = {name: replace(policy, compared=_figures(policy, at)) for name, policy in results.policies.items()}
    return replace(results, policies=policies, compared_at=at)


def _compared_at(results: Results) -> Checkpoint:
    if results.mode != "fill":
        return AVERAGE
    curves = [policy.gpu_allocated for policy in results.policies.values()]
    shared = set.intersection(*map(set, curves)) if curves else set()
    return str(FULL_DEMAND) if str(FULL_DEMAND) in shared else max(shared, key=float, default=AVERAGE)


def _figures(policy: PolicyResult, at: Checkpoint) -> dict[str, SeedSpread]:
    found: dict[str, SeedSpread] = {}
    for name in CURVES:
        curve: Curve = getattr(policy, name)
        if curve and at == AVERAGE:
            found[name] = _over_time(name, curve)
        elif at in curve:
            found[name] = curve[at]
    return found


def _over_time(name: str, curve: Curve) -> SeedSpread:
    """The mean over time. Its deviation is estimated by its upper bound, the mean of the deviations."""
    points = in_order(curve)
    if name in _TOTALS or len(points) == 1:
        return points[-1][1]
    length = points[-1][0] - points[0][0]
    mean = deviation = 0.0
    for (start, first), (end, second) in pairwise(points):
        part = (end - start) / length / 2
        mean += part * (first.mean + second.mean)
        deviation += part * (first.sd + second.sd)
    return SeedSpread(round(mean, _DIGITS), round(deviation, _DIGITS))


def in_order(curve: Curve) -> list[tuple[float, SeedSpread]]:
    """A curve's points from left to right."""
    return sorted(((float(at), value) for at, value in curve.items()), key=lambda point: point[0])
