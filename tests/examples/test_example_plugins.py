"""The example plugins, installed and used as a user's package would be."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.command import manifest, tonnage
from tests.paths import ROOT
from tests.scenario import node, pod, running, scenario
from tests.waiting import PATIENCE
from tonnage.cluster.task import make_task
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement
from tonnage.plugins.defaults import default_plugins

PLUGINS = ROOT / "examples" / "plugins"
SPOT = {"kai.scheduler/instance-type": "spot"}
BOTH = """\
actions: allocate
tiers:
- plugins:
  - name: nodepolicy
  - name: spot-instance-manager
    arguments: {bonus: 50}
  - name: namespace-allocation-tracker
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both packages, made by pip from their own metadata."""
    folder = tmp_path_factory.mktemp("installed")
    packages = [PLUGINS / name for name in ("spot-instance-manager", "namespace-allocation-tracker")]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), *map(str, packages)]
    subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)
    return folder


def plugin(folder: Path, module: str, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(folder))
    return getattr(import_module(module), name)()


def test_both_are_listed_with_their_arguments_and_extension_points(installed):
    done = tonnage("plugins", "-o", "json", PYTHONPATH=str(installed))
    listed = {one["name"]: one for one in json.loads(done.stdout)}
    assert listed["spot-instance-manager"]["points"] == ["predicate", "node order"]
    assert listed["spot-instance-manager"]["arguments"]["label"] == "kai.scheduler/instance-type"
    assert listed["namespace-allocation-tracker"]["points"] == ["allocate and deallocate events"]


def test_a_configuration_names_them_and_they_decide(installed, tmp_path):
    (tmp_path / "scheduler.yaml").write_text(BOTH)
    objects = manifest(
        node("a", gpus=1, labels=SPOT), node("b", gpus=1), pod("p", 1, memory=10), pod("q", 1, memory=10)
    )
    command = ("schedule", "-f", "-", "--config", tmp_path / "scheduler.yaml", "-o", "json")
    done = tonnage(*command, stdin=objects, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    decisions = json.loads(done.stdout)["decisions"]
    assert [decision["node"] for decision in decisions] == ["b", "b"]
    assert decisions[0]["scores"]["b"]["spot-instance-manager"] == 50.0


def test_a_wrong_argument_is_found_by_check(installed, tmp_path):
    (tmp_path / "scheduler.yaml").write_text(BOTH.replace("bonus: 50", "bonos: 50"))
    done = tonnage("check", tmp_path / "scheduler.yaml", PYTHONPATH=str(installed))
    assert done.returncode == 2
    assert "scheduler.yaml:6:17: " in done.stderr + done.stdout
    assert "bonus" in done.stderr + done.stdout


@pytest.mark.parametrize(("priority", "expected"), [(None, "a"), (50, "a"), (100, None)])
def test_jobs_that_must_not_be_preempted_stay_off_spot_nodes(installed, monkeypatch, priority, expected):
    spot = plugin(installed, "spot_instance_manager", "SpotInstances", monkeypatch)
    cluster = scenario(node("a", gpus=1, labels=SPOT))
    with Session(cluster, [*default_plugins(), spot]) as session:
        decision = session.decide(make_task(pod("p", 1, priority=priority), cluster.vendors))
    assert decision.node == expected
    if expected is None:
        (rejection,) = decision.rejected
        assert rejection.reason == "SpotInstance"
        assert rejection.message == "default/p must not be preempted and a is a spot instance"


def test_the_tracker_hears_of_placements_evictions_and_their_undoing(installed, monkeypatch, caplog):
    tracker = plugin(installed, "namespace_allocation_tracker", "NamespaceAllocationTracker", monkeypatch)
    cluster = scenario(
        node("a", gpus=1), running("x", on="a", memory=8000), pod("p", 1, memory=8000), pod("q", cpu="1")
    )
    caplog.set_level("INFO")
    with Session(cluster, [*default_plugins(), tracker]) as session:
        counts = tracker.pods_per_namespace
        with Statement(session) as statement:
            statement.evict(cluster.running["default/x"], "default/p", "makes room")
            assert counts["default"] == -1
            statement.pipeline(cluster.waiting["default/p"])
            assert counts["default"] == 0
        assert counts["default"] == 0
        session.place(cluster.waiting["default/q"])
        assert counts["default"] == 1
    assert caplog.messages == ["namespace default: +1 pods"]
