"""Benchmarks as processes, and the figures that they report."""

import json
import re
import subprocess
import sys

from tests.cli.command import ROOT

HANG = 600
"""Seconds that only a benchmark that hangs takes."""


def benchmark(module: str, *arguments: str) -> str:
    """The output of a quick run."""
    done = subprocess.run(
        [sys.executable, "-m", module, "--quick", *arguments],
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def figures(module: str, *arguments: str) -> list[str]:
    """The names of a quick run's figures, with N for every number; repeated names are left out."""
    rows = json.loads(benchmark(module, "-o", "json", *arguments))
    for row in rows:
        assert row.keys() == {"measure", "value", "unit", "bound", "met"}
        assert isinstance(row["value"], int | float)
        assert (row["bound"], row["met"]) == ("", None)
    return list(dict.fromkeys(re.sub(r"\d+(?:[,.]\d+)*", "N", row["measure"]) for row in rows))
