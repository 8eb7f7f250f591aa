"""KAI's podgrouper, podgroup controller and queue controller, with its scheduler and binder or with ours."""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from peers.cases import outcomes
from peers.kai.cases import CASES
from peers.kai.cluster import kai_cluster
from peers.kai.known import KNOWN
from peers.keeping import emptied
from peers.report import Outcome, PeerReport, compare

_THEIRS, _OURS = "kai", "tonnage-kai"


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("KAI")
    group.add_argument("--kai", type=Path, metavar="FOLDER", help="KAI's programs; `python -m peers.build kai FOLDER`")


def run(arguments: argparse.Namespace) -> PeerReport | None:
    """Run the cases with both schedulers; nothing if no folder is given."""
    if arguments.kai is None:
        return None
    programs, keep = arguments.kai.resolve(), arguments.keep.resolve()
    with ThreadPoolExecutor(arguments.at_once) as pool:
        theirs, ours = pool.map(lambda side: _outcomes(emptied(keep / side), programs, side), (_THEIRS, _OURS))
    return compare("KAI", theirs, ours, KNOWN)


def _outcomes(folder: Path, programs: Path, side: str) -> dict[str, Outcome]:
    with kai_cluster(folder, programs, side == _OURS) as world:
        return outcomes(world, CASES, world.clear, side)
