"""Every command that a page shows is typed as it stands, and prints what the page shows.

A page's commands are typed in turn in a folder in which the files they name exist: the examples, a cluster, a
configuration, a device configuration and a trace. What `kubectl get` would print comes from these files, and what goes
to `kubectl apply` must be objects. Commands that need more stand in ELSEWHERE with the place that runs them.
"""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.cli.command import CLUSTER, EXAMPLES, tonnage
from tests.pages import PAGES, named
from tests.shown import Shown, as_pattern, shown_commands
from tests.simulator.traces.files import NODES, PODS, write

ELSEWHERE = {
    "make ": "the README's targets set up a virtual environment of their own",
    "tonnage lab ": "tests/cli/test_lab.py and tests/e2e: needs Kubernetes' parts",
    "tonnage dashboard": "tests/cli/test_dashboard.py: serves until it is stopped",
    "tonnage debug compare ": "tests/cli/test_debug.py: needs an API server",
    r"tonnage migrate check --from \w+$": "tests/e2e/test_moving_over.py: without files it needs an API server",
}
"""Patterns of lines, and why they are not typed here."""
SCHEDULER = "actions: allocate\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: binpack\n"
DEVICES = "nvidia:\n  resourceCountName: nvidia.com/gpu\n"


ON_A_LAB = {"docs/getting-started.md": "tests/e2e/test_shown_on_a_lab.py: the whole page"}


def typed(commands: list[Shown]) -> list[Shown]:
    """The commands that are run here: those with `tonnage` in them, but for some."""
    here = [command for command in commands if not any(re.match(pattern, command.line) for pattern in ELSEWHERE)]
    return [command for command in here if re.search(r"(^|\| )tonnage ", command.line)]


SHOWN = {named(page): typed(shown_commands(page)) for page in PAGES if named(page) not in ON_A_LAB}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the pages speak of."""
    (tmp_path / "examples").symlink_to(EXAMPLES)
    write(tmp_path, "cluster.yaml", CLUSTER.read_text())
    write(tmp_path, "scheduler.yaml", SCHEDULER)
    write(tmp_path, "device-config.yaml", DEVICES)
    write(tmp_path, "nodes.csv", NODES + "a,64000,99999,2,G2\nb,64000,99999,4,T4\n")
    lines = "".join(f"p{number},2000,10,1,{(1000, 500, 250)[number % 3]}\n" for number in range(20))
    write(tmp_path, "pods.csv", PODS + lines)
    return tmp_path


def printed_by_kubectl(words: list[str], folder: Path) -> str:
    assert words[:2] == ["kubectl", "get"], words
    return (folder / ("scheduler.yaml" if words[2] == "configmap" else "cluster.yaml")).read_text()


def run(line: str, folder: Path) -> str:
    """What a line prints; as in a shell, `|` hands it on and `>` writes it to a file."""
    text = ""
    for part in line.split(" | "):
        words = shlex.split(part, comments=True)
        if words == ["kubectl", "apply", "-f", "-"]:
            assert all(document["kind"] for document in yaml.safe_load_all(text))
            continue
        if words[0] == "kubectl":
            text = printed_by_kubectl(words, folder)
            continue
        arguments, target = (words[1:-2], words[-1]) if ">" in words else (words[1:], None)
        # The cluster of `tonnage up` and the shown workload live for hours; one shows as well that they work.
        shorter = ["--duration", "1h", "--speed", "0"] if words[1] == "up" else []
        home = {"XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)}
        done = tonnage(*arguments, *shorter, stdin=text, cwd=folder, **home)
        assert done.returncode == 0, done.stderr
        text = done.stdout
        if target is not None:
            write(folder, target, text.replace("duration: 24h ", "duration: 1h "))
    return text


@pytest.mark.parametrize("page", [page for page, commands in SHOWN.items() if commands])
def test_shown_commands_work_as_typed_and_print_what_is_shown(page: str, folder: Path) -> None:
    for line, output in SHOWN[page]:
        text = run(line, folder)
        assert text or ">" in line, line
        if output:
            assert re.fullmatch(as_pattern(output), text), f"{line}\n{text}"
        if line.startswith("tonnage simulate"):
            compared = [name for names in re.findall(r"--policy (\S+)", line) for name in names.split(",")]
            assert all(f"\n{name} " in text for name in compared), f"{line}\n{text}"
        for report in re.findall(r"--report (\S+)", line):
            assert "<html" in (folder / report).read_text()


def test_the_pages_show_commands_and_output() -> None:
    assert {page for page, commands in SHOWN.items() if any(command.output for command in commands)} >= {
        "docs/schedule.md",
        "docs/input.md",
        "docs/plugins.md",
    }
    assert {
        command.line.split()[1] for commands in SHOWN.values() for command in commands if "|" not in command.line
    } >= {
        "schedule",
        "check",
        "plugins",
        "simulate",
        "up",
        "manifests",
    }
