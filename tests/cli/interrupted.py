"""Run `tonnage` with a Ctrl-C of its own at a chosen moment: `interrupted.py N arguments` interrupts the N-th import.

With 0 nothing is interrupted, and the last line of standard error is the number of imports.
"""

import os
import signal
import sys

from tonnage.cli import main

_at, _imports = int(sys.argv[1]), 0


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    global _imports
    if event == "import":
        _imports += 1
        if _imports == _at:
            os.kill(os.getpid(), signal.SIGINT)


sys.argv = ["tonnage", *sys.argv[2:]]
sys.addaudithook(_hook)
try:
    main.main()
finally:
    if not _at:
        sys.stderr.write(f"{_imports}\n")
