"""The flags of the comparison with HAMi, and its run."""

import argparse
import json
import sys
from pathlib import Path

from peers.hami.comparison import Comparison
from peers.hami.programs import ApiWorld, both
from peers.hami.report import HamiReport
from peers.hami.workload import Workload
from tonnage.lab.control_plane import ControlPlane


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add what the comparison with HAMi takes."""
    parser.add_argument("--hami", type=Path, metavar="PATH", help="HAMi's scheduler binary, 2.10 or later")
    parser.add_argument(
        "--hami-pods", type=int, default=1000, metavar="N", help="pods that HAMi and we are asked about (1000)"
    )
    parser.add_argument(
        "--hami-reviews", type=int, default=1000, metavar="N", help="the same for admission reviews (1000)"
    )
    parser.add_argument(
        "--hami-seed", type=int, default=1, metavar="S", help="what the pods and reviews are drawn from (1)"
    )
    parser.add_argument(
        "--hami-pause",
        type=float,
        default=0.03,
        metavar="SECONDS",
        help="how long a watch needs to show a change (0.03)",
    )


def run(arguments: argparse.Namespace) -> HamiReport | None:
    """Compare, if HAMi's binary is given; what is not equal is kept as JSON too."""
    if arguments.hami is None:
        return None
    workload = Workload(arguments.hami_seed)
    with ControlPlane() as plane:
        world = ApiWorld(plane, arguments.hami_pause)
        world.prepare(workload)
        with both(plane, world, workload, [str(arguments.hami)]) as (ours, theirs):
            names = [node["metadata"]["name"] for node in workload.nodes]
            comparison = Comparison(world, ours, theirs, names)
            comparison.review(workload.reviews(arguments.hami_reviews))
            print(f"{arguments.hami_reviews} reviews compared", file=sys.stderr)
            comparison.place(workload.cases(arguments.hami_pods))
            print(f"{arguments.hami_pods} pods compared", file=sys.stderr)
    report = comparison.report()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    (arguments.keep / "hami.json").write_text(json.dumps(report.document(), indent=2))
    return report
