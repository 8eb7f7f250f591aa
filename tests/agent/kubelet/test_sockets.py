"""Agents on one node do not get into each other's way: each has a socket of its own, and leaves no other's behind."""

import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tonnage.agent.kubelet.sockets import own_socket, remove_abandoned

RESOURCE = "nvidia.com/gpu"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: that of a socket has about a hundred characters at most."""
    with TemporaryDirectory(prefix="sockets-") as made:
        yield Path(made)


def listening(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def test_two_processes_with_the_same_number_have_sockets_of_their_own(folder: Path) -> None:
    assert own_socket(folder, RESOURCE) != own_socket(folder, RESOURCE)


def test_only_sockets_of_agents_at_which_nobody_listens_are_removed(folder: Path) -> None:
    dead, alive = own_socket(folder, RESOURCE), own_socket(folder, RESOURCE)
    listening(dead).close()
    foreign = folder / "kubelet.sock"
    listening(foreign).close()
    file = folder / "tonnage-gpu-checkpoint"
    file.touch()
    with listening(alive):
        remove_abandoned(folder, RESOURCE)
        assert sorted(folder.iterdir()) == sorted([alive, foreign, file])
    remove_abandoned(folder / "nowhere", RESOURCE)
