"""`tonnage explain` on files, by a server and as a plugin of kubectl; on an API server it is tested under tests/e2e."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.command import CLUSTER, EXAMPLES, manifest, tonnage
from tests.scenario import gpu, node, pod, running
from tests.server.strangers import serving


def explain(*words: str | Path, stdin: str | bytes = "") -> str:
    done = tonnage("explain", *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_people_get_the_answer_first_then_numbers_then_what_helps() -> None:
    text = explain("research/train-triple", "-f", CLUSTER)
    lines = text.splitlines()
    assert lines[0] == "research/train-triple waits: 0 of 4 nodes fit: 2 CardInsufficientMemory, 2 NodeUnregistered"
    order = [text.index(part) for part in ("waits:", "Of 4 nodes:", "Nearest:", "What would help", "$ kubectl")]
    assert order == sorted(order)


def test_programs_get_the_record_as_json_and_yaml() -> None:
    words = ("serving/llm-70b", "-f", CLUSTER, "-o")
    found = json.loads(explain(*words, "json"))
    assert (found["kind"], found["outcome"], found["nodes"]) == ("pod", "unschedulable", 4)
    assert found["suggestions"][0]["kind"] == "request"
    (same,) = yaml.safe_load_all(explain(*words, "yaml"))
    assert same["funnel"] == found["funnel"]


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        (["pod", "train-triple", "-n", "research"], "research/train-triple waits"),
        (["pod/train-triple", "-n", "research"], "research/train-triple waits"),
        (["node", "gpu-a100"], "node gpu-a100: 2 pods on it"),
        (["gpu", "GPU-a100-0"], "gpu GPU-a100-0: NVIDIA A100-SXM4-40GB on gpu-a100"),
        (["gpu", "gpu-a100/0"], "gpu GPU-a100-0: NVIDIA A100-SXM4-40GB on gpu-a100"),
        (["queue", "default"], "queue default: 4 pods run, 2 wait"),
        (["serving/chat-0"], "serving/chat-0 runs on gpu-a100"),
        (["job", "research/train-whole"], "research/train-whole fits now"),
    ],
)
def test_every_kind_has_an_answer(words: list[str], begin: str) -> None:
    assert explain(*words, "-f", CLUSTER).startswith(begin)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["trian-triple", "-n", "research"], "there is no pod trian-triple in namespace research; did you mean"),
        (["nodes", "gpu-a10"], "there is no node gpu-a10; did you mean gpu-a100"),
        (["pot", "x"], "'pot' is not one of pod, job, queue, node, gpu"),
        (["queue"], "which queue? Give its name after the kind."),
        ([], "give the name of a pod, or a kind and a name, before -f"),
        (["a", "-w"], "--watch follows a live cluster"),
        (["a", "--server", "http://127.0.0.1:1"], "give either -f or --server"),
    ],
)
def test_a_question_without_an_answer_is_bad_input(words: list[str], told: str) -> None:
    done = tonnage("explain", *words, "-f", CLUSTER)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_names_with_escape_sequences_are_shown_as_text() -> None:
    name = "a\x1b[31m"
    held = running("x\x1b[2J", on=name, gpu="GPU-1", memory=7900)
    objects = [node(name, gpus=[gpu("GPU-1")]), held, pod("p", 1, memory=500)]
    text = explain("p", "-f", "-", stdin=manifest(*objects))
    assert "\x1b" not in text
    assert "a?[31m lacks 400 MiB" in text
    done = tonnage("explain", "\x1b[2Jq", "-f", "-", stdin=manifest(*objects))
    assert "\x1b" not in done.stderr
    assert done.returncode == 2


def test_a_snapshot_is_explained_by_the_configuration_in_it() -> None:
    config = (EXAMPLES / "reclaim-config.yaml").read_text()
    said = {"config.yaml": config, "now": "2026-01-31T12:00:00Z", "version": "0.0.1"}
    note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tonnage-snapshot"}, "data": said}
    text = (EXAMPLES / "reclaim.yaml").read_text() + "\n---\n" + yaml.safe_dump(note)
    waiting = json.loads(tonnage("schedule", "-f", EXAMPLES / "reclaim.yaml", "-o", "json").stdout)["decisions"][0]
    found = json.loads(explain(waiting["pod"], "-f", "-", "-o", "json", stdin=text))
    assert not [one for one in found.get("notes", ()) if "HAMi's policies" in one]
    assert any("0.0.1" in one for one in found["notes"])
    found = json.loads(explain(waiting["pod"], "-f", "-", "-o", "json", "--policy", "spread", stdin=text))
    assert any("0.0.1" in one for one in found["notes"]), "also if the snapshot's configuration does not count"


def test_pods_that_controllers_would_make_are_explained_too() -> None:
    made = json.loads(tonnage("schedule", "-f", EXAMPLES / "controllers.yaml", "-o", "json").stdout)["decisions"]
    assert explain(made[0]["pod"], "-f", EXAMPLES / "controllers.yaml").startswith(made[0]["pod"])


def test_a_server_is_asked_and_its_words_are_passed_on() -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        name, namespace = request.path_params["name"], request.query_params["namespace"]
        if name == "odd":
            return PlainTextResponse("[]")
        if name != "p/q":
            return PlainTextResponse(f"there is no pod {name}", 404)
        return Response(json.dumps({"kind": "pod", "name": f"{namespace}/p", "sentence": "waits: for rain"}))

    async def main() -> list[subprocess.CompletedProcess[str]]:
        async with serving(Starlette(routes=[Route("/explain/pod/{name:path}", answer)])) as port:
            url = f"http://127.0.0.1:{port}"
            return [
                await asyncio.to_thread(tonnage, "explain", name, "-n", "team", "--server", url)
                for name in ("p/q", "r", "odd")
            ]

    good, unknown, odd = asyncio.run(main())
    assert good.stdout.startswith("team/p waits: for rain")
    assert (unknown.returncode, "there is no pod r" in unknown.stderr) == (2, True)
    assert (odd.returncode, "something else than an explanation" in odd.stderr) == (1, True)
    away = tonnage("explain", "p", "--server", "http://127.0.0.1:9")
    assert (away.returncode, "does not answer" in away.stderr) == (1, True)
    assert tonnage("explain", "p", "--server", "nonsense").returncode == 2


def program(name: str, *words: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).parent / name, *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_installs_a_plugin_of_kubectl() -> None:
    assert program("kubectl-tonnage", "explain", "--help").startswith("Usage: kubectl tonnage explain ")


def test_kubectl_is_answered_what_it_completes() -> None:
    offered, directive = program("kubectl_complete-tonnage", "expl").splitlines()
    assert (offered.startswith("explain\tSay why a pod waits"), directive) == (True, ":4")
    assert program("kubectl_complete-tonnage", "explain", "").splitlines() == [
        "pod",
        "job",
        "queue",
        "node",
        "gpu",
        ":4",
    ]
    assert program("kubectl_complete-tonnage", "explain", "x", "-f", "").splitlines() == [":0"]
    assert program("kubectl_complete-tonnage", "explain", "--wat").startswith("--watch\t")
