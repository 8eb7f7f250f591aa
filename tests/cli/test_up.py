"""`tonnage up` as a newcomer, a pipe and a program meet it."""

import json
import re
import signal
import subprocess
import time

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.cli.terminal import COMMAND
from tests.scenario import node, pod, scenario, session
from tests.waiting import PATIENCE, until
from tonnage.cli.terminal.controls import Controls, Overlay
from tonnage.cli.terminal.drawing import bar
from tonnage.cli.terminal.screen import render
from tonnage.cli.up.durations import clock
from tonnage.cli.up.liverun import LiveRun
from tonnage.cli.up.options import _invent
from tonnage.cli.up.replaysource import ReplaySource
from tonnage.cluster.task import make_task
from tonnage.config.defaults import DEFAULT_ACTIONS
from tonnage.devices.catalog import default_vendors
from tonnage.overview.podwants import asks
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.fragmentation.usablecards import FreeCards
from tonnage.simulator.placer import ClassPlacer
from tonnage.simulator.replay import Replay
from tonnage.simulator.workloads.demo import Arrival

FREE = FreeCards(9.5, 7.25, 48)
LINE = re.compile(
    r"^\d\d:\d\d:\d\d  running +\d+  waiting +\d+  finished +\d+"
    r"  GPU memory +[\d.]+%  fragmentation +[\d.]+%  decisions +\d+$"
)


def up(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)


def invented(nodes: int, gpus: int, seed: int) -> Replay:
    return _invent(nodes, gpus, seed, default_plugins(), DEFAULT_ACTIONS)


def wait_until_it_listens(pid: int) -> None:
    """Python itself catches SIGINT from the start, but SIGTERM only once the command does."""

    def listens() -> bool:
        with open(f"/proc/{pid}/status") as status:
            caught = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt"))
        return bool(caught & (1 << (signal.SIGTERM - 1)))

    until(listens, "the command does not listen to SIGTERM")


class SteadyRun(LiveRun):
    """A run whose speed and cost are given."""

    def __init__(self, replay: Replay, speed: float = 240, pace: float = 239.0) -> None:
        super().__init__(speed)
        self.replay, self._pace = replay, pace

    each = 85.0

    def pace(self) -> tuple[float, float]:
        return 12.3, self._pace


def source(replay: Replay, duration: float = 8 * 3600) -> ReplaySource:
    return ReplaySource(SteadyRun(replay), duration, "binpack/spread", 0)


def screen(replay: Replay, width: int, height: int, controls: Controls | None = None) -> list[str]:
    console = Console(width=width, height=height, color_system=None, legacy_windows=False, _environ={})
    with console.capture() as capture:
        console.print(render(source(replay), width, height, controls or Controls()))
    return capture.get().splitlines()


def first_number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, pattern
    return float(found[1].replace(",", ""))


# -- for machines


def test_a_configuration_decides_as_it_does_for_schedule(tmp_path):
    """One line in a configuration: pods are placed otherwise than by the default, and by it alone."""
    config = tmp_path / "fgd.yaml"
    config.write_text("actions: allocate\ntiers:\n- plugins:\n  - name: fragmentation\n")
    options = ("--nodes", "6", "--gpus", "4", "--duration", "2h", "-o", "json")
    default, configured = up(*options), up(*options, "--config", str(config))
    assert configured.returncode == 0, configured.stderr
    assert json.loads(configured.stdout)["policy"] == str(config)
    assert json.loads(configured.stdout)["gpu_memory_percent"] != json.loads(default.stdout)["gpu_memory_percent"]
    both = up(*options, "--config", str(config), "--policy", "spread")
    assert json.loads(both.stdout)["policy"] == f"{config}, spread/spread"
    assert json.loads(both.stdout)["gpu_memory_percent"] != json.loads(configured.stdout)["gpu_memory_percent"]


