"""`tonnage check`, and `tonnage schedule --config`."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import CLUSTER, COMMAND, decided, tonnage
from tests.config.device_texts import FULL, NVIDIA
from tests.config.texts import KAI_DEFAULT, VOLCANO_BUILT_IN, VOLCANO_HELM, with_plugin
from tests.waiting import PATIENCE

BROKEN = "actions: alocate, shuffle\ntiers:\n- plugins:\n  - name: binpak\n"


def written(folder: Path, text: str, name: str = "scheduler.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


# -- check


def test_volcanos_built_in_default_is_valid_without_a_word(tmp_path: Path) -> None:
    path = written(tmp_path, VOLCANO_BUILT_IN)
    done = tonnage("check", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{path}: valid\n", "")


@pytest.mark.parametrize("text", [VOLCANO_HELM, KAI_DEFAULT])
def test_the_peers_stock_files_are_valid_with_warnings(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    done = tonnage("check", path)
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first == f"{path}: valid"
    assert rest
    assert all(line.startswith(f"{path}:") and ": warning: " in line for line in rest)


def test_errors_go_to_standard_error_with_status_2(tmp_path: Path) -> None:
    path = written(tmp_path, BROKEN)
    done = tonnage("check", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[:3] == [
        f"{path}: not valid, 2 errors",
        f"{path}:1:10: there is no action alocate; did you mean allocate?",
        f"{path}:4:11: there is no plugin binpak; did you mean binpack?",
    ]
    assert done.stderr.splitlines()[3].startswith(f"{path}:1:19: warning: the action shuffle")


def test_json_for_machines(tmp_path: Path) -> None:
    path = written(tmp_path, BROKEN)
    done = tonnage("check", path, "-o", "json")
    assert (done.returncode, done.stderr) == (2, "")
    found = json.loads(done.stdout)
    assert list(found) == ["file", "valid", "errors", "warnings"]
    assert (found["file"], found["valid"]) == (str(path), False)
    assert found["errors"][0] == {
        "line": 1,
        "column": 10,
        "message": "there is no action alocate; did you mean allocate?",
    }
    assert found["warnings"][0]["line"] == 1


def test_several_files_are_all_checked(tmp_path: Path) -> None:
    good, bad = written(tmp_path, with_plugin("binpack"), "good.yaml"), written(tmp_path, BROKEN, "bad.yaml")
    done = tonnage("check", bad, good, tmp_path / "none.yaml")
    assert (done.returncode, done.stdout) == (2, f"{good}: valid\n")
    assert f"{tmp_path / 'none.yaml'}: there is no such file" in done.stderr


def test_standard_input() -> None:
    done = tonnage("check", "-", stdin=BROKEN)
    assert done.returncode == 2
    assert "standard input:1:10: there is no action alocate" in done.stderr


@pytest.mark.parametrize("output", [[], ["-o", "json"]])
def test_the_default_configuration_is_one_that_check_accepts(output: list[str]) -> None:
    defaults = tonnage("check", "--defaults", *output)
    assert defaults.returncode == 0
    done = tonnage("check", "-", stdin=defaults.stdout)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-: valid\n", "")


@pytest.mark.parametrize("arguments", [[], ["--defaults", "x.yaml"], ["-", "-"]])
def test_wrong_usage(arguments: list[str]) -> None:
    done = tonnage("check", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage:" in done.stderr


def test_asking_for_help_does_not_import_the_engine() -> None:
    done = subprocess.run(
        [COMMAND[0], "-X", "importtime", *COMMAND[1:], "check", "--help"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert "--defaults" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not {"numpy", "msgspec", "yaml", "tonnage.config"} & imported


# -- schedule --config


def test_the_plugins_of_the_file_decide_and_its_warnings_go_to_standard_error(tmp_path: Path) -> None:
    path = written(tmp_path, VOLCANO_HELM)
    done = tonnage("schedule", "-f", CLUSTER, "--config", path, "-o", "json")
    assert done.returncode == 0
    assert f"{path}:15:11: warning: nodeorder with leastrequested" in done.stderr
    scored = [decision for decision in json.loads(done.stdout)["decisions"] if decision["scores"]]
    assert all(set(scores) == {"total", "nodeorder", "binpack"} for one in scored for scores in one["scores"].values())


def test_the_default_configuration_decides_as_no_configuration(tmp_path: Path) -> None:
    path = written(tmp_path, tonnage("check", "--defaults").stdout)
    assert decided("-f", CLUSTER, "--config", path) == decided("-f", CLUSTER)


def test_a_flag_counts_more_than_the_file(tmp_path: Path) -> None:
    text = with_plugin("nodepolicy", "arguments: {policy: spread}")
    path = written(tmp_path, text)
    spread = ["--node-scheduler-policy", "spread"]
    packed = ["--node-scheduler-policy", "binpack"]
    assert decided("-f", CLUSTER, "--config", path) == decided("-f", CLUSTER, *spread)
    assert decided("-f", CLUSTER, "--config", path, *packed) == decided("-f", CLUSTER)
    assert decided("-f", CLUSTER) != decided("-f", CLUSTER, *spread)


def test_a_broken_configuration_ends_with_all_its_errors(tmp_path: Path) -> None:
    path = written(tmp_path, BROKEN)
    done = tonnage("schedule", "-f", CLUSTER, "--config", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}:1:10: there is no action alocate" in done.stderr
    assert f"{path}:4:11: there is no plugin binpak" in done.stderr


def test_standard_input_is_read_once() -> None:
    done = tonnage("schedule", "-f", "-", "--config", "-")
    assert done.returncode == 2
    assert "standard input can be read only once" in done.stderr


# -- device configurations


def test_a_device_configuration_is_recognised_and_checked(tmp_path: Path) -> None:
    good, bad = written(tmp_path, NVIDIA, "good.yaml"), written(tmp_path, NVIDIA + "  defaultMem: 5\n", "bad.yaml")
    done = tonnage("check", good, bad)
    assert done.returncode == 2
    assert done.stdout == f"{good}: valid\n"
    assert done.stderr.splitlines() == [
        f"{bad}: not valid, 1 error",
        f"{bad}:4:3: nvidia has no key defaultMem; did you mean defaultMemory?",
    ]


def test_a_device_configuration_may_come_from_standard_input_and_go_to_a_machine() -> None:
    done = tonnage("check", "-", "-o", "json", stdin=FULL)
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["valid"] is True
    assert found["warnings"] == []
