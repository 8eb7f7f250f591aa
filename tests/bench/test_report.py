"""Reports: rows with their bounds, and errors as messages."""

import json
from argparse import Namespace

import pytest

from bench.report import BenchmarkError, Report, argument_parser, publish


def some_figures(report: Report) -> None:
    report.add("plain", 1.5, "ms")
    report.at_least("fast", 10, "/s", 20)
    report.at_most("small", 3, "MB", 4)


def arguments(*given: str) -> Namespace:
    return argument_parser("bench", "").parse_args(given)


def test_a_table_marks_what_keeps_its_bound_and_what_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert publish(arguments(), some_figures) == 0
    plain, fast, small = (line.split() for line in capsys.readouterr().out.splitlines())
    assert plain == ["plain", "1.5", "ms"]
    assert fast == ["fast", "10", "/s", ">=", "20", "MISSED"]
    assert small == ["small", "3", "MB", "<=", "4", "ok"]


def test_json_holds_the_same_and_nothing_else_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert publish(arguments("-o", "json"), some_figures) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["met"] for row in rows] == [None, False, True]
    assert rows[1] == {"measure": "fast", "value": 10, "unit": "/s", "bound": ">= 20", "met": False}


def test_a_quick_run_has_no_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert publish(arguments("--quick"), some_figures) == 0
    assert [line.split()[1:] for line in capsys.readouterr().out.splitlines()] == [
        ["1.5", "ms"],
        ["10", "/s"],
        ["3", "MB"],
    ]


def test_a_benchmark_that_cannot_go_on_ends_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(report: Report) -> None:
        raise BenchmarkError("the program ended with status 3")

    assert publish(arguments("-o", "json"), fail) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "the program ended with status 3\n")
