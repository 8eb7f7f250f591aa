"""Volcano's end-to-end suites: which there are, running one against a cluster, and reading its report."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from peers.cases import outcomes
from peers.cluster import Cluster
from peers.report import Outcome
from peers.volcano.cases import CASES, World
from peers.volcano.cluster import tidy, volcano_cluster
from tonnage.lab.api import ApiError
from tonnage.lab.program import LabError

_ATTEMPTS = 2
"""Several tests race with Volcano's controllers, whichever scheduler runs; one that fails is run once more."""
_DETAIL = 400
"""Characters of a failure that a report shows."""
_STATES = {"passed": True, "failed": False, "panicked": False, "timedout": False, "interrupted": False}
"""States of a test that ran; the others are those of tests that were left out."""


class Suite(NamedTuple):
    """A test program of Volcano's, and what it needs."""

    name: str
    extra_nodes: int = 0
    """Nodes with Volcano's taint for tests of topologies."""
    skip: str = ""
    """A regular expression for tests that are left out."""
    focus: str = ""


_EXECUTING = "Volume type: dir|Local volume that cannot be mounted|PV's NodeAffinity|StatefulSet with pod affinity"
"""Tests that run commands inside of containers, which played kubelets do not have; `volcano.cases` asks the same."""
SUITES = (
    Suite("schedulingbase", skip=rf"\[sig-.*\]|{_EXECUTING}"),
    Suite("schedulingaction", skip=r"\[sig-.*\]"),
    Suite("jobp"),
    Suite("jobseq"),
    Suite("vcctl"),
    Suite("cronjob"),
    Suite("admission"),
    Suite("schedulinggates"),
    Suite("hypernode", extra_nodes=8),
    Suite("gangevict", extra_nodes=4),
    Suite("stress"),
    Suite("dra", focus="DRA Quota E2E Test"),
)


def run_cases(programs: Path, folder: Path, is_ours: bool) -> dict[str, Outcome]:
    """Outcomes by name of our own cases, on one cluster."""
    with volcano_cluster(folder, programs, is_ours) as (cluster, scheduler):
        world = World(cluster, scheduler)
        return outcomes(world, CASES, world.clear, "tonnage" if is_ours else "volcano")


def run_suite(suite: Suite, programs: Path, folder: Path, is_ours: bool, focus: str = "") -> dict[str, Outcome]:
    """Outcomes by name of the tests of one suite, on a cluster of its own.

    Each test is a run of its own, so that one that fails leaves nothing to the others.
    """
    with volcano_cluster(folder, programs, is_ours, suite.extra_nodes) as (cluster, scheduler):
        scheduler.start()
        found: dict[str, Outcome] = {}
        for name in _names(suite, programs, folder, cluster, focus):
            for _ in range(_ATTEMPTS):
                outcome = outcomes_of(suite.name, _ginkgo(suite, programs, folder, cluster, f" {re.escape(name)}$"))
                found |= outcome
                for case, one in outcome.items():
                    said = "holds" if one.holds else one.detail
                    print(f"{folder.parent.name}: {case}: {said}", file=sys.stderr, flush=True)
                if all(one.holds for one in outcome.values()):
                    break
                _tidy(cluster, programs)
        return found


def _tidy(cluster: Cluster, programs: Path) -> None:
    # During a long test the server has closed the connections that were idle.
    cluster.api.close()
    try:
        tidy(cluster, programs)
    except (AssertionError, ApiError, OSError, HTTPException) as error:
        print(f"{cluster.folder}: what a test has left could not all be removed: {error}", file=sys.stderr, flush=True)


def _names(suite: Suite, programs: Path, folder: Path, cluster: Cluster, focus: str) -> list[str]:
    """The names of the tests that are to run."""
    report = _ginkgo(suite, programs, folder, cluster, focus or suite.focus, "--ginkgo.dry-run")
    return [name.removeprefix(f"{suite.name}: ") for name in outcomes_of(suite.name, report)]


def _ginkgo(
    suite: Suite, programs: Path, folder: Path, cluster: Cluster, focus: str, *flags: str
) -> list[dict[str, Any]]:
    """The report of Ginkgo about the tests with such a name; what it says is added to a log."""
    report = (folder / "report.json").resolve()
    report.unlink(missing_ok=True)
    values = {
        "json-report": report,
        "timeout": "1h",
        "skip": suite.skip,
        "focus": focus,
        "no-color": "true",
        "v": "true",
    }
    command = [str(programs / "e2e" / f"{suite.name}.test"), *flags]
    command += [f"--ginkgo.{name}={value}" for name, value in values.items() if value]
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.plane.kubeconfig()),
        "VC_BIN": str(programs),
        "ARTIFACTS_PATH": str(folder / "artifacts"),
    }
    with open(folder / "suite.log", "ab") as log:
        subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
    if not report.is_file():
        raise LabError(f"{suite.name}.test ended without a report; its log: {folder / 'suite.log'}")
    found: list[dict[str, Any]] = json.loads(report.read_text())
    return found


def outcomes_of(suite: str, reports: Iterable[dict[str, Any]]) -> dict[str, Outcome]:
    """The outcomes in a report of Ginkgo's."""
    found = {}
    for report in reports:
        for spec in report.get("SpecReports") or ():
            if spec["LeafNodeType"] == "It" and spec["State"] in _STATES:
                words = [*(spec.get("ContainerHierarchyTexts") or ()), spec["LeafNodeText"]]
                failure = spec.get("Failure", {})
                place = failure.get("Location", {})
                where = f"{Path(place.get('FileName', '')).name}:{place.get('LineNumber', 0)}: " if failure else ""
                said = " ".join((where + failure.get("Message", "")).split())[:_DETAIL]
                found[f"{suite}: {' '.join(words)}"] = Outcome(_STATES[spec["State"]], said)
    return found
