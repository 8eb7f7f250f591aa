"""The tether: a script that runs a program and ends it with the process that started it, however that ends.

It is called with the parent's process number and the command. Linux kills a process whose parent has died; on other
systems the program just runs.
"""

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1


def main(parent: int, command: list[str]) -> None:
    """Become the program, unless the parent has already ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
