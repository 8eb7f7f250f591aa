"""`python -m tests.tenants`: a hostile tenant beside an honest one, on real parts; exit status 1 for a finding."""

import argparse
import sys
import time

from tests.tenants.ground import EXTENDER, SCHEDULER
from tests.tenants.run import Outcome, Settings, run, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tenants", description=__doc__)
    parser.add_argument("--server", choices=(EXTENDER, SCHEDULER, "both"), default="both", help="default both")
    parser.add_argument("--operations", type=int, default=2000, help="hostile ones, at least, on each (default 2000)")
    parser.add_argument("--seed", type=int, default=1, help="of both tenants (default 1)")
    parser.add_argument("--nodes", type=int, default=6, help="of four cards each (default 6, at least 4)")
    parser.add_argument("--jobs", type=int, default=40, help="of the honest tenant (default 40)")
    arguments = parser.parse_args()
    servers = (EXTENDER, SCHEDULER) if arguments.server == "both" else (arguments.server,)
    if arguments.nodes < 4:
        parser.error("with fewer than 4 nodes there is no room for both tenants")
    started, outcomes = time.monotonic(), list[Outcome]()

    def tell(line: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {line}", flush=True)

    for server in servers:
        settings = Settings(server, arguments.operations, arguments.seed, arguments.nodes, arguments.jobs)
        outcomes.append(run(settings, tell))
        for one in outcomes[-1].wrong:
            tell(f"{server}: FOUND: {one}")
    for outcome in outcomes:
        print(table(outcome))
    for outcome in outcomes:
        for one in outcome.wrong:
            print(f"FOUND: {outcome.settings.server}: {one}")
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
