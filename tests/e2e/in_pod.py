"""Runs a program under a host name of its own, as one in a pod has: in_pod.py NAME PROGRAM ARGUMENT..."""

import ctypes
import os
import socket
import sys

_NEW_UTS, _NEW_USER = 0x04000000, 0x10000000


def main(name: str, command: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_UTS if os.geteuid() == 0 else _NEW_UTS | _NEW_USER):
        sys.exit(f"no host name of one's own: {os.strerror(ctypes.get_errno())}")
    socket.sethostname(name)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
