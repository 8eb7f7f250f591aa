"""`tonnage lab` as a user runs it: pods run, second ones per node too, and end; nothing is left behind."""

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND
from tests.e2e.labs import Pods, lab, running
from tests.lab.processes import children, is_alive
from tests.paths import ROOT
from tests.waiting import PATIENCE, until
from tonnage.lab import parts
from tonnage.lab.api import pods_path


def all_run(pods: Pods) -> bool:
    return bool(pods) and all(one["status"]["phase"] in ("Running", "Succeeded") for one in pods.values())


def started(pods: Pods) -> set[str]:
    return {name for name, one in pods.items() if one["status"]["phase"] in ("Running", "Succeeded")}


def nodes_of(pods: Pods) -> Counter[str]:
    return Counter(one["spec"].get("nodeName", "") for one in pods.values())


@pytest.mark.parametrize("server", ["--scheduler", "--extender"])
def test_pods_that_share_gpus_run_many_to_a_node(server: str) -> None:
    with running("--nodes", "6", "--gpus", "4", server, "--sample", "sharing") as found:
        pods = found.until_pods(all_run, "not all pods run")
        assert len(pods) == found.said["pods"] == 24
        assert max(nodes_of(pods).values()) > 4, "they are packed"
        ready = [one["status"].get("conditions", ()) for one in found.api.get("/api/v1/nodes")["items"]]
        assert [[(one["type"], one["status"]) for one in conditions] for conditions in ready] == [
            [("Ready", "True")]
        ] * 6


def test_gangs_run_whole_and_the_fourth_when_another_has_ended() -> None:
    with running("--nodes", "3", "--gpus", "2", "--no-kube-scheduler", "--scheduler", "--sample", "gangs") as found:
        pods = found.until_pods(lambda now: len(started(now)) == 3, "less")
        assert len(pods) == 4
        assert len(found.api.get("/apis/scheduling.volcano.sh/v1beta1/podgroups")["items"]) == 4
        (fourth,) = pods.keys() - started(pods)
        # The others end by themselves after a while; nobody has to wait for that.
        found.api.delete(f"{pods_path()}/{min(started(pods))}")
        found.until_pods(lambda now: fourth in started(now), "the fourth does not start")
        found.until_pods(lambda now: Counter(one["status"]["phase"] for one in now.values())["Succeeded"] == 3, "stuck")


def test_queues_get_their_share_and_all_pods_run_in_the_end() -> None:
    with running("--nodes", "3", "--gpus", "2", "--scheduler", "--sample", "queues") as found:
        pods = found.until_pods(lambda now: len(started(now)) == 6, "not full")
        assert Counter(name.partition("-")[0] for name in started(pods)) == {"research": 4, "serving": 2}
        for name in started(pods):
            found.api.delete(f"{pods_path()}/{name}")
        found.until_pods(lambda now: len(now) == len(pods) - 6 and all_run(now), "some never run")


def test_pods_of_ones_own_end_as_they_say_and_go_when_they_are_deleted() -> None:
    spec = {"containers": [{"name": "main", "image": "any"}]}
    notes = {"tonnage.io/lab-run-seconds": "0.5"}
    kinds: dict[str, dict[str, Any]] = {
        "ends": {"metadata": {"annotations": notes}, "spec": {"restartPolicy": "Never", **spec}},
        "late": {"spec": {"activeDeadlineSeconds": 1, **spec}},
        "stays": {"metadata": {"annotations": notes}, "spec": spec},
        "wrong": {"metadata": {"annotations": {"tonnage.io/lab-run-seconds": "soon"}}, "spec": spec},
    }
    with running("--nodes", "1", "--bin-dir", str(parts.find())) as found:
        for name, made in kinds.items():
            meta = {**made.get("metadata", {}), "name": name}
            found.api.create(pods_path(), {"apiVersion": "v1", "kind": "Pod", **made, "metadata": meta})

        def phases(now: Pods) -> dict[str, str]:
            return {name: one["status"]["phase"] for name, one in now.items()}

        ended = {"ends": "Succeeded", "late": "Failed", "stays": "Running", "wrong": "Failed"}
        pods = found.until_pods(lambda now: phases(now) == ended, "they do not end")
        assert pods["late"]["status"]["reason"] == "DeadlineExceeded"
        assert "must be a number of seconds such as 30, not 'soon'" in pods["wrong"]["status"]["message"]
        assert found.said["tonnage"] is None
        found.api.delete(f"{pods_path()}/stays", grace=600)
        found.until_pods(lambda now: "stays" not in now, "it stays for its whole grace period")


