"""`python -m tests.chaos`: faults on real parts, one after another; the exit status is 1 if anything is found.

First those of one extender or batch scheduler, then those between two replicas, then floods on 100 nodes; or those of
an agent on a real kubelet.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from tests.chaos import faults, floods, replicafaults
from tests.chaos.agent import faults as nodefaults
from tests.chaos.agent.arena import node_arena
from tests.chaos.agent.run import node_run
from tests.chaos.arena import arena
from tests.chaos.replicas import pair_arena
from tests.chaos.run import Run, extender_run, summary
from tests.chaos.scheduler import faults as batchfaults
from tests.chaos.scheduler import replicafaults as batchreplicafaults
from tests.chaos.scheduler.arena import yard
from tests.chaos.scheduler.run import batch_run

_FLOODS = 0.05
"""The share of floods among all faults."""


class Server(NamedTuple):
    """What is put through faults."""

    alone: Mapping[str, Callable[[Any], str]]
    between: Mapping[str, Callable[[Any], str]]
    """Kinds of faults between replicas."""
    share: float
    """The share of those among all faults; they take up to three times as long."""
    floods: Mapping[str, Callable[[Any], str]]
    nodes: int
    arena: Callable[[int], AbstractContextManager[Any]]
    pair: Callable[[], AbstractContextManager[Any]]
    run: Callable[..., Run]


SERVERS = {
    "extender": Server(faults.KINDS, replicafaults.KINDS, 0.1, floods.OF_EXTENDER, 20, arena, pair_arena, extender_run),
    "scheduler": Server(
        batchfaults.KINDS,
        batchreplicafaults.KINDS,
        0.25,
        floods.OF_SCHEDULER,
        8,
        yard,
        lambda: yard(6, replicas=2),
        batch_run,
    ),
    "agent": Server(nodefaults.KINDS, {}, 0.0, {}, 1, node_arena, node_arena, node_run),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--server", choices=SERVERS, default="extender", help="what is put through them (default extender)"
    )
    parser.add_argument("--faults", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=1, help="which order and which pods (default 1)")
    parser.add_argument("--nodes", type=int, help="nodes of four cards each (default 20, for the scheduler 8)")
    parser.add_argument("--kind", metavar="KIND", help="only this kind, by its title")
    arguments = parser.parse_args()
    server = SERVERS[arguments.server]
    kinds = {**server.alone, **server.between, **server.floods}
    if arguments.kind and arguments.kind not in kinds:
        titles = "\n".join(sorted(kinds))
        parser.error(f"there is no kind {arguments.kind!r}; there are:\n{titles}")
    started, runs = time.monotonic(), list[Run]()
    between = round(server.share * arguments.faults)
    poured = round(_FLOODS * arguments.faults) if server.floods else 0
    if arguments.kind:
        between = arguments.faults if arguments.kind in server.between else 0
        poured = arguments.faults if arguments.kind in server.floods else 0

    def series(count: int, made: AbstractContextManager[Any], those: Mapping[str, Callable[[Any], str]]) -> None:
        if count:
            with made as stage:
                runs.append(server.run(stage, those, arguments.seed, lambda line: print(line, flush=True)))
                runs[-1].begin()
                runs[-1].series(count, arguments.kind)
                if runs[-1].wrong:
                    print(f"the ends of the logs:\n{stage.logs()}", file=sys.stderr)

    alone = arguments.faults - between - poured
    series(alone, server.arena(arguments.nodes or server.nodes), server.alone)
    series(between, server.pair(), server.between)
    series(poured, server.arena(arguments.nodes or floods.NODES), server.floods)
    print(summary(runs))
    print(f"took {(time.monotonic() - started) / 60:.1f} minutes")
    wrong = [one for run in runs for one in run.wrong]
    for one in wrong:
        print(f"WRONG: {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
