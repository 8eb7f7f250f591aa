"""`tonnage top` as a pipe, a program and a screen meet it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.cli.command import tonnage
from tests.groups import add, queue
from tests.paths import ROOT
from tests.scenario import node, pod, running, scenario
from tonnage.cli.terminal.controls import Controls, Overlay
from tonnage.cli.terminal.screen import render
from tonnage.cli.terminal.tabs import Tab
from tonnage.cli.top.livesource import LiveSource
from tonnage.cluster.cluster import Cluster
from tonnage.config.defaults import DEFAULT_ACTIONS
from tonnage.lab.api import node_manifest, pod_manifest
from tonnage.live.view import ClusterView
from tonnage.model.node import Node
from tonnage.model.pod import Pod
from tonnage.model.problem import Problem
from tonnage.plugins.defaults import default_plugins

QUEUES = [str(ROOT / "examples" / "queues.yaml"), "--config", str(ROOT / "examples" / "queues-config.yaml")]
SIZES = ((80, 24), (200, 60), (120, 36), (60, 15), (33, 9), (10, 3), (1, 1))
WIDTH, HEIGHT = 120, 36


class Observed:
    """A cluster whose state of being current is given."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.changes = 0
        self.stale_since: float | None = None

    def problems(self) -> list[Problem]:
        return [*self.cluster.problems()]


class Clock:
    now = 0.0

    def read(self) -> float:
        return self.now


def some_cluster() -> Cluster:
    cluster = scenario(
        node("a", gpus=2, gpu_memory=8000),
        node("b", gpus=2, gpu_memory=8000),
        running("x", on="a", gpu=0, memory=8000),
        running("y", on="a", gpu=1, memory=2000),
        pod("big", 4),
        pod("small", 1, memory=1000),
    )
    return add(cluster, queue("team", weight=1))


def source_of(cluster: Cluster, clock: Clock | None = None, **more: Any) -> tuple[LiveSource, Observed]:
    observed = Observed(cluster)
    view = ClusterView(observed, "https://here", default_plugins(), DEFAULT_ACTIONS, "binpack/spread", **more)
    return LiveSource(view, clock=(clock or Clock()).read), observed


