"""`python -m tests.peers.copy_of_ours FAULT FLAG...`: our extender in HAMi's place, with a fault or, for `-`, none."""

import re
import sys

from tests.peers.faults import at_fault
from tonnage.cli.main import main

if __name__ == "__main__":
    fault, *flags = sys.argv[1:]
    # Verbosity is klog's.
    sys.argv = [
        "tonnage",
        "extender",
        *(flag for flag in flags if not re.fullmatch(r"-v=\d", flag)),
        "--privileged-pods=deny",
    ]
    with at_fault(fault.strip("-")):
        main()
