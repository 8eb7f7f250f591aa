"""The real binding on a library that speaks NVML: cards, those that fail, errors, and a library that comes later.

Each scene is a process of its own, because a process loads one NVML library in its life.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.agent.nvml.fakelibrary import VARIABLE, InventedCards, library, needs_cc, uuid
from tests.paths import ROOT
from tests.waiting import PATIENCE

pytestmark = needs_cc

HEAD = """
import json, os, sys
from pathlib import Path
from tonnage.agent.nvml.library import Nvml
from tonnage.agent.nvml.source import SourceError
from tests.agent.nvml.fakelibrary import InventedCards
library, sysfs = sys.argv[1], Path(sys.argv[2])
cards = InventedCards(Path(os.environ["FAKE_NVML"]))

def told(nvml):
    found, left = nvml.cards()
    return {
        "found": [[c.index, c.uuid, c.name, c.memory, c.minor, c.numa, c.is_mig] for c in found],
        "left": [[one.index, one.why] for one in left],
    }
"""


def scene(folder: Path, text: str, *, path: str | None = None) -> Any:
    """What a piece of code that uses NVML prints as JSON."""
    words = [sys.executable, "-c", HEAD + textwrap.dedent(text), path or str(library()), str(folder / "sys")]
    environment = {**os.environ, VARIABLE: str(folder / "cards")}
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_cards_are_described_as_the_driver_does(tmp_path: Path) -> None:
    numa = tmp_path / "sys/bus/pci/devices/0000:0a:00.0/numa_node"
    numa.parent.mkdir(parents=True)
    numa.write_text("1\n")
    told = scene(tmp_path, "nvml = Nvml(library, sysfs); nvml.open(); print(json.dumps(told(nvml)))")
    assert told["left"] == []
    assert [card[0] for card in told["found"]] == list(range(8))
    assert told["found"][3] == [3, uuid(3), "NVIDIA A100-SXM4-40GB", 40960 << 20, 3, 1, False]
    assert told["found"][4][5] is None


def test_a_card_that_fails_is_left_out_with_the_reason_and_the_others_stay(tmp_path: Path) -> None:
    told = scene(
        tmp_path,
        """
        cards.fail("nvmlDeviceGetMemoryInfo", 999, 2)
        cards.fail("nvmlDeviceGetUUID", 15, 5)
        cards.fail("nvmlDeviceGetMigMode", 13)
        cards.change(7, memory=-1)
        nvml = Nvml(library, sysfs); nvml.open(); print(json.dumps(told(nvml)))
        """,
    )
    assert [card[0] for card in told["found"]] == [0, 1, 3, 4, 6, 7]
    assert told["found"][-1][3] is None, "a driver that does not tell the size is no failure"
    assert [index for index, _ in told["left"]] == [2, 5]
    assert all("NVML does not describe it" in why for _, why in told["left"])


def test_errors_name_their_card_and_those_without_one_name_none(tmp_path: Path) -> None:
    told = scene(
        tmp_path,
        """
        nvml = Nvml(library, sysfs); nvml.open(); nvml.cards()
        quiet = nvml.next_error(1)
        cards.strike(3, 79); cards.strike(0, 31); cards.strike(-1, 48)
        print(json.dumps([quiet, *(nvml.next_error(1000) for _ in range(3)), nvml.next_error(1)]))
        """,
    )
    assert told == [None, [uuid(3), 79], [uuid(0), 31], [None, 48], None]


def test_a_wait_that_fails_is_an_error_of_the_source(tmp_path: Path) -> None:
    told = scene(
        tmp_path,
        """
        nvml = Nvml(library, sysfs); nvml.open(); nvml.cards()
        cards.fail("nvmlEventSetWait_v2", 999)
        try:
            nvml.next_error(1)
        except SourceError as error:
            print(json.dumps(str(error)))
        """,
    )
    assert told.startswith("NVML does not wait for errors: ")


def test_a_card_whose_errors_cannot_be_watched_is_said_to_be_so(tmp_path: Path) -> None:
    told = scene(
        tmp_path,
        """
        cards.fail("nvmlDeviceRegisterEvents", 3, 1)
        nvml = Nvml(library, sysfs); nvml.open(); print(json.dumps(told(nvml)))
        """,
    )
    assert len(told["found"]) == 8
    assert [index for index, _ in told["left"]] == [1]


@pytest.mark.parametrize("later", ["library", "driver"])
def test_what_comes_later_is_found_by_the_next_try(tmp_path: Path, later: str) -> None:
    told = scene(
        tmp_path,
        f"""
        later = {later!r}
        absent = Path(library) if later == "library" else Path(os.environ["FAKE_NVML"])
        hidden = absent.with_name("hidden")
        absent.rename(hidden)
        nvml, said = Nvml(library, sysfs), []
        for _ in range(2):
            try:
                nvml.open()
            except SourceError as error:
                said.append(str(error))
        hidden.rename(absent)
        nvml.open()
        print(json.dumps([said, told(nvml)]))
        """,
        path=str(_copied(tmp_path)),
    )
    said, cards = told
    assert len(said) == 2
    assert all(one.startswith("NVML cannot be opened: ") for one in said)
    assert len(cards["found"]) == 8


def _copied(folder: Path) -> Path:
    """A library of the test's own, which it may move."""
    made = folder / "lib" / library().name
    made.parent.mkdir()
    made.write_bytes(library().read_bytes())
    return made


def test_the_file_of_cards_is_what_the_helper_says(tmp_path: Path) -> None:
    cards = InventedCards(tmp_path / "cards", count=2)
    cards.change(1, memory=-1, mig=1)
    cards.fail("nvmlInitWithFlags", 9)
    cards.strike(0, 79)
    cards.mend()
    lines = cards.file.read_text().splitlines()
    assert lines[1] == f"card {uuid(1)} -1 0 0 1 00000000:08:00.0 NVIDIA A100-SXM4-40GB"
    assert lines[2:] == ["xid 0 79"]
