"""Plugins of users' own: from a file, by module and class, and from an installed package."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tests.paths import ROOT
from tests.waiting import PATIENCE

SPOT = "examples/plugins/spot-instance-manager/spot_instance_manager.py"

NODES = """
apiVersion: v1
kind: Node
metadata: {name: a, labels: {kai.scheduler/instance-type: spot}}
status: {allocatable: {cpu: 8, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {kai.scheduler/instance-type: on-demand}}
status: {allocatable: {cpu: 8, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  priority: 2000
  containers: [{name: main, resources: {requests: {cpu: 1}}}]
"""


def tonnage(*arguments, path=""):
    environment = {"PATH": "", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{path}"}
    return subprocess.run(
        [sys.executable, "-m", "tonnage.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
        check=False,
    )


@pytest.fixture
def cluster(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(NODES)
    return file


def decision(done):
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["decisions"]
    return found


def config(tmp_path, name, arguments="{}"):
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"actions: allocate\ntiers:\n- plugins:\n  - name: {name}\n    arguments: {arguments}\n")
    return file


def test_a_plugin_in_a_file_just_runs(cluster):
    found = decision(tonnage("schedule", "-f", cluster, "--plugin", SPOT, "-o", "json"))
    assert found["node"] == "b"
    assert found["scores"]["b"]["spot-instance-manager"] == 1000.0
    (rejection,) = found["rejected"]
    assert (rejection["reason"], rejection["plugin"]) == ("SpotInstance", "spot-instance-manager")
    assert rejection["message"] == "default/p must not be preempted and a is a spot instance"


def test_a_configuration_gives_it_arguments(cluster, tmp_path):
    file = config(tmp_path, "spot-instance-manager", "{value: on-demand}")
    found = decision(tonnage("schedule", "-f", cluster, "--plugin", SPOT, "--config", file, "-o", "json"))
    assert found["node"] == "a"


def test_arguments_of_users_plugins_are_checked_too(tmp_path):
    file = config(tmp_path, "spot-instance-manager", "{valu: x}")
    done = tonnage("check", file, "--plugin", SPOT)
    assert done.returncode == 2
    assert "did you mean value?" in done.stderr
    assert f"{file}:5:" in done.stderr


def test_a_plugin_by_module_and_class(cluster, tmp_path):
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(
            """
            from tonnage.framework.plugin import Plugin

            class Backwards(Plugin):
                name = "backwards"

                def on_session_open(self, session):
                    session.add_node_order(lambda task, node: float(ord(node.name[0])))
            """
        )
    )
    file = config(tmp_path, "mine:Backwards")
    found = decision(tonnage("schedule", "-f", cluster, "--config", file, "-o", "json", path=tmp_path))
    assert (found["node"], found["scores"]["b"]["backwards"]) == ("b", 98.0)


def test_a_plugin_of_an_installed_package(cluster, tmp_path):
    (tmp_path / "theirs.py").write_text(
        "from tonnage.framework.plugin import Plugin\n"
        "class Theirs(Plugin):\n"
        "    name = 'theirs'\n"
        "    def on_session_open(self, session):\n"
        "        session.add_node_order(lambda task, node: 7.0)\n"
    )
    metadata = tmp_path / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[tonnage.plugins]\ntheirs = theirs:Theirs\n")
    file = config(tmp_path, "theirs")
    found = decision(tonnage("schedule", "-f", cluster, "--config", file, "-o", "json", path=tmp_path))
    assert found["scores"]["a"]["theirs"] == 7.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nowhere_to_be_found", "cannot be loaded: ModuleNotFoundError"),
        ("def (", "cannot be loaded: SyntaxError"),
        ("x = 1", "defines no plugin"),
        ("from tonnage.framework.plugin import Plugin\nclass P(Plugin): pass", "has no name"),
        ("from tonnage.framework.plugin import Plugin\nclass P(Plugin):\n    name = 'p'", "has no on_session_open"),
        (
            "from tonnage.framework.plugin import Plugin\nclass P(Plugin):\n    name = 'binpack'\n"
            "    def on_session_open(self, session): pass",
            "there is a plugin binpack already",
        ),
        (
            "from tonnage.framework.plugin import Plugin\nclass P(Plugin):\n    name = 'p'\n"
            "    def on_session_open(self): pass",
            "plugin p cannot be opened: TypeError",
        ),
        (
            "from tonnage.framework.plugin import Plugin\nclass P(Plugin):\n    name = 'p'\n"
            "    def __init__(self): raise ValueError('no')\n"
            "    def on_session_open(self, session): pass",
            "plugin p cannot be made: ValueError: no",
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_is_an_error_at_load(cluster, tmp_path, text, words):
    file = tmp_path / "broken.py"
    file.write_text(text)
    done = tonnage("schedule", "-f", cluster, "--plugin", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


FAILING = """
from tonnage.api import Plugin

def inner(task):
    return task.nonsense

class Failing(Plugin):
    name = "failing"

    def on_session_open(self, session):
        session.add_predicate(lambda task, job, node: inner(task))
        session.add_node_order(self.prefer)

    def prefer(self, task, node):
        return "much"
"""


def test_a_plugin_that_fails_is_named_with_file_and_line(cluster, tmp_path):
    file = tmp_path / "failing.py"
    file.write_text(FAILING)
    done = tonnage("schedule", "-f", cluster, "--plugin", file, "-o", "json")
    assert done.returncode == 0, done.stderr
    problems = {problem["field"]: problem for problem in json.loads(done.stdout)["problems"]}
    told = problems["predicate"]["message"]
    assert f"AttributeError: 'Task' object has no attribute 'nonsense' ({file}:5)" in told
    file.write_text(FAILING.replace("return task.nonsense", "return None"))
    (problem,) = json.loads(tonnage("schedule", "-f", cluster, "--plugin", file, "-o", "json").stdout)["problems"]
    assert problem["object"] == "Plugin/failing"
    assert f"answered 'much' instead of a finite number ({file}:14)" in problem["message"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\nimport nowhere_to_be_found", 2),
        ("x = 1\n\ndef (", 3),
        (FAILING.replace("session.add_node_order(self.prefer)", "session.add_nothing(self.prefer)"), 12),
        (FAILING.replace("def on_session_open(self, session)", "def on_session_open(self)"), 10),
        (FAILING + "\n    def __init__(self):\n        raise ValueError", 18),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_with_file_and_line(cluster, tmp_path, text, line):
    file = tmp_path / "failing.py"
    file.write_text(text)
    done = tonnage("schedule", "-f", cluster, "--plugin", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"({file}:{line})" in done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere:Plugin", "nowhere:Plugin cannot be imported: ModuleNotFoundError"),
        ("json:Plugin", "module json has no Plugin"),
        ("json:dumps", "json:dumps is not a plugin"),
    ],
)
def test_a_name_that_leads_nowhere(tmp_path, name, words):
    file = config(tmp_path, name)
    done = tonnage("check", file)
    assert done.returncode == 2
    assert f"{file}:4:11: {words}" in done.stderr


def test_a_missing_file(cluster):
    done = tonnage("schedule", "-f", cluster, "--plugin", "nowhere.py")
    assert done.returncode == 2
    assert "nowhere.py: there is no such file" in done.stderr


def test_all_plugins_are_listed_with_arguments_and_extension_points():
    done = tonnage("plugins", "--plugin", SPOT, "-o", "json")
    found = {about["name"]: about for about in json.loads(done.stdout)}
    assert {"noderesources", "devices", "binpack", "noderesourcesfit", "gpupolicy"} <= found.keys()
    assert found["binpack"]["arguments"] == {
        "binpack.weight": 1,
        "binpack.cpu": 1,
        "binpack.memory": 1,
        "binpack.resources": "",
    }
    assert found["spot-instance-manager"]["points"] == ["predicate", "node order"]
    assert found["spot-instance-manager"]["arguments"]["value"] == "spot"
    assert all("error" not in about for about in found.values())
    text = tonnage("plugins", "--plugin", SPOT).stdout
    assert "spot-instance-manager: Jobs that must not be preempted stay off spot nodes" in text
    assert "  extension points: predicate, node order\n" in text
