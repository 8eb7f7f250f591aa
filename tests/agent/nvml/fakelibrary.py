"""The fake NVML library: compiled once per run, and a file of invented cards that tests change."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
SONAME = "libnvidia-ml.so.1"
VARIABLE = "FAKE_NVML"
"""Names the file of invented cards."""

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler for the fake NVML library")


@cache
def library() -> Path:
    """The compiled library, kept for this process."""
    made = Path(tempfile.mkdtemp(prefix="fake-nvml-")) / SONAME
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{SONAME}"]
    subprocess.run(["cc", *flags, "-o", str(made), str(SOURCE)], check=True)
    return made


def uuid(index: int) -> str:
    return f"GPU-0000000{index}-1111-2222-3333-444444444444"


class InventedCards:
    """The file that describes the cards; every change is one write."""

    def __init__(self, file: Path, count: int = 8, memory: int = 40960) -> None:
        self.file = file
        self._cards = {
            index: f"card {uuid(index)} {memory} 0 0 0 00000000:{index + 7:02X}:00.0 NVIDIA A100-SXM4-40GB"
            for index in range(count)
        }
        self._more: list[str] = []
        self._write()

    def change(self, index: int, *, memory: int = 40960, mig: int = 0) -> None:
        """Let a card have another size; -1 for one whose driver does not tell."""
        words = self._cards[index].split(" ", 7)
        self._cards[index] = " ".join([*words[:2], str(memory), *words[3:5], str(mig), *words[6:]])
        self._write()

    def strike(self, index: int, xid: int) -> None:
        """An error of a card; -1 for one of no card."""
        self._add(f"xid {index} {xid}")

    def fail(self, function: str, code: int, index: int = -1) -> None:
        """Let a function answer with an error, for one card or for all."""
        self._add(f"fail {function} {code} {index}")

    def link(self, first: int, second: int, ancestor: int, nvlinks: int) -> None:
        self._add(f"link {first} {second} {ancestor} {nvlinks}")

    def mend(self) -> None:
        """No function fails any more."""
        self._more = [line for line in self._more if not line.startswith("fail ")]
        self._write()

    def _add(self, line: str) -> None:
        self._more.append(line)
        self._write()

    def _write(self) -> None:
        made = self.file.with_name(f".{self.file.name}")
        made.write_text("".join(f"{line}\n" for line in (*self._cards.values(), *self._more)))
        made.replace(self.file)
