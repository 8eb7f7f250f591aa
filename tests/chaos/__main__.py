"""`python -m tests.chaos`: faults on real parts, one after another; the exit status is 1 if anything is found.

First those of one extender, then those between two replicas.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from tests.chaos import faults, replicafaults
from tests.chaos.arena import Stage, arena
from tests.chaos.faults import Fault
from tests.chaos.replicas import pair_arena
from tests.chaos.run import Run, summary

OF_REPLICAS = 0.1
"""The share of faults between replicas; they take three times as long."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=1, help="which order and which pods (default 1)")
    parser.add_argument("--nodes", type=int, default=20, help="nodes of four cards each (default 20)")
    kinds = {**faults.KINDS, **replicafaults.KINDS}
    parser.add_argument("--kind", choices=sorted(kinds), metavar="KIND", help="only this kind, by its title")
    arguments = parser.parse_args()
    started, runs = time.monotonic(), list[Run]()
    between = round(OF_REPLICAS * arguments.faults)
    if arguments.kind:
        between = arguments.faults if arguments.kind in replicafaults.KINDS else 0

    def series(count: int, made: AbstractContextManager[Stage], those: Mapping[str, Fault[Any]]) -> None:
        if count:
            with made as stage:
                runs.append(Run(stage, those, arguments.seed, lambda line: print(line, flush=True)))
                runs[-1].begin()
                runs[-1].series(count, arguments.kind)
                if runs[-1].wrong:
                    print(f"the extenders' logs:\n{stage.logs()}", file=sys.stderr)

    series(arguments.faults - between, arena(arguments.nodes), faults.KINDS)
    series(between, pair_arena(), replicafaults.KINDS)
    print(summary(runs))
    print(f"took {(time.monotonic() - started) / 60:.1f} minutes")
    wrong = [one for run in runs for one in run.wrong]
    for one in wrong:
        print(f"WRONG: {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
