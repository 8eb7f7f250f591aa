"""`python -m tests.chaos`: faults on real parts, one after another; the exit status is 1 if anything is found."""

import argparse
import sys

from tests.chaos.arena import arena
from tests.chaos.faults import KINDS
from tests.chaos.run import Run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=1, help="which order and which pods (default 1)")
    parser.add_argument("--nodes", type=int, default=20, help="nodes of four cards each (default 20)")
    parser.add_argument("--kind", choices=sorted(KINDS), metavar="KIND", help="only this kind, by its title")
    arguments = parser.parse_args()
    with arena(arguments.nodes) as made:
        run = Run(made, arguments.seed, lambda line: print(line, flush=True))
        run.begin()
        if arguments.kind:
            for _ in range(arguments.faults):
                run.inject(arguments.kind)
        else:
            run.series(arguments.faults)
        print(run.summary())
        for one in made.player.mixed_up:
            print(f"WRONG: {one}")
        if run.wrong or made.player.mixed_up:
            print(f"the extender's log:\n{made.extender.log.read_text()[-20000:]}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
