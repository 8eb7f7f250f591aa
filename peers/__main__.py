"""`python -m peers`: the peers' own programs and tests beside ours, and one report of what differs.

Each peer is compared if its programs are given by path. The exit status is 1 if a difference has no known reason.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from peers import hami, kai, volcano
from tonnage.lab.parts import PartsError
from tonnage.lab.program import LabError

PEERS = (hami, volcano, kai)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="where logs and results are kept; results of peers that are there already are not measured again",
    )
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="clusters that run side by side (2)")
    for peer in PEERS:
        peer.add_flags(parser)
    arguments = parser.parse_args()
    if arguments.keep is None:
        arguments.keep = Path(tempfile.mkdtemp(prefix="tonnage-peers-"))
    print(f"Logs and results: {arguments.keep}", file=sys.stderr)
    try:
        reports = [report for peer in PEERS if (report := peer.run(arguments)) is not None]
    except (LabError, PartsError) as error:
        print(error, file=sys.stderr)
        return 1
    if not reports:
        parser.error("name the programs of at least one peer; `python -m peers.build` builds them")
    for report in reports:
        print("\n".join(report.lines()), end="\n\n")
    return 0 if all(report.is_accepted for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
