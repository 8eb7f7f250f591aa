"""Invented cards from a YAML file, for trials on nodes without GPUs."""

import ctypes
import threading
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tonnage.agent.core.cards import CardLoad
from tonnage.agent.nvml.found import FoundCard, LeftOut
from tonnage.model.wire import WireError, convert

MOST = 64
_MIB = 2**20


class _Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cards of one kind."""

    name: str = "NVIDIA A100-SXM4-40GB"
    memory: int = 40960
    """MiB."""
    count: int = 1


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cards: list[_Kind]


class FakeFileError(Exception):
    """The file of invented cards is wrong; the message says where and how."""


def has_driver() -> bool:
    """Whether the loader finds NVML, so that there are real cards, or will be."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


class FakeCards:
    """The cards of a file; their UUIDs follow from the node's name, so that they stay over restarts."""

    is_invented = True

    def __init__(self, file: str, node: str) -> None:
        self._cards = _read(file, node)
        self._quiet = threading.Event()

    def open(self) -> None:
        return

    def close(self) -> None:
        return

    def cards(self) -> tuple[list[FoundCard], list[LeftOut]]:
        return self._cards, []

    def loads(self) -> dict[str, CardLoad]:
        return {card.uuid: CardLoad(0, 0, 0) for card in self._cards}

    def next_error(self, milliseconds: int) -> tuple[str | None, int] | None:
        self._quiet.wait(milliseconds / 1000)
        return None


def _read(file: str, node: str) -> list[FoundCard]:
    import yaml

    try:
        content = convert(yaml.safe_load(Path(file).read_text()), _File)
    except OSError as error:
        raise FakeFileError(f"{file}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise FakeFileError(f"{file}: {error}") from error
    except WireError as error:
        raise FakeFileError(f"{file}: {error.path or 'the document'}: {error.message}") from error
    kinds = [kind for kind in content.cards for _ in range(kind.count)]
    if not 0 < len(kinds) <= MOST or any(kind.memory <= 0 for kind in kinds):
        raise FakeFileError(f"{file}: cards: expected 1 to {MOST} cards with memory above 0 MiB")
    return [
        FoundCard(index, f"GPU-{uuid5(NAMESPACE_OID, f'{node} {index}')}", kind.name, kind.memory * _MIB, minor=index)
        for index, kind in enumerate(kinds)
    ]
