"""The addresses of this machine, for callers that are not on its loopback interface."""

import socket
from contextlib import suppress


def own_address() -> str:
    """An address of this machine that is not on its loopback interface; empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        # Nothing is sent.
        probe.connect(("192.0.2.1", 9))
        found = str(probe.getsockname()[0])
        return "" if found.startswith("127.") else found
    return ""
