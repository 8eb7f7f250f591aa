"""`tonnage plan defrag` on files: its answers, its files and its errors."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import EXAMPLES, tonnage

DEFRAG = EXAMPLES / "defrag.yaml"


def plan(*words: str | Path) -> str:
    done = tonnage("plan", "defrag", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_people_get_gain_and_price_first_then_each_move_then_who_is_affected() -> None:
    text = plan("-f", DEFRAG, "--free-gpus")
    lines = text.splitlines()
    assert "1 move gains 1.00 free GPUs and loses" in lines[0]
    order = [text.index(part) for part in ("gain", "BEFORE", "STEP", "PODS MOVED", "Pods that are not moved")]
    assert order == sorted(order)


def test_programs_get_the_record_as_json() -> None:
    found = json.loads(plan("-f", DEFRAG, "--free-gpus", "-o", "json"))
    assert found["goal"] == "free-gpus"
    assert 0.0 <= found["gap"] < 1.0
    assert [move["step"] for move in found["moves"]] == list(range(1, len(found["moves"]) + 1))
    assert found["after"]["gpus_whole"] == found["before"]["gpus_whole"] + 1


def test_the_commands_are_a_script_that_a_shell_accepts(tmp_path: Path) -> None:
    text = plan("-f", DEFRAG, "--free-gpus", "--kubectl", "--not-before", "2027-01-15T22:00:00Z")
    script = tmp_path / "plan.sh"
    script.write_text(text)
    subprocess.run(["sh", "-n", script], check=True)
    assert text.count("\nmove ") == 1
    assert "-lt 20270115220000 ]" in text


def test_the_page_shows_the_cluster_before_and_after(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    plan("-f", DEFRAG, "--free-gpus", "--html", page)
    text = page.read_text()
    for part in ("Before", "After", "Moves, in order", "Who is affected", "<wbr>tune"):
        assert part in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give a goal: --free-gpus"),
        (("--free-gpus", "--usable"), "the goals contradict each other (free-gpus, usable)"),
        (("--start", "x", "--start-all"), "--start and --start-all"),
        (("--free-gpus", "many"), "'many' is no whole number from 1 up"),
        (("--usable", "--horizon", "soon"), "'soon' is no duration"),
        (("--usable", "--not-before", "tonight"), "'tonight' is no time"),
        (("--usable", "--not-before", "2020-01-01T00:00:00Z"), "is in the past"),
        (("--start", "research/none"), "cannot plan to start research/none: no waiting job has that name"),
        (("--usable", "--kubectl", "-o", "json"), "give either --kubectl or -o"),
        (("--usable", "--prices", "missing.yaml"), "the prices are not valid"),
    ],
)
def test_bad_input_ends_with_status_2_and_says_what_to_do(words: tuple[str, ...], told: str) -> None:
    done = tonnage("plan", "defrag", "-f", DEFRAG, *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stdout == ""


def test_every_mistake_in_a_file_of_prices_has_its_place(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("gpuHourLost: -1\nhorizn: 3h\nstartUp: soon\n")
    done = tonnage("plan", "defrag", "-f", DEFRAG, "--usable", "--prices", prices)
    assert done.returncode == 2
    assert f"{prices}:1:14: gpuHourLost" in done.stderr
    assert f"{prices}:2:1: prices has no key horizn; did you mean horizon?" in done.stderr


def test_prices_of_a_file_count(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("gpuHourLost: 1000\npriorities:\n- {priority: 50, weight: 3}\n")
    text = plan("-f", DEFRAG, "--free-gpus", "--prices", prices)
    assert text.startswith("No plan pays")
