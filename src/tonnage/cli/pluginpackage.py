"""The package of a new plugin: its files with the plugin's name put in, written where nothing is yet."""

import keyword
import re
import sys
from pathlib import Path

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "NAME"
version = "0.1.0"
description = "A Tonnage plugin: prefers the nodes of one pool"
requires-python = ">=3.11"
dependencies = ["tonnage"]

[project.entry-points."tonnage.plugins"]
NAME = "MODULE:CLASS"

[tool.hatch.build.targets.wheel]
include = ["MODULE.py"]
"""

_MODULE = '''\
"""Prefers the nodes of one pool, and keeps other pods off nodes that are set aside."""

from tonnage.api import Job, NodeView, Plugin, PluginArguments, Reason, Session, Task


class CLASS(Plugin):
    """Pods go to the preferred pool first, and to nodes that are set aside only if they say so."""

    name = "NAME"

    class Arguments(PluginArguments):
        """What a configuration may set; these are the defaults."""

        label: str = "pool"
        preferred: str = "blue"
        bonus: float = 100.0

    def on_session_open(self, session: Session) -> None:
        session.add_predicate(self.keep_off)
        session.add_node_order(self.prefer)

    def keep_off(self, task: Task, job: Job, node: NodeView) -> Reason | None:
        if node.labels.get("set-aside") != "true" or task.annotations.get("may-use-set-aside") == "true":
            return None
        return Reason("SetAside", f"{node.name} is set aside, and {task.key} does not say that it may use it")

    def prefer(self, task: Task, node: NodeView) -> float:
        return self.args.bonus if node.labels.get(self.args.label) == self.args.preferred else 0.0
'''

_CLUSTER = """\
# A small cluster to try the plugin on: tonnage schedule -f cluster.yaml --plugin MODULE.py -o wide
apiVersion: v1
kind: Node
metadata: {name: blue-1, labels: {pool: blue}}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "20"}}
---
apiVersion: v1
kind: Node
metadata: {name: green-1, labels: {pool: green}}
status: {allocatable: {cpu: "32", memory: 128Gi, pods: "20"}}
---
apiVersion: v1
kind: Node
metadata: {name: quiet-1, labels: {pool: blue, set-aside: "true"}}
status: {allocatable: {cpu: "64", memory: 256Gi, pods: "20"}}
---
apiVersion: v1
kind: Pod
metadata: {name: small, namespace: team-a}
spec:
  containers:
  - {name: main, resources: {requests: {cpu: "1", memory: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: team-a}
spec:
  containers:
  - {name: main, resources: {requests: {cpu: "40", memory: 1Gi}}}
"""

_TEST = '''\
"""The plugin on a small cluster, by the command that people use."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def decisions() -> dict[str, Any]:
    """What is decided about each pod of cluster.yaml."""
    plugin, cluster = HERE / "MODULE.py", HERE / "cluster.yaml"
    command = ["schedule", "-f", str(cluster), "--plugin", str(plugin), "-o", "json"]
    done = subprocess.run([sys.executable, "-m", "tonnage", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["problems"] == []
    return {decision["pod"]: decision for decision in document["decisions"]}


def test_a_pod_goes_to_the_preferred_pool() -> None:
    small = decisions()["team-a/small"]
    assert small["node"] == "blue-1"
    assert small["scores"]["blue-1"]["NAME"] == 100.0
    assert small["scores"]["green-1"]["NAME"] == 0.0


def test_a_pod_that_fits_only_on_a_node_that_is_set_aside_waits_and_says_why() -> None:
    large = decisions()["team-a/large"]
    assert large["node"] is None
    assert ("SetAside", "NAME") in {(one["reason"], one["plugin"]) for one in large["rejected"]}
'''


class PackageError(Exception):
    """A package that cannot be written, with the reason."""


def write_package(name: str, folder: str) -> tuple[Path, list[str]]:
    """Write the package of a plugin into a new folder of its name; the folder, and the names of the files."""
    module = _module(name)
    place = Path(folder) / name
    files = {
        "pyproject.toml": _PYPROJECT,
        f"{module}.py": _MODULE,
        f"test_{module}.py": _TEST,
        "cluster.yaml": _CLUSTER,
    }
    class_name = "".join(part.capitalize() for part in name.split("-"))
    try:
        place.mkdir()
    except FileExistsError as error:
        raise PackageError(f"{place} is there already; choose another name, or another --folder") from error
    except OSError as error:
        raise PackageError(f"{place} cannot be made: {error.strerror}; give a --folder that is there") from error
    for file, text in files.items():
        written = text.replace("NAME", name).replace("MODULE", module).replace("CLASS", class_name)
        (place / file).write_text(written, encoding="utf-8")
    return place, list(files)


def _module(name: str) -> str:
    """The module of a plugin; PackageError if the name is not one for a plugin."""
    from tonnage.plugins.catalog import BUILT_IN

    if not _NAME.fullmatch(name):
        raise PackageError(f"{name!r} is no name for a plugin; write lower-case words with - between, such as my-pools")
    if name in BUILT_IN:
        raise PackageError(f"there is a plugin {name} already; choose another name")
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in ("tonnage", "numpy"):
        raise PackageError(
            f"{name} would hide the module {module} of Python; choose another name, such as {name}-plugin"
        )
    return module