def test_a_configuration_with_other_actions_runs_in_cycles(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("actions: allocate, preempt\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n")
    outcome = up("--nodes", "1", "--gpus", "2", "--duration", "2h", "-o", "json", "--config", str(config))
    assert outcome.returncode == 0, outcome.stderr
    document = json.loads(outcome.stdout)
    assert document["pods"]["placed"] > 0
    assert document["problems"] == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("actions: allocate\ntiers:\n- plugins:\n  - name: fragmentaton\n", "4:11: there is no plugin"),
        (None, "there is no such file"),
    ],
)
def test_a_configuration_that_is_not_valid_is_told_as_schedule_tells_it(tmp_path, text, told):
    config = tmp_path / "config.yaml"
    if text is not None:
        config.write_text(text)
    outcome = up("--config", str(config))
    manifests = tmp_path / "none.yaml"
    manifests.write_text("")
    schedule = [*COMMAND[:-1], "schedule", "-f", str(manifests), "--config", str(config)]
    told_there = subprocess.run(schedule, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert told in outcome.stderr
    assert outcome.stderr == told_there.stderr


def test_what_usual_pods_can_use_of_the_free_cards_is_told():
    options = ("--nodes", "4", "--gpus", "4", "--duration", "2h", "--speed", "0")
    document = json.loads(up(*options, "-o", "json").stdout)
    assert 0 < document["gpus_free_usable"] < document["gpus_free"] < 16
    free, usable = document["gpus_free"], document["gpus_free_usable"]
    assert (
        f"free GPUs        {free:.1f} in all at the end, of which a typical pod can use {usable:.1f}"
        in up(*options).stdout
    )
    replay = invented(2, 2, 0)
    replay.cards.count = lambda: FREE
    wide = "\n".join(screen(replay, 160, 36))
    assert "free GPUs 9.5, 7.2 usable" in wide


def test_the_same_seed_gives_the_same_summary_at_any_speed():
    options = ("--nodes", "4", "--gpus", "2", "--duration", "2h", "-o", "json")
    fast = up(*options, "--speed", "0", "--seed", "5")
    paced = up(*options, "--speed", "9000", "--seed", "5")
    other = up(*options, "--speed", "0", "--seed", "6")
    assert (fast.returncode, fast.stderr) == (0, "")
    assert fast.stdout == paced.stdout
    assert fast.stdout != other.stdout


def test_the_summary_adds_up():
    document = json.loads(
        up("--nodes", "3", "--gpus", "4", "--duration", "90m", "--policy", "spread", "-o", "json").stdout
    )
    assert document["policy"] == "spread/spread"
    assert (document["seed"], document["nodes"], document["gpus"], document["duration"]) == (0, 3, 4, 5400.0)
    pods = document["pods"]
    assert pods["arrived"] == pods["placed"] + pods["waiting"] > 0
    assert pods["running"] == pods["placed"] - pods["finished"]
    assert sum(document["cards"].values()) == 12
    assert document["wait_seconds"]["p50"] <= document["wait_seconds"]["p95"] <= document["wait_seconds"]["max"]
    for figure in ("gpu_memory_percent", "gpu_cores_percent", "fragmentation_percent"):
        assert all(0 <= value <= 100 for value in document[figure].values())
    assert document["problems"] == 0
    assert "second" not in "".join(document).replace("wait_seconds", "")


# -- in a pipe


def test_without_a_terminal_there_is_a_line_per_interval_and_then_the_summary():
    result = up("--nodes", "3", "--gpus", "2", "--speed", "0", "--duration", "1h", "--interval", "25m")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert all(LINE.match(line) for line in lines[:3]), lines[:3]
    assert [line.split()[0] for line in lines[:3]] == ["00:25:00", "00:50:00", "01:00:00"]
    assert lines[3:5] == ["", "1h of virtual time: 3 nodes x 2 GPUs, binpack/spread, seed 0"]
    assert re.search(
        r"^[\d,]+ decisions in [\d.]+ s: [\d,]+ us of work each, [\d,]+ per second if nothing were waited for$",
        lines[-1],
    )
    assert result.stdout.isascii()
    assert max(map(len, lines)) <= 120


class Watch:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_virtual_time_keeps_to_the_speed():
    watch = Watch()
    run = LiveRun(240.0, watch.read, watch.sleep)
    run.replay = invented(2, 2, 0)
    assert run.until(1200.0)
    assert watch.now == pytest.approx(1005.0)
    assert not run.until(9999.0, deadline=watch.now + 0.5)
    assert run.replay.now == pytest.approx(1320.0)


def test_after_a_long_sleep_virtual_time_does_not_chase_what_it_missed():
    watch = Watch()
    run = LiveRun(240.0, watch.read, watch.sleep)
    run.replay = invented(2, 2, 0)
    run.until(240.0)
    watch.now += 3600
    run.until(99999.0, deadline=watch.now + 0.1)
    assert run.replay.now < 240 + 240


def test_a_reader_who_had_enough_ends_it_quietly():
    script = " ".join([*COMMAND, "--nodes 2 --speed 0 --interval 1m --duration 10d | head -3"])
    result = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert len(result.stdout.splitlines()) == 3
    assert result.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_summary(number):
    with subprocess.Popen(
        [*COMMAND, "--nodes", "2", "--duration", "300d", "--interval", "1m"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert LINE.match(process.stdout.readline().rstrip())
        process.send_signal(number)
        rest, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")
    assert "of virtual time: 2 nodes x 8 GPUs" in rest


def test_a_signal_ends_the_json_summary_in_the_middle():
    with subprocess.Popen(
        [*COMMAND, "--nodes", "2", "--duration", "300d", "-o", "json"], stdout=subprocess.PIPE, text=True
    ) as process:
        wait_until_it_listens(process.pid)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert 0 <= json.loads(text)["duration"] < 300 * 86400


# -- bad usage


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--policy", "topology-aware"], "binpack or spread for nodes"),
        (["--policy", "binpack/sideways"], "binpack, spread, mutex, numa, topology-aware"),
        (["--policy", "binpack/"], "NODE/GPU with binpack or spread for nodes"),
        (["--duration", "90"], "90s, 30m, 8h or 1d"),
        (["--duration", "0h"], "90s, 30m, 8h or 1d"),
        (["--duration", "9999d"], "up to 366d"),
        (["--interval", "-5m"], "90s, 30m, 8h or 1d"),
        (["--speed", "-1"], "a number from 0 up"),
        (["--speed", "nan"], "a number from 0 up"),
        (["--nodes", "0"], "1<=x<=5000"),
        (["--gpus", "17"], "1<=x<=16"),
        (["--seed", "-1"], "x>=0"),
        (["-o", "text"], "'table', 'json', 'yaml'"),
        (["surplus"], "unexpected extra argument"),
    ],
)
def test_bad_values_are_refused_with_what_is_allowed(arguments, allowed, capsys):
    from tonnage.cli.up import command

    with pytest.raises(SystemExit) as ended:
        command.main(arguments, prog_name="tonnage up")
    assert ended.value.code == 2
    assert allowed in " ".join(capsys.readouterr().err.split())


def test_usage_errors_end_the_process_with_status_2():
    result = up("--policy", "sideways")
    assert (result.returncode, result.stdout) == (2, "")
    assert "there is no policy sideways" in result.stderr


def test_durations_may_be_put_together():
    from tonnage.cli.up import command

    parameters = command.make_context("up", ["--duration", "1h30m", "--interval", "0.5m"]).params
    assert (parameters["duration"], parameters["interval"]) == (5400.0, 30.0)


# -- the view as text


@pytest.mark.parametrize("cluster", [(1, 1), (12, 8), (12, 16), (70, 8)])
def test_the_view_fits_the_screen_it_is_made_for(cluster):
    replay = invented(*cluster, 1)
    for hour in (0.0, 1.0):
        replay.advance(hour * 3600)
        for width, height in ((120, 36), (80, 24), (200, 60), (60, 15), (33, 9), (10, 3), (1, 1)):
            lines = screen(replay, width, height)
            assert len(lines) <= height
            assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("page", list(Overlay))
def test_every_page_fits_the_screen_with_its_legend(page):
    replay = invented(2, 2, 1)
    replay.advance(4 * 3600)
    controls = Controls(has_keys=True, page=page, chosen=next(iter(replay.waiting)))
    for width, height in ((120, 36), (80, 24), (200, 60), (60, 15), (33, 9), (10, 3), (1, 1)):
        lines = screen(replay, width, height, controls)
        assert len(lines) <= height
        assert max(map(cell_len, lines)) <= width
        if height >= 12 and width >= 60:
            assert "? help  q quit" in lines[-1]


def test_the_reason_of_the_chosen_pod_is_shown_whole():
    replay = invented(12, 8, 1)
    replay.advance(6 * 3600)
    controls = Controls(has_keys=True)
    run = source(replay)
    reasons = {pod.task.key: replay.why(pod.task).partition("fit: ")[2] for pod in replay.waiting.values()}
    long = max(reasons, key=lambda key: len(reasons[key]))
    controls.press("j", run)
    while controls.chosen != long:
        controls.press("j", run)
    width = 92
    assert reasons[long] not in "\n".join(screen(replay, width, 30, Controls()))
    shown = " ".join(" ".join(screen(replay, width, 30, controls)).split())
    assert reasons[long] in shown
    controls.press("\r", run)
    details = " ".join(" ".join(screen(replay, 60, 50, controls)).split())
    for one in replay.placer.about(replay.waiting[long].task).rejected:
        assert " ".join(f"{one.reason}: {one.message}".split()) in details


def test_waiting_pods_are_sorted_and_filtered():
    replay = invented(4, 4, 1)
    replay.advance(6 * 3600)
    run = source(replay)
    controls = Controls()

    def names() -> list[str]:
        return [pod.task.key for pod in controls.items(run)]

    assert names() == [pod.task.key for pod in replay.queue(10_000)]
    controls.press("s", run)
    assert names() == [pod.task.key for pod in sorted(replay.waiting.values(), key=lambda p: (p.since, p.task.key))]
    controls.press("s", run)
    counts = [int(asks(pod.task).partition(" ")[0]) for pod in controls.items(run)]
    assert counts == sorted(counts, reverse=True)
    controls.press("s", run)
    assert names() == sorted(replay.waiting)
    for key in "/team-ax\x7f\r":
        controls.press(key, run)
    assert names() == sorted(key for key in replay.waiting if "team-a" in key)
    controls.press("\x1b", run)
    assert len(names()) == len(replay.waiting)


def test_while_paused_no_virtual_time_passes():
    watch = Watch()
    run = LiveRun(240.0, watch.read, watch.sleep)
    run.replay = invented(2, 2, 0)
    run.until(240.0)
    run.pause()
    assert not run.until(9999.0, deadline=watch.now + 60)
    assert run.replay.now == pytest.approx(240.0)
    run.pause()
    run.faster()
    run.until(9999.0, deadline=watch.now + 1)
    assert run.replay.now == pytest.approx(720.0)


def test_a_chosen_pod_that_was_placed_says_where_it_runs():
    replay = invented(2, 2, 0)
    replay.advance(3600)
    key = next(iter(replay.runs))
    text = "\n".join(screen(replay, 100, 30, Controls(page=Overlay.DETAILS, chosen=key)))
    assert re.search(r"It runs on \w+-\d+ for \w+, after \w+ of waiting", text)


def test_the_view_says_what_runs_what_waits_and_why():
    cluster = scenario(node("a", gpus=2, gpu_memory=8000), node("b", gpus=2, gpu_memory=8000))
    wanted = pod("big", 2, annotations={"nvidia.com/use-gputype": "A100"})
    arrivals = [Arrival(0, 999, pod(f"p{n}", 1, memory=2000)) for n in range(2)] + [Arrival(0, 999, pod("w", 1))]
    arrivals += [Arrival(60, 999, pod("v", 1)), Arrival(120, 9, wanted)]
    replay = Replay(cluster, ClassPlacer(cluster, session(cluster, gpu_policy="binpack")), arrivals)
    replay.advance(240)
    text = "\n".join(screen(replay, 120, 30))
    assert "00:04:00 of 8h" in text
    assert "12 pods/s decided at 240× real time, 85 µs each" in text
    assert re.search(r"a +A100-SXM4-40GB  ██████████ █████····· +75%", text)
    assert re.search(r"b +A100-SXM4-40GB  ·········· ██████████ +50%", text)
    assert re.search(r"1 waiting +wants +since", text)
    assert re.search(r"default/big +2 GPU of A100 +2m  ", text)
    assert "4 running, 1 waiting, 0 finished, 5 arrived" in text
    assert first_number(r"GPU memory +([\d.]+)%", text) == 62.5


@pytest.mark.parametrize(("speed", "pace", "shown"), [(240, 235, "240×"), (240, 90, "90×"), (0, 5123.4, "5,123×")])
def test_the_view_shows_the_speed_that_is_kept(speed, pace, shown):
    run = SteadyRun(invented(1, 1, 0), speed, pace)
    header = render(ReplaySource(run, 60, "binpack/spread", 0), 120, 36).renderables[0]
    assert f" at {shown} real time" in str(header)


def test_when_nothing_waits_the_view_says_so():
    replay = invented(2, 2, 0)
    assert "nothing waits" in "\n".join(screen(replay, 100, 30))


def test_nodes_stand_side_by_side_when_there_are_many():
    lines = screen(invented(40, 8, 0), 120, 36)
    assert any(len(re.findall(r"-\d\d\d +········ ", line)) == 4 for line in lines)


def test_pools_are_summed_up_when_there_are_too_many_nodes():
    text = "\n".join(screen(invented(400, 8, 0), 120, 36))
    assert re.search(r"H100 80GB HBM3 .+ 180 nodes +1,440 GPUs +1,440 idle", text)
    shown = len(re.findall(r"[a-z0-9]+-\d\d\d +········ ", text))
    assert first_number(r"… and ([\d,]+) more nodes", text) == 400 - shown


def test_the_clock_counts_days():
    assert clock(3 * 3600 + 61) == "03:01:01"
    assert clock(86400 + 5) == "1d 00:00:05"


@pytest.mark.parametrize(
    ("wants", "text"),
    [
        ({"gpus": 1}, "1 GPU"),
        ({"gpus": 1, "memory": 4096, "cores": 20}, "1 GPU 4G 20% cores"),
        ({"gpus": 2, "percentage": 50, "cores": 50}, "2 GPU 50%"),
        ({"cpu": "500m"}, "0.5 CPU"),
    ],
)
def test_what_a_pod_wants_in_a_few_words(wants, text):
    assert asks(make_task(pod("p", **wants), default_vendors())) == text


def test_bars_grow_in_eighths():
    assert bar(0.5, 4).plain == "██··"
    assert bar(0.47, 4).plain == "█▉··"
    assert bar(1.0, 4).plain == "████"
    assert bar(0.0, 4, used=False).plain == "····"
    assert bar(0.001, 1).plain == "▁"
    assert bar(1.0, 1).plain == "█"
