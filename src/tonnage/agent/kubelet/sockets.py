"""The agent's sockets in the kubelet's folder of device plugins.

Every process has a name of its own, so that a new agent can serve beside the one that it replaces; a process number is
none, because in containers it is the same for both. What a killed process left behind is removed.
"""

import socket
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

_PREFIX = "tonnage"


def own_socket(folder: Path, resource: str) -> Path:
    """A new path for a socket that serves a resource."""
    return folder / f"{_stem(resource)}{uuid4().hex[:8]}.sock"


def remove_abandoned(folder: Path, resource: str) -> None:
    """Remove the sockets of agents at which nobody listens."""
    for path in folder.glob(f"{_stem(resource)}*.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
            probe.setblocking(False)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()


def _stem(resource: str) -> str:
    return f"{_PREFIX}-{resource.rpartition('/')[2]}-"
