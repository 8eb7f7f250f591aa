"""Volcano's end-to-end suites on its own controllers, webhooks and command line, with its scheduler and with ours."""

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from pathlib import Path

from peers.keeping import emptied
from peers.report import Outcome, PeerReport, compare
from peers.volcano.known import KNOWN
from peers.volcano.suites import SUITES, run_cases, run_suite
from tonnage.lab.api import ApiError
from tonnage.lab.program import LabError

Run = Callable[[Path, Path, bool], dict[str, Outcome]]
"""Runs something with the programs in a folder, keeps logs in another, with the peer's scheduler or with ours."""
_THEIRS, _OURS = "volcano", "tonnage"
_CASES = "cases"


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Volcano")
    group.add_argument(
        "--volcano", type=Path, metavar="FOLDER", help="Volcano's programs; `python -m peers.build volcano FOLDER`"
    )
    names = [*(suite.name for suite in SUITES), _CASES]
    group.add_argument(
        "--volcano-suites", nargs="+", choices=names, default=names, metavar="SUITE", help=f"of {', '.join(names)}"
    )
    group.add_argument("--volcano-focus", default="", metavar="REGEX", help="only tests with such a name")


def run(arguments: argparse.Namespace) -> PeerReport | None:
    """Run the suites with both schedulers; nothing if no folder is given."""
    if arguments.volcano is None:
        return None
    runs = {suite.name: partial(run_suite, suite, focus=arguments.volcano_focus) for suite in SUITES}
    runs[_CASES] = run_cases
    wanted = {name: run for name, run in runs.items() if name in arguments.volcano_suites}
    programs, keep = arguments.volcano.resolve(), arguments.keep.resolve()
    with ThreadPoolExecutor(arguments.at_once) as pool:
        jobs = [
            (side, pool.submit(_outcomes, run, side, programs, keep / side / name, bool(arguments.volcano_focus)))
            for name, run in wanted.items()
            for side in (_THEIRS, _OURS)
        ]
        sides: dict[str, dict[str, Outcome]] = {_THEIRS: {}, _OURS: {}}
        for side, job in jobs:
            sides[side] |= job.result()
    return compare("Volcano", sides[_THEIRS], sides[_OURS], KNOWN)


def _outcomes(run: Run, side: str, programs: Path, folder: Path, is_partial: bool) -> dict[str, Outcome]:
    """The outcomes of one suite; those with the peer's scheduler are kept, because that does not change."""
    kept = folder / "outcomes.json"
    if side == _THEIRS and not is_partial and kept.is_file():
        return _read(kept)
    try:
        found = run(programs, emptied(folder), side == _OURS)
    except (LabError, ApiError, OSError, HTTPException) as error:
        return {f"{folder.name}: the cluster": Outcome(False, f"{error}; see {folder}")}
    if not is_partial:
        kept.write_text(json.dumps(found, indent=1))
    return found


def _read(kept: Path) -> dict[str, Outcome]:
    return {name: Outcome(*outcome) for name, outcome in json.loads(kept.read_text()).items()}
