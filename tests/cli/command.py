"""The `tonnage` command as a process, and scenarios written as the manifests it reads."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tests.cli.warm import WarmCommand
from tests.paths import ROOT
from tests.waiting import PATIENCE
from tonnage.model.node import Node
from tonnage.model.pod import Pod

EXAMPLES = ROOT / "examples"
CLUSTER = EXAMPLES / "cluster.yaml"
PROBLEMS = EXAMPLES / "problems.yaml"
COMMAND = [sys.executable, "-m", "tonnage.cli.main"]
_AT_START = ("PYTHON", "LD_")
"""How variables begin that are read when a process starts."""
_WARM = WarmCommand()


def tonnage(
    *arguments: str | Path, stdin: str | bytes = "", cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; whatever it is given, it must not end in a traceback."""
    words, given = list(map(str, arguments)), stdin.encode() if isinstance(stdin, str) else stdin
    surroundings = {**os.environ, "COLUMNS": "200", **environment}
    if any(name.startswith(_AT_START) for name in environment):
        done = subprocess.run(
            [*COMMAND, *words],
            input=given,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            cwd=cwd,
            env=surroundings,
        )
    else:
        done = _WARM.run(words, given, cwd, surroundings, PATIENCE)
    result = subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in result.stderr
    return result


@cache
def schedule(*arguments: str | Path, stdin: str | bytes = "") -> str:
    """What `tonnage schedule` prints when all goes well; asked the same again, it is not run again."""
    done = tonnage("schedule", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cycle(*arguments: str | Path, stdin: str | bytes = "") -> dict[str, Any]:
    """The document of a cycle."""
    document: dict[str, Any] = json.loads(schedule("-o", "json", *arguments, stdin=stdin))
    return document


def decided(*arguments: str | Path, stdin: str | bytes = "") -> dict[str, dict[str, Any]]:
    """The decision about each pod, by name, in the order of decisions."""
    return {decision["pod"]: decision for decision in cycle(*arguments, stdin=stdin)["decisions"]}


def places(*arguments: str | Path, stdin: str | bytes = "") -> dict[str, list[str]]:
    """The cards that each pod was given."""
    return {
        name: [device["uuid"] for device in decision["devices"]]
        for name, decision in decided(*arguments, stdin=stdin).items()
    }


def manifest(*objects: Node | Pod) -> str:
    """A scenario's objects as `kubectl get -o json` prints them."""
    items = [{"apiVersion": "v1", "kind": type(o).__name__, **msgspec.to_builtins(o)} for o in objects]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2)
