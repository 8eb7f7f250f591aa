"""The tables of a report: whose figures are marked as the best."""

import pytest

from tonnage.report.measures import present
from tonnage.report.tables import ReportTable, policies_table, times_table
from tonnage.simulator.studies.comparison import with_comparison
from tonnage.simulator.studies.results import PolicyResult, Results, SeedSpread


def results_of(mode: str = "fill", **policies: PolicyResult) -> Results:
    return with_comparison(Results(policies, mode, "w", "c", {}, [1, 2], 10, 100, 50))


def at_the_end(allocated: float, **figures: float) -> PolicyResult:
    return PolicyResult({"100": SeedSpread(allocated)}, **{name: {"100": SeedSpread(v)} for name, v in figures.items()})


def best(table: ReportTable, head: str) -> list[str]:
    column = table.heads.index(head)
    return [row.name for row in table.rows if row.cells[column].best]


def compared(**policies: PolicyResult) -> ReportTable:
    results = results_of(**policies)
    return policies_table(results, present(results))


@pytest.mark.parametrize(
    ("measure", "head", "more", "less"),
    [
        ("gpus_free", "GPUs free", 9, 30),
        ("nodes_free", "Nodes free", 1, 4),
        ("fragmentation_of_all", "Fragmentation", 5.0, 4.0),
        ("cpu_stranded", "CPU stranded", 5.0, 0.0),
    ],
)
def test_what_is_left_free_is_no_merit_of_the_policy_that_placed_least(
    measure: str, head: str, more: float, less: float
):
    table = compared(busy=at_the_end(90.0, **{measure: more}), idle=at_the_end(70.0, **{measure: less}))
    assert best(table, "GPU allocated") == ["busy"]
    assert best(table, head) == []


def test_it_is_one_of_the_policy_that_allocated_as_much():
    table = compared(a=at_the_end(90.0, gpus_free=9), b=at_the_end(90.0, gpus_free=5), idle=at_the_end(70.0))
    assert best(table, "GPUs free") == ["a"]


def test_fewer_failed_pods_are_a_merit_whatever_was_allocated():
    table = compared(a=at_the_end(90.0, pods_failed=9), b=at_the_end(80.0, pods_failed=3))
    assert best(table, "Pods failed") == ["b"]


def test_short_waits_are_no_merit_where_more_pods_never_ran():
    def waited(seconds: float, failed: float) -> PolicyResult:
        waits = {"50": SeedSpread(seconds)}
        return PolicyResult({"0": SeedSpread(50.0)}, waiting_time=waits, failures={"R": SeedSpread(failed)})

    for failed, expected in ((40.0, []), (1.0, ["quick"])):
        table = times_table(results_of("replay", quick=waited(5, failed), slow=waited(60, 1)), "waiting_time")
        assert table is not None
        assert best(table, "50") == expected
