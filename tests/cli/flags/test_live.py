"""The flags of commands that look: which cluster, which configuration, and what is said about both."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.kube.fake_server import FakeServer
from tests.live.observing import observed
from tests.paths import ROOT
from tests.waiting import until_true
from tonnage.cli.flags.live import ViewSource, live_options

CLUSTER = str(ROOT / "examples" / "cluster.yaml")
SCHEDULERS = "/api/v1/namespaces/tonnage/pods"
CONFIG_MAPS = "/api/v1/namespaces/tonnage/configmaps"


@click.command()
@live_options
def looking(source: ViewSource) -> None:
    view = source.read()
    with view.session():
        click.echo(f"{len(view.cluster.nodes)} nodes of {view.place}, decided by {view.decided_by}: {view.note}")


def look(*words: str) -> Result:
    return CliRunner().invoke(looking, words, catch_exceptions=False)


def live(folder: Path, *words: str, prepare: Callable[[FakeServer], None] = lambda server: None) -> Result:
    """The command on a fake API server, which runs beside it."""

    async def main() -> Result:
        async with observed(folder, prepare) as now:
            kubeconfig = now.server.kubeconfig(folder)
            return await asyncio.to_thread(look, "--kubeconfig", kubeconfig, *words)

    return asyncio.run(main())


def deployed(*args: str, config: str | None = None) -> Callable[[FakeServer], None]:
    """A scheduler in the cluster with these flags, and a ConfigMap of its."""

    def prepare(server: FakeServer) -> None:
        server.served.add(SCHEDULERS)
        pod = {"metadata": {"name": "s-1"}, "spec": {"containers": [{"args": ["scheduler", *args]}]}}
        server.put_plain(SCHEDULERS, pod)
        if config is not None:
            held: dict[str, Any] = {"metadata": {"name": "held"}, "data": {"config.yaml": config}}
            server.answers[f"{CONFIG_MAPS}/held"] = held

    return prepare


def test_files_are_looked_at_with_hami_s_policies_and_a_note() -> None:
    done = look("-f", CLUSTER)
    assert done.exit_code == 0
    assert "decided by binpack/spread" in done.output
    assert "give --config, --policy or --scheduler (the files name no configuration)" in done.output


def test_a_snapshot_brings_its_configuration_and_its_time(tmp_path: Path) -> None:
    data = {"config.yaml": "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n", "now": "2026-01-02T03:04:05Z"}
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tonnage-snapshot"}, "data": data}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    file = tmp_path / "snapshot.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [note, node]}))
    done = look("-f", str(file))
    assert done.output.splitlines()[-1] == f"1 nodes of {file}, decided by the snapshot's configuration: "
    view = ViewSource((str(file),), False, None, None, None, None, None, (), None).read()
    assert view.now() == 1767323045.0


def test_a_snapshot_of_another_version_is_said_to_be_one(tmp_path: Path) -> None:
    data = {"config.yaml": "actions: allocate\n", "now": "2026-01-02T03:04:05Z", "version": "9.9"}
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tonnage-snapshot"}, "data": data}
    file = tmp_path / "snapshot.json"
    file.write_text(
        json.dumps(note) + "\n" + json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
    )
    assert "the snapshot is of tonnage 9.9" in look("-f", str(file)).output


def test_without_a_scheduler_in_the_cluster_the_default_decides_and_a_note_says_so(tmp_path: Path) -> None:
    done = live(tmp_path, prepare=lambda server: server.served.add(SCHEDULERS))
    assert (done.exit_code, done.output.startswith("2 nodes of http://127.0.0.1:")) == (0, True)
    assert "namespace tonnage has no pod app=tonnage-batch-scheduler to ask" in done.output


def test_the_configuration_of_the_deployed_scheduler_decides(tmp_path: Path) -> None:
    assert "decided by binpack/spread: \n" in live(tmp_path, prepare=deployed()).output
    assert "decided by fgd: \n" in live(tmp_path, prepare=deployed("--policy=fgd")).output
    held = "configmap:tonnage/held"
    config = "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n"
    assert f"decided by {held}: \n" in live(tmp_path, prepare=deployed(f"--config={held}", config=config)).output


def test_a_configuration_that_cannot_be_seen_is_said_so(tmp_path: Path) -> None:
    done = live(tmp_path, prepare=deployed("--config=/etc/scheduler.yaml"))
    assert "tonnage/s-1 reads its configuration from /etc/scheduler.yaml, which cannot be seen from here" in done.output
    done = live(tmp_path, prepare=deployed("--config=configmap:tonnage/gone"))
    assert "there is no ConfigMap gone in namespace tonnage" in done.output
    assert done.exit_code == 0


def test_a_config_map_can_be_named(tmp_path: Path) -> None:
    config = "actions: allocate\ntiers:\n- plugins:\n  - name: binpack\n"
    done = live(tmp_path, "--config", "configmap:tonnage/held", prepare=deployed(config=config))
    assert "decided by configmap:tonnage/held: \n" in done.output
    done = live(tmp_path, "--config", "configmap:tonnage/gone")
    assert (done.exit_code, "there is no ConfigMap gone" in done.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-f", CLUSTER, "--context", "c"), "files, or a live cluster"),
        (("--scheduler", "http://h", "--policy", "fgd"), "give either --scheduler or --config and --policy"),
        (("-f", CLUSTER, "--config", "configmap:a/b"), "a ConfigMap is read from a live cluster"),
        (("--config", "configmap:a"), "names no ConfigMap"),
        (("--kubeconfig", "/missing"), "there is no such file"),
        (("-f", "/missing"), "/missing"),
        (("-f", str(ROOT / "pyproject.toml")), "Error"),
    ],
)
def test_bad_input_ends_with_status_2(words: tuple[str, ...], said: str) -> None:
    done = look(*words)
    assert (done.exit_code, said in done.output) == (2, True)


def test_a_missing_right_is_a_failure_that_names_it(tmp_path: Path) -> None:
    done = live(tmp_path, prepare=lambda server: server.forbidden.add("/api/v1/nodes"))
    assert done.exit_code == 1
    assert done.output.startswith("Error: may not list nodes; let this account list and watch them in a ClusterRole")


def test_a_cluster_is_followed_until_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with observed(tmp_path) as now:
            source = ViewSource((), False, now.server.kubeconfig(tmp_path), None, None, None, None, (), None)
            async with source.follow() as view:
                now.server.delete("/api/v1/nodes", "b")
                await until_true(lambda: view.cluster.nodes.keys() == {"a"})

    asyncio.run(main())


def test_files_are_followed_as_they_are() -> None:
    async def main() -> None:
        async with ViewSource((CLUSTER,), False, None, None, None, "fgd", None, (), None).follow() as view:
            assert view.live.changes == 0
            assert view.decided_by == "fgd"

    asyncio.run(main())