def test_what_is_started_and_what_to_try_next_is_told() -> None:
    with lab("--nodes", "2", "--sample", "queues") as process:
        assert process.stdout
        assert process.stderr
        text = ""
        while not text.endswith("Ctrl-C ends the cluster and removes everything.\n"):
            line = process.stdout.readline()
            assert line, text + process.stderr.read()
            text += line
        assert text.startswith("A practice cluster with 2 nodes x 8 GPUs runs at https://127.0.0.1:")
        steps = [line.strip() for line in text.splitlines() if line.startswith("  ")]
        variable, _, kubeconfig = steps[0].removeprefix("export ").partition("=")
        (scheduler,) = [step for step in steps if " scheduler --http-bind " in step]
        assert Path(scheduler.rpartition(" --config ")[2]).is_file()
        (compare,) = [step for step in steps if step.endswith(" debug compare")]
        environment = {**os.environ, variable: kubeconfig}
        done = subprocess.run(
            f"{compare} --seconds 0", shell=True, env=environment, capture_output=True, text=True, cwd=ROOT, check=False
        )
        assert "2 nodes, 8 pods" in done.stdout, done.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        said = process.stderr.read().splitlines()
    assert [line for line in said if line.startswith("starting")] == [
        "starting etcd",
        "starting kube-apiserver",
        "starting kube-scheduler",
    ]


def test_interrupted_while_it_starts_it_leaves_nothing_behind(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in parts.PROGRAMS:
        (programs / name).write_text("#!/bin/sh\nexec sleep 600\n")
        (programs / name).chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [*COMMAND, "lab", "--bin-dir", str(programs)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr
        assert process.stderr.readline() == "starting etcd\n"
        until(lambda: children(process.pid), "no program is started")
        started = children(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert not list(temporary.iterdir())
    assert not any(is_alive(program) for program in started)


def test_it_says_so_and_fails_when_a_program_dies() -> None:
    with lab("--nodes", "0") as process:
        assert process.stdout
        assert process.stderr
        assert "practice cluster" in process.stdout.readline()
        os.kill(children(process.pid)[0], signal.SIGKILL)
        assert process.wait(PATIENCE) == 1
        assert "etcd ended with status -9; the end of its log" in process.stderr.read()


@pytest.mark.kubelet
def test_a_real_node_executes_pods_that_share_its_invented_cards() -> None:
    with running("--nodes", "2", "--gpus", "4", "--kubelet", "--extender") as found:
        node = found.said["kubelet"]["node"]
        made = json.loads(Path(found.said["kubelet"]["pod"]).read_text())
        for number in range(3):
            # They ask for different amounts, so that one with another's values would be noticed.
            made["metadata"]["name"] = f"try-{number}"
            made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = 4000 + number
            found.api.create(pods_path(), made)
        pods = found.until_pods(lambda now: len(now) == 3 and all_run(now), "they do not run")
        assert nodes_of(pods) == {node: 3}
        folder = Path(found.said["kubeconfig"]).parent / node / "pod-logs"
        for name, pod in pods.items():
            (log,) = (folder / f"default_{name}_{pod['metadata']['uid']}" / "main").glob("*.log")
            limit = f'"CUDA_DEVICE_MEMORY_LIMIT_0":"{4000 + int(name[-1])}m"'
            until(lambda log=log, limit=limit: limit in log.read_text(), "it was given something else", log.read_text)
        labels = found.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
        assert labels["tonnage.io/invented-cards"] == "true"
