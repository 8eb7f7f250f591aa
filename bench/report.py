"""Report: rows of figures, printed one by one or as JSON, and the command line that all benchmarks share."""

import argparse
import json
import sys
from collections.abc import Callable

from tonnage.lab.parts import PartsError
from tonnage.lab.program import LabError


class BenchmarkError(Exception):
    """A benchmark cannot go on; the message names the program and what it did."""


class Report:
    """Rows of figures, each with the floor or ceiling that it should keep.

    Bounds hold for the full sizes. A quick run has none.
    """

    def __init__(self, quiet: bool = False, bounded: bool = True) -> None:
        self.rows: list[dict[str, object]] = []
        self._quiet = quiet
        self._bounded = bounded

    def add(self, name: str, value: float, unit: str) -> None:
        self._add(name, value, unit, "", None)

    def at_least(self, name: str, value: float, unit: str, bound: float) -> None:
        self._add(name, value, unit, f">= {bound:g}", value >= bound)

    def at_most(self, name: str, value: float, unit: str, bound: float) -> None:
        self._add(name, value, unit, f"<= {bound:g}", value <= bound)

    def _add(self, name: str, value: float, unit: str, bound: str, met: bool | None) -> None:
        if not self._bounded:
            bound, met = "", None
        self.rows.append({"measure": name, "value": round(value, 4), "unit": unit, "bound": bound, "met": met})
        if not self._quiet:
            mark = {None: "", True: "ok", False: "MISSED"}[met]
            print(f"{name:<78} {value:>10.4g} {unit:<8} {bound:<14} {mark}".rstrip(), flush=True)


def argument_parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with the options that every report has."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that the benchmark works")
    return parser


def publish(arguments: argparse.Namespace, measure: Callable[[Report], None]) -> int:
    """Run a benchmark and print its report; the exit status."""
    report = Report(quiet=arguments.output == "json", bounded=not arguments.quick)
    try:
        measure(report)
    except (BenchmarkError, LabError, PartsError) as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.output == "json":
        print(json.dumps(report.rows, indent=2))
    return 0
