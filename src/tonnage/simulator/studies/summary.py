"""The summary of runs: per policy, the mean and spread over seeds of each measure at every checkpoint."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from platform import python_version
from typing import Any

import numpy as np

import tonnage
from tonnage.simulator.run import Run
from tonnage.simulator.studies.comparison import with_comparison
from tonnage.simulator.studies.results import Curve, PolicyResult, Results, SeedSpread

_DIGITS = 4


def versions() -> dict[str, str]:
    """The versions that produced the figures."""
    return {"tonnage": tonnage.__version__, "python": python_version(), "numpy": np.__version__}


def results_of(
    runs: Mapping[str, Sequence[Run]],
    *,
    mode: str,
    workload: str,
    command: str,
    seeds: Sequence[int],
    bound: dict[str, float],
) -> Results:
    """The results of runs, given by policy with one run per seed."""
    first = next(iter(runs.values()))[0]
    results = Results(
        policies={name: policy_result(made) for name, made in runs.items()},
        mode=mode,
        workload=workload,
        command=command,
        versions=versions(),
        seeds=list(seeds),
        nodes=first.nodes,
        gpus=first.gpus,
        pods=round(statistics.mean(run.pods for run in next(iter(runs.values())))),
        bound=bound,
    )
    return with_comparison(results)


def policy_result(runs: Sequence[Run]) -> PolicyResult:
    """The result of one policy over all seeds."""
    curves: dict[str, Any] = {name: _curve(runs, name) for name in runs[0].curves}
    return PolicyResult(
        **curves,
        failures=_by_name([run.failures for run in runs], missing=0.0),
        waiting_time=_by_name([run.waiting_time for run in runs]),
        completion_time=_by_name([run.completion_time for run in runs]),
        picture=runs[0].picture,
    )


def _curve(runs: Sequence[Run], name: str) -> Curve:
    columns = zip(*(run.curves[name] for run in runs), strict=True)
    return {place: spread(values) for place, values in zip(runs[0].checkpoints, columns, strict=True)}


def _by_name(found: Sequence[Mapping[str, float]], missing: float | None = None) -> dict[str, SeedSpread]:
    """Figures by name; a run that lacks one is left out of the mean, or counts as `missing`."""
    names = dict.fromkeys(name for figures in found for name in figures)
    result = {}
    for name in names:
        values = [figures.get(name, missing) for figures in found]
        result[name] = spread(value for value in values if value is not None)
    return result


def spread(values: Iterable[float]) -> SeedSpread:
    """The mean and standard deviation of a sample."""
    known = list(values)
    deviation = statistics.stdev(known) if len(known) > 1 else 0.0
    return SeedSpread(round(statistics.fmean(known), _DIGITS), round(deviation, _DIGITS))
