"""One command line: the same words mean the same on every command, and shells complete them."""

import json
import os
import pty
import shlex
import subprocess
from collections import defaultdict
from pathlib import Path

import click
import pytest
import yaml

from tests.cli.command import CLUSTER, COMMAND, decided, schedule, tonnage
from tests.cli.tree import ON_NODES, PAGES, SERVERS, commands
from tests.paths import ROOT
from tests.waiting import PATIENCE
from tonnage.cli.output import coloured

FGD = ROOT / "examples" / "fgd.yaml"


def options() -> dict[str, dict[str, click.Option]]:
    """The flags of each command by spelling, hidden ones left out."""
    return {
        name: {
            spelling: option
            for option in command.params
            if isinstance(option, click.Option) and not option.hidden
            for spelling in option.opts
        }
        for name, command in commands()
    }


def is_run(name: str, command: click.Command) -> bool:
    """Whether the command does something itself, and not only one of its commands."""
    return not isinstance(command, click.Group) or command.invoke_without_command


# -- the same words


def test_every_command_but_the_servers_writes_for_machines() -> None:
    found = options()
    for name, command in commands():
        if not is_run(name, command) or name in (*SERVERS, *ON_NODES, *PAGES):
            continue
        kind = found[name]["-o"].type
        assert isinstance(kind, click.Choice)
        assert {"json", "yaml"} <= set(kind.choices) <= {"table", "wide", "json", "yaml"}, name
        assert found[name]["--output"] is found[name]["-o"]


def test_commands_that_decide_take_a_policy_and_a_configuration() -> None:
    found = options()
    for name in ("schedule", "up", "simulate", "extender", "scheduler"):
        assert {"--policy", "--config"} <= found[f"tonnage {name}"].keys(), name


def test_servers_share_their_flags() -> None:
    found = options()
    shared = {"--http-bind", "--leader-elect", "--leader-elect-resource-name", "--debug", "--authorize-metrics"}
    shared |= {"--cert-file", "--key-file", "--kube-qps", "--kube-burst", "--kubeconfig", "--device-config-file"}
    for name in SERVERS:
        assert shared <= found[name].keys(), name


def test_a_flag_takes_the_same_kind_of_value_everywhere() -> None:
    kinds = defaultdict(set)
    for flags in options().values():
        for spelling, option in flags.items():
            kinds[spelling].add(option.metavar or option.type.name)
    # simulate reads a trace's nodes from a file, and takes several policies, a file's among them
    assert {spelling: sorted(words) for spelling, words in kinds.items() if len(words) > 1} == {
        "--nodes": ["FILE", "integer range"],
        "--policy": ["NAME", "NAME|FILE"],
        # The lab starts one; commands that look at a cluster take the configuration of a running one.
        "--scheduler": ["URL", "boolean"],
    }


def test_switches_of_servers_are_given_alone_or_with_a_value(tmp_path: Path) -> None:
    nowhere = ("--kubeconfig", str(tmp_path / "none"))
    for given in ("--leader-elect", "--leader-elect=false", "--debug", "--debug=false", "--no-leader-elect"):
        assert "there is no such file" in tonnage("scheduler", given, *nowhere).stderr
    assert "'maybe' is neither true nor false" in tonnage("scheduler", "--leader-elect=maybe").stderr


# -- policies by name


@pytest.mark.parametrize("policy", ["fgd", "best-fit", "spread", "binpack/numa,spread", "random"])
def test_schedule_goes_by_a_policy_of_simulate(policy: str) -> None:
    assert decided("-f", CLUSTER, "--policy", policy)["serving/chat-1"]["outcome"] == "placed"


def test_a_named_policy_decides_as_its_flags_and_files_do() -> None:
    pair = ("--node-scheduler-policy", "spread", "--gpu-scheduler-policy", "binpack")
    assert schedule("-f", CLUSTER, "--policy", "spread/binpack") == schedule("-f", CLUSTER, *pair)
    scores = decided("-f", CLUSTER, "--policy", "fgd")["serving/chat-1"]["scores"]
    assert all("fragmentation" in parts for parts in scores.values())


