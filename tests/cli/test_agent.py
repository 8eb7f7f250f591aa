"""`tonnage agent` at its start: what it lacks and what is wrong with its files is said in a sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

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


def test_a_mode_that_is_not_served_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"nodeconfig": [{"name": "a", "operatingmode": "mig"}]}')
    done = tonnage("agent", "--node-name", "a", "--node-config-file", file)
    assert done.returncode == 2
    assert "operatingmode 'mig' is not served by this agent; expected hami-core" in done.stderr
