"""`tonnage agent` at its start: what it lacks and what is wrong with its files is said in a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.nvml.fakelibrary import library, needs_cc
from tests.cli.command import tonnage
from tests.waiting import PATIENCE


@pytest.mark.parametrize("module", ["grpclib", "pynvml"])
def test_without_the_extras_packages_it_says_how_to_get_them(module: str) -> None:
    program = f"import sys; sys.modules[{module!r}] = None; from tonnage.cli.main import main; main()"
    arguments = ["agent", "--node-name", "a"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"Error: {module} is missing; pip install 'tonnage[agent]' brings it\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cards: 3", "cards: Expected `array`, got `int`"),
        ("cards: [{memory: 0}]", "expected 1 to 64 cards with memory above 0 MiB"),
        ("cards: [{memery: 1}]", "Object contains unknown field `memery`"),
        ("]", "expected the node content, but found"),
    ],
)
def test_a_wrong_file_of_invented_cards_is_told(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "cards.yaml"
    file.write_text(text)
    done = tonnage("agent", "--node-name", "a", "--fake", file)
    assert done.returncode == 2
    assert message in done.stderr


@needs_cc
def test_invented_cards_are_refused_where_there_is_a_driver(tmp_path: Path) -> None:
    file = tmp_path / "cards.yaml"
    file.write_text("cards: [{count: 1}]")
    done = tonnage("agent", "--node-name", "a", "--fake", file, LD_LIBRARY_PATH=str(library().parent))
    assert done.returncode == 2
    assert "--fake: this machine has an NVML library; invented cards are for nodes without GPUs" in done.stderr
    done = tonnage("agent", "--node-name", "a", "--fake", file, "--nvml-library", library())
    assert done.returncode == 2
    assert "--fake or --nvml-library, not both" in done.stderr


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        ("--node-config-file", "{", "config"),
        ("--node-config-file", '{"nodeconfig": [{"name": "a", "devicesplitcount": "many"}]}', "devicesplitcount"),
        ("--device-config-file", "nvidia: 3", "nvidia"),
        ("--device-config-file", "nvidia: {deviceSplitCount: -1}", "deviceSplitCount"),
        ("--device-config-file", "[", "config"),
    ],
)
def test_a_broken_configuration_is_told_with_its_file_and_place(
    flag: str, text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    done = tonnage("agent", "--node-name", "a", flag, file)
    assert done.returncode == 2, done.stderr
    assert str(file) in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mode_that_is_not_served_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"nodeconfig": [{"name": "a", "operatingmode": "mig"}]}')
    done = tonnage("agent", "--node-name", "a", "--node-config-file", file)
    assert done.returncode == 2
    assert "operatingmode 'mig' is not served by this agent; expected hami-core" in done.stderr