def screen(source: LiveSource, controls: Controls | None = None, width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    console = Console(width=width, height=height, color_system=None, legacy_windows=False, _environ={})
    with console.capture() as capture:
        console.print(render(source, width, height, controls or Controls(has_keys=True)))
    return capture.get().splitlines()


def shown(source: LiveSource, *keys: str) -> str:
    controls = Controls(has_keys=True)
    for key in keys:
        controls.press(key, source)
    return "\n".join(screen(source, controls))


def manifests(folder: Path, *things: Node | Pod) -> str:
    items = [
        {"apiVersion": "v1", "kind": "Node", **node_manifest(thing)}
        if isinstance(thing, Node)
        else {"apiVersion": "v1", "kind": "Pod", **pod_manifest(thing)}
        for thing in things
    ]
    file = folder / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(file)


# -- in a pipe


def test_in_a_pipe_the_cluster_is_printed_once_in_plain_lines() -> None:
    done = tonnage("top", "-f", *QUEUES)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "\x1b" not in done.stdout
    assert any(re.match(r"GPUs +4: 0 full, 0 partly used, 4 idle", line) for line in lines)
    assert any(re.match(r"gpu-1 +.*32/32 +256/256", line) for line in lines)
    assert any(re.match(r"research +0\.0 +1 +2", line) for line in lines)
    assert any(line.startswith("serving/chat-2 waits for 2 GPU") and "QueueOverLimit" in line for line in lines)


@pytest.mark.parametrize(
    ("view", "heading"),
    [("nodes", "NODE  "), ("gpus", "GPU  "), ("pods", "POD  "), ("queues", "QUEUE  ")],
)
def test_one_view_may_be_asked_for(view: str, heading: str) -> None:
    done = tonnage("top", view, "-f", *QUEUES)
    assert (done.returncode, sum(line.startswith(heading) for line in done.stdout.splitlines())) == (0, 1)


def test_a_program_gets_everything() -> None:
    done = tonnage("top", "-f", *QUEUES, "-o", "json")
    told = json.loads(done.stdout)
    assert told["totals"]["cards"] == 4
    assert [row["name"] for row in told["queues"]] == ["default", "research", "serving"]
    assert {row["state"] for row in told["pods"]} == {"waiting"}
    assert (told["stale_since"], told["problems"]) == (None, [])
    assert told["waiting"][0]["pods"]


def test_names_with_escape_sequences_are_shown_as_text(tmp_path: Path) -> None:
    wanted = pod("p", 1)
    evil = "\x1b[31mred\x1b]0;title\x07\u202e\r\n"
    file = manifests(tmp_path, node("a", gpus=1), wanted)
    text = Path(file).read_text().replace('"name": "p"', f'"name": {json.dumps("p" + evil)}')
    Path(file).write_text(text.replace('"name": "a"', f'"name": {json.dumps("a" + evil)}'))
    for view in ("cluster", "nodes", "gpus", "pods"):
        done = tonnage("top", view, "-f", file)
        assert done.returncode == 0, done.stderr
        assert all(line.isprintable() for line in done.stdout.splitlines())
        assert "?[31mred?]0;title?" in done.stdout
    source, _ = source_of(scenario(node("a" + evil, gpus=1), pod("p" + evil, 1)))
    for keys in ([], ["2"], ["3"], ["4"], ["4", "\r"], ["2", "\r"], ["3", "\r"], ["\r"]):
        text = shown(source, *keys)
        assert all(line.isprintable() for line in text.split("\n"))


# -- bad input


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sideways",), "'sideways' is not one of 'cluster', 'nodes', 'gpus', 'pods', 'queues'"),
        (("--kubeconfig", "/missing"), "/missing: there is no such file"),
        (("-f", "/missing"), "/missing"),
        (("-f", QUEUES[0], "--policy", "sideways"), "there is no policy sideways"),
    ],
)
def test_bad_input_ends_with_status_2(words: tuple[str, ...], said: str) -> None:
    done = tonnage("top", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_an_unreachable_server_is_a_failure_at_work(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        """
        current-context: c
        contexts: [{name: c, context: {cluster: c, user: c}}]
        clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
        users: [{name: c, user: {token: t}}]
        """
    )
    done = tonnage("top", "--kubeconfig", str(config))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "Cannot connect to 127.0.0.1:9" in done.stderr


# -- the screen


@pytest.mark.parametrize("tab", list(Tab))
@pytest.mark.parametrize("page", list(Overlay))
def test_every_tab_and_page_fits_every_screen(tab: Tab, page: Overlay) -> None:
    source, _ = source_of(some_cluster(), note="decided by a default; " + "give a configuration " * 9)
    for chosen in ("", "default/big", "default/x", "a", "a/1", "team", "nothing"):
        for width, height in SIZES:
            lines = screen(source, Controls(tab, chosen=chosen, page=page, has_keys=True), width, height)
            assert len(lines) <= height
            assert max(map(cell_len, lines)) <= width


def test_the_tabs_show_nodes_gpus_pods_and_queues() -> None:
    source, _ = source_of(some_cluster())
    assert re.search(r"a +A100-SXM4-40GB +█▂ +62%", shown(source, "2"))
    assert re.search(r"a/0 +A100-SXM4-40GB +████████ +7\.8/8 .*default/x", shown(source, "3"))
    pods = shown(source, "4")
    assert re.search(r"default/big +waiting +4 GPU", pods)
    assert pods.index("default/big") < pods.index("default/x")
    assert re.search(r"team +0\.0", shown(source, "5"))
    assert "4 pods" in shown(source, "\t", "\t", "\t")
    assert "queues" in shown(source, "\x1b[Z")


def test_items_are_sorted_filtered_and_chosen() -> None:
    source, _ = source_of(some_cluster())
    fullest = shown(source, "3", "s")
    assert "4 GPUs  by fullest" in fullest
    assert fullest.index("a/0") < fullest.index("a/1") < fullest.index("b/0")
    assert "1 of 4 pods  with “big”" in shown(source, "4", "/", *"big", "\r")
    assert "4 pods" in shown(source, "4", "/", *"big", "\r", "\x1b")
    node_page = shown(source, "2", "j", "j", "\r")
    assert re.search(r"^ b\n", node_page, re.MULTILINE)
    assert "default/x: 8,000 MiB" in shown(source, "3", "\r")


def test_a_waiting_pod_leads_to_its_explanation() -> None:
    for keys in (["j", "\r"], ["4", "/", *"big", "\r", "\r"]):
        source, _ = source_of(some_cluster())
        at_once = shown(source, *keys)
        assert re.search(r"why it waits\s+2 nodes +\w+: \S", at_once)
        source.refresh()
        text = shown(source, *keys)
        assert re.search(r"default/big waits: ", text)
        assert "Of 2 nodes:" in text


def test_a_pod_that_fits_waits_for_its_scheduler() -> None:
    source, _ = source_of(some_cluster())
    assert "fits on a now; waits for its scheduler, default-scheduler" in shown(source)


def test_a_pod_that_runs_says_where_and_on_which_gpu() -> None:
    source, _ = source_of(some_cluster())
    text = " ".join(shown(source, "4", "/", *"default/y", "\r", "\r").split())
    assert "It is running on a; GPU 1: 2,000 MiB" in text


def test_a_long_page_can_be_moved() -> None:
    cluster = scenario(node("a", gpus=16))
    source, _ = source_of(cluster)
    controls = Controls(has_keys=True)
    for key in ("2", "\r"):
        controls.press(key, source)
    assert "GPU 15" not in "\n".join(screen(source, controls, 80, 24))
    controls.press("\x1b[F", source)
    last = "\n".join(screen(source, controls, 80, 24))
    assert "GPU 15" in last
    assert "esc goes back" in last


def test_problems_have_a_page() -> None:
    cluster = scenario(node("a", gpus=1), running("x", on="gone", gpu=0, memory=1))
    source, _ = source_of(cluster)
    assert re.search(r"1 problems\s+Pod/default/x +spec\.nodeName: node gone is not known", shown(source, "p"))


def test_the_view_says_since_when_it_is_old() -> None:
    source, observed = source_of(some_cluster())
    assert "away" not in shown(source)
    observed.stale_since = source.now - 62
    for keys in ([], ["4"], ["?"]):
        assert re.search(r"away: as of \d\d:\d\d:\d\d, 1m2s ago  https://here", shown(source, *keys))
    observed.stale_since = None
    assert "away" not in shown(source)


# -- what it costs


def test_nothing_is_worked_out_again_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from tonnage.cli.top import livesource

    clock, runs = Clock(), []
    dry = livesource.dry_cycle

    def counted(view: ClusterView) -> Any:
        runs.append(clock.now)
        clock.now += 0.1
        return dry(view)

    monkeypatch.setattr(livesource, "dry_cycle", counted)
    cluster = some_cluster()
    source, observed = source_of(cluster, clock)
    before = source.overview()
    for _ in range(30):
        clock.now += 1
        source.refresh()
    assert len(runs) == 1
    assert source.overview() is before
    # A cluster that changes all the time costs a twentieth of a core.
    for _ in range(40):
        clock.now += 1
        observed.changes += 1
        source.refresh()
    assert 15 <= len(runs) <= 22
    cluster.remove_pod("default/big")
    observed.changes += 1
    clock.now += 10
    source.refresh()
    assert {row.pod for row in source.pods()} == {"default/small", "default/x", "default/y"}
