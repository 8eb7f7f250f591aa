"""The tables of a report, ready for the template."""

from dataclasses import dataclass

from tonnage.report.measures import ALLOCATED, Measure
from tonnage.report.pages import text
from tonnage.report.ranking import NOTICEABLE, Ranking, best_by, best_by_time, equal, like_the_best, ranking
from tonnage.simulator.studies.results import PolicyResult, Results, SeedSpread

_MOST_REASONS = 6
_OTHERS = "other reasons"


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure and its deviation; `share` is its part of the largest, for a bar behind it."""

    value: str
    spread: str = ""
    best: bool = False
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """A policy's row."""

    name: str
    look: int
    cells: list[Cell]


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Figures per policy."""

    heads: list[str]
    rows: list[Row]


def policies_table(results: Results, measures: list[Measure]) -> ReportTable:
    """All measures at the comparison, and how far each policy is from the best in GPUs."""
    looks = {name: look for look, name in enumerate(results.policies)}
    ranked = ranking(results, ALLOCATED)
    order = [name for name, _ in ranked] + [name for name in looks if name not in dict(ranked)]
    others = [measure for measure in measures if measure is not ALLOCATED]
    best = {measure: best_by(results, measure) for measure in others}
    rows = []
    for name in order:
        cells = [_cell(results, measure, results.policies[name], name in best[measure]) for measure in others]
        rows.append(Row(name, looks[name], _allocation(results, name, ranked) + cells))
    return ReportTable(["GPU allocated", "GPUs", "GPUs behind the best", *(measure.title for measure in others)], rows)


def _allocation(results: Results, name: str, ranked: Ranking) -> list[Cell]:
    value = dict(ranked).get(name)
    if value is None:
        return [Cell("–"), Cell("–"), Cell("–")]
    leaders, best = like_the_best(ranked, NOTICEABLE[ALLOCATED.unit]), ranked[0][1]
    first = _spread_cell(results, ALLOCATED, value, name in leaders)
    behind = (best.mean - value.mean) * results.gpus / 100
    if name == ranked[0][0]:
        difference = Cell("best", best=True)
    elif equal(value, best, NOTICEABLE[ALLOCATED.unit]):
        difference = Cell("equal", best=True)
    else:
        difference = Cell(text.signed(-behind), f"{text.signed(value.mean - best.mean, 2)} points")
    return [first, Cell(text.number(value.mean * results.gpus / 100)), difference]


def _cell(results: Results, measure: Measure, policy: PolicyResult, best: bool) -> Cell:
    value = policy.compared.get(measure.name)
    return _spread_cell(results, measure, value, best) if value else Cell("–")


def _spread_cell(results: Results, measure: Measure, value: SeedSpread, best: bool) -> Cell:
    spread = f"± {text.number(value.sd, 2 if measure.unit else 1)}" if len(results.seeds) > 1 else ""
    return Cell(measure.written(value.mean), spread, best)


def failures_table(results: Results) -> ReportTable | None:
    """Why pods failed, the most frequent reasons first."""
    totals: dict[str, float] = {}
    for policy in results.policies.values():
        for reason, value in policy.failures.items():
            totals[reason] = totals.get(reason, 0.0) + value.mean
    reasons = sorted(totals, key=lambda reason: (-totals[reason], reason))
    if not reasons:
        return None
    shown, others = reasons[:_MOST_REASONS], reasons[_MOST_REASONS:]
    most = max(value.mean for policy in results.policies.values() for value in policy.failures.values()) or 1.0
    rows = []
    for look, (name, policy) in enumerate(results.policies.items()):
        cells = [_failure(results, policy.failures.get(reason, SeedSpread(0.0)), most) for reason in shown]
        if others:
            rest = sum(policy.failures[reason].mean for reason in others if reason in policy.failures)
            cells.append(_failure(results, SeedSpread(rest), most))
        rows.append(Row(name, look, cells))
    return ReportTable(shown + ([_OTHERS] if others else []), rows)


def _failure(results: Results, value: SeedSpread, most: float) -> Cell:
    spread = f"± {text.number(value.sd, 1)}" if len(results.seeds) > 1 and value.sd else ""
    return Cell(text.number(value.mean, 0 if value.mean == int(value.mean) else 1), spread, share=value.mean / most)


def times_table(results: Results, name: str) -> ReportTable | None:
    """Waiting or completion times by percentile."""
    times: dict[str, dict[str, SeedSpread]] = {
        policy: getattr(found, name) for policy, found in results.policies.items()
    }
    keys = list(dict.fromkeys(key for found in times.values() for key in found))
    if not keys:
        return None
    best = {key: best_by_time(results, name, key) for key in keys}
    rows = []
    for look, (policy, found) in enumerate(times.items()):
        cells = []
        for key in keys:
            value = found.get(key)
            spread = f"± {text.duration(value.sd)}" if value and len(results.seeds) > 1 else ""
            cells.append(Cell(text.duration(value.mean), spread, policy in best[key]) if value else Cell("–"))
        rows.append(Row(policy, look, cells))
    return ReportTable(keys, rows)