def test_hamis_policies_count_more_than_a_configuration_and_others_are_one() -> None:
    changed = decided("-f", CLUSTER, "--config", FGD, "--policy", "spread")["serving/chat-1"]["scores"]
    assert all({"nodepolicy", "fragmentation"} <= parts.keys() for parts in changed.values())
    done = tonnage("schedule", "-f", CLUSTER, "--config", FGD, "--policy", "best-fit")
    assert done.returncode == 2
    assert "--policy best-fit is a configuration of its own; give it or --config" in done.stderr
    assert "give either --policy or --config" in tonnage("scheduler", "--config", FGD, "--policy", "fgd").stderr


@pytest.mark.parametrize("command", ["schedule -f examples/cluster.yaml", "up", "scheduler", "extender"])
def test_a_policy_that_is_none_is_refused_with_the_nearest(command: str) -> None:
    done = tonnage(*command.split(), "--policy", "fdg")
    assert done.returncode == 2
    assert "there is no policy fdg; did you mean fgd?" in done.stderr


# -- output


@pytest.mark.parametrize(
    "command",
    [
        f"schedule -f {CLUSTER}",
        "check --defaults",
        f"check -f {FGD}",
        "plugins",
        "up --nodes 2 --gpus 2 --duration 30m",
        "manifests webhook",
    ],
)
def test_json_and_yaml_say_the_same(command: str) -> None:
    as_json = tonnage(*shlex.split(command), "-o", "json")
    as_yaml = tonnage(*shlex.split(command), "-o", "yaml")
    assert (as_json.returncode, as_yaml.returncode) == (0, 0)
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)


def in_terminal(*arguments: str, **environment: str) -> str:
    """What a command writes to a terminal."""
    master, slave = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=ROOT, stdout=slave, stderr=slave, env={**kept, "TERM": "xterm", **environment}
    ) as process:
        os.close(slave)
        text = b""
        while True:
            try:
                text += os.read(master, 65536)
            except OSError:
                break
        process.wait(PATIENCE)
    os.close(master)
    return text.decode().replace("\r\n", "\n")


def test_tables_have_colours_on_a_terminal_only() -> None:
    arguments = ("schedule", "-f", str(CLUSTER))
    seen = in_terminal(*arguments)
    assert "\x1b[1mPOD " in seen
    assert "\x1b[32mplaced\x1b[0m" in seen
    assert "\x1b[31munschedulable\x1b[0m" in seen
    plain = tonnage(*arguments).stdout
    assert "\x1b" not in plain
    assert click.unstyle(seen) == plain
    for asked in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert in_terminal(*arguments, **asked) == plain
    assert "\x1b[32mvalid\x1b[0m" in in_terminal("check", str(FGD))


def test_colours_change_no_letter_of_a_table() -> None:
    text = schedule("-f", CLUSTER, "-o", "wide")
    assert click.unstyle(coloured(text)) == text


# -- completion


def completed(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    asked = {"_TONNAGE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    script = "import sys; sys.argv[0] = 'tonnage'; from tonnage.cli.main import main; main()"
    done = subprocess.run(
        [COMMAND[0], "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, **asked},
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tonnage sch", ["plain,schedule", "plain,scheduler"]),
        ("tonnage debug ", ["plain,compare"]),
        ("tonnage schedule --fail", ["plain,--fail-on-unschedulable"]),
        ("tonnage schedule -o ", ["plain,table", "plain,wide", "plain,json", "plain,yaml"]),
        ("tonnage schedule -f ex", ["file,ex"]),
        ("tonnage check sch", ["file,sch"]),
        ("tonnage up --policy bin", ["plain,binpack"]),
        ("tonnage simulate --policy f", ["plain,fgd"]),
    ],
)
def test_bash_completes_commands_flags_values_and_files(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_on_the_page_gives_a_script_for_the_shell(shell: str) -> None:
    assert f"_TONNAGE_COMPLETE={shell}_source tonnage" in (ROOT / "docs/commands.md").read_text()
    script = "import sys; sys.argv[0] = 'tonnage'; from tonnage.cli.main import main; main()"
    done = subprocess.run(
        [COMMAND[0], "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, "_TONNAGE_COMPLETE": f"{shell}_source"},
    )
    assert f"_TONNAGE_COMPLETE={shell}_complete" in done.stdout
