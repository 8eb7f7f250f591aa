"""`tonnage schedule` as a newcomer, a pipe and a program meet it."""

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import CLUSTER, COMMAND, PROBLEMS, cycle, decided, manifest, places, schedule, tonnage
from tests.paths import ROOT
from tests.scenario import container, gpu, node, part, plain, pod, running
from tests.waiting import PATIENCE

SHARED = manifest(node("a", gpus=1), pod("p", 1, memory=1000))


def rows(text: str) -> dict[str, list[str]]:
    """The first table of an output, by pod."""
    header, *lines = text.partition("\n\n")[0].splitlines()
    assert header.split()[:4] == ["POD", "OUTCOME", "NODE", "DEVICES"]
    return {line.split()[0]: line.split(maxsplit=3)[1:] for line in lines}


# -- the table


def test_the_table_says_where_each_waiting_pod_goes_and_on_which_cards() -> None:
    assert rows(schedule("-f", CLUSTER)) == {
        "research/finetune-pair": ["placed", "gpu-a100", "GPU-a100-3 (36000 MiB, 50 %), GPU-a100-2 (36000 MiB, 50 %)"],
        "serving/chat-1": ["placed", "gpu-a100", "GPU-a100-0 (8192 MiB, 20 %)"],
        "research/notebook-ann": ["placed", "gpu-a100", "GPU-a100-1 (20480 MiB)"],
        "research/train-whole": ["placed", "gpu-v100", "GPU-v100-2 (32768 MiB, 100 %)"],
        "research/legacy-kernels": ["placed", "gpu-v100", "GPU-v100-1 (4096 MiB)"],
        "serving/ocr-1": ["placed", "npu-910b3", "NPU-910b3-1 (16384 MiB)"],
        "serving/llm-70b": ["unschedulable", "-", "-"],
        "research/train-triple": ["unschedulable", "-", "-"],
        "serving/web-0": ["placed", "cpu-1", "-"],
    }


def test_the_table_says_why_pods_wait_and_ends_with_a_summary() -> None:
    lines = schedule("-f", CLUSTER).splitlines()
    at = lines.index("serving/llm-70b waits:")
    assert lines[at + 1].startswith("  1 of 4 nodes InsufficientMemory, such as gpu-v100: memory: wants 128Gi, ")
    assert lines[at + 2] == "  2 of 4 nodes NodeUnregistered, such as cpu-1: no NVIDIA card is registered"
    assert "wants 60000 MiB on a card, at most 22528 of 40960 MiB are free" in lines[at + 3]
    assert lines[-1] == "7 pods placed, 2 waiting, on 4 nodes"


def test_wide_adds_the_scores_of_every_node_that_was_compared() -> None:
    text = schedule("-f", CLUSTER, "-o", "wide")
    assert text.splitlines()[0].split() == ["POD", "OUTCOME", "NODE", "DEVICES", "SCORE"]
    at = text.index("serving/chat-1 on gpu-a100:")
    assert "  gpu-a100 scores 11.64 (nodepolicy 11.64)\n  gpu-v100 scores 7 (nodepolicy 7)\n" in text[at:]


def test_long_ids_are_shortened_in_the_table_and_whole_in_the_wide_one() -> None:
    uuid = "GPU-936619fc-f6a1-74a8-0bc6-ecf6b3269313"
    text = manifest(node("a", gpus=[gpu(uuid)]), pod("p", 1, memory=1000))
    assert "GPU-936619fc…" in schedule("-f", "-", stdin=text)
    assert uuid in schedule("-f", "-", "-o", "wide", stdin=text)


def test_containers_are_named_where_several_of_a_pod_get_cards() -> None:
    several = pod("p", containers=[container("left", gpus=1, memory=10), container("right", gpus=1, memory=20)])
    text = schedule("-f", "-", stdin=manifest(node("a", gpus=2), several))
    assert "left: a/1 (10 MiB), right: a/0 (20 MiB)" in text


def test_nothing_to_do_is_said_in_one_line() -> None:
    assert schedule("-f", "-", stdin=manifest(node("a", gpus=1))) == "No pod waits on 1 node\n"


def test_an_input_without_nodes_is_refused() -> None:
    done = tonnage("schedule", "-f", "-", stdin=manifest(pod("p", 1)))
    assert (done.returncode, done.stdout) == (2, "")
    assert "there are no nodes; give them too, such as with kubectl get nodes -o yaml" in done.stderr


def test_an_input_of_unknown_kinds_is_refused_with_the_nearest_kind() -> None:
    done = tonnage("schedule", "-f", "-", stdin="apiVersion: v1\nkind: Pdo\nmetadata: {name: p}\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there are no objects that Tonnage reads: v1 Pdo is not read; did you mean Pod?" in done.stderr


def test_several_files_and_folders_after_one_flag(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "a.json").write_text(manifest(node("a")))
    (tmp_path / "nodes" / "deeper").mkdir()
    (tmp_path / "nodes" / "deeper" / "b.json").write_text(manifest(node("b")))
    for name in ("p", "q", "r"):
        (tmp_path / f"{name}.json").write_text(manifest(pod(name)))
    files = ["-f", *(tmp_path / name for name in ("nodes", "p.json", "q.json")), "-o", "json"]
    assert list(decided(*files, "-f", tmp_path / "r.json")) == ["default/p", "default/q", "default/r"]
    assert "3 pods placed, 0 waiting, on 2 nodes" in schedule("-Rf", tmp_path / "nodes", *tmp_path.glob("*.json"))


def test_the_later_of_two_files_counts_in_the_order_of_the_command_line(tmp_path: Path) -> None:
    for name, cpu in (("small", "1"), ("large", "9"), ("medium", "5")):
        (tmp_path / f"{name}.json").write_text(manifest(node("a", cpu=cpu)))
    (tmp_path / "p.json").write_text(manifest(pod("p", cpu="7")))
    words = ["-f", tmp_path / "p.json", tmp_path / "small.json", "-f", tmp_path / "large.json"]
    assert decided(*words)["default/p"]["outcome"] == "placed"
    assert decided(*words, tmp_path / "medium.json")["default/p"]["outcome"] == "unschedulable"


def test_pods_of_controllers_are_made_and_it_is_said(tmp_path: Path) -> None:
    deployment = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 2, template: {spec: {containers: [{name: main}]}}}
"""
    (tmp_path / "nodes.json").write_text(manifest(node("a")))
    (tmp_path / "web.yaml").write_text(deployment)
    done = tonnage("schedule", "-f", tmp_path)
    assert "2 pods placed, 0 waiting, on 1 node" in done.stdout
    assert done.stderr == "Made the pods that controllers would make: 2 of Deployments\n"


def test_control_characters_in_names_do_not_reach_the_terminal() -> None:
    text = schedule("-f", "-", stdin=manifest(node("a"), pod("\x1b[31mred\nsecond")))
    assert "\x1b" not in text
    assert "default/?[31mred?second" in text


def test_a_terminal_without_the_characters_gets_question_marks() -> None:
    text = manifest(node("a", gpus=[gpu("GPU-936619fc-f6a1-74a8")]), pod("p", 1, memory=1000))
    done = tonnage("schedule", "-f", "-", stdin=text, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0
    assert "GPU-936619fc? (1000 MiB)" in done.stdout


def test_cards_that_a_scheduler_wrote_off_are_left_out_and_it_says_so() -> None:
    written_off = node("a", gpus=1, annotations={"hami.io/node-handshake": "Deleted_2025-08-03 19:32:07"})
    document = cycle("-f", "-", stdin=manifest(written_off, pod("p", 1)))
    assert document["decisions"][0]["rejected"][0]["reason"] == "NodeUnregistered"
    (problem,) = document["problems"]
    assert problem["object"] == "Node/a"
    assert "the kubelet offers no nvidia.com/gpu; its registered cards (1) are left out" in problem["message"]


def test_many_equal_pods_that_wait_are_one_line_and_few_are_not() -> None:
    few = [pod(f"few-{number}", cpu="2", namespace="b") for number in range(3)]
    many = [pod(f"many-{number:03}", cpu="1", priority=1) for number in range(100)]
    other = [pod(f"other-{number}", cpu="3") for number in range(5)]
    text = manifest(node("a", cpu="2"), *few, *many, *other)
    shown = schedule("-f", "-", stdin=text)
    assert shown.count("default/many") == 4, "two that are placed; one line with the others, and their reasons"
    assert "default/many-002 and 97 more  unschedulable" in shown
    reason = "1 of 1 nodes InsufficientCpu, such as a: cpu: wants 1, 0 of 2 free"
    assert f"default/many-002 and 97 more wait:\n  {reason}\n" in shown
    assert "default/other-0 and 4 more wait:" in shown
    assert all(f"b/few-{number} waits:" in shown for number in range(3))
    assert len(decided("-f", "-", stdin=text)) == 108


# -- the document


def check(value: Any, shape: dict[str, type | tuple[type, ...]]) -> None:
    assert value.keys() == shape.keys()
    for key, kind in shape.items():
        assert isinstance(value[key], kind), (key, value[key])


@pytest.mark.parametrize("example", [CLUSTER, PROBLEMS])
def test_the_document_has_the_stated_shape(example: Path) -> None:
    document = cycle("-f", example)
    lists = ("decisions", "evictions", "jobs", "queues", "problems", "stale")
    check(document, dict.fromkeys(lists, list))
    assert document["decisions"]
    for decision in document["decisions"]:
        check(
            decision,
            {
                "pod": str,
                "job": str,
                "queue": str,
                "outcome": str,
                "node": (str, type(None)),
                "devices": list,
                "scores": dict,
                "rejected": list,
            },
        )
        assert decision["outcome"] == ("unschedulable" if decision["node"] is None else "placed")
        for device in decision["devices"]:
            check(device, {"container": str, "vendor": str, "uuid": str, "memory": int, "cores": int})
        for parts in decision["scores"].values():
            assert all(isinstance(score, float) for score in parts.values())
            assert parts["total"] == sum(score for plugin, score in parts.items() if plugin != "total")
        for rejection in decision["rejected"]:
            check(rejection, {"reason": str, "plugin": str, "nodes": int, "example": str, "message": str})
    for problem in document["problems"]:
        check(problem, {"object": str, "field": str, "position": str, "expected": str, "message": str})


def test_the_record_of_a_placed_pod() -> None:
    record = decided("-f", CLUSTER)["serving/chat-1"]
    assert record["job"] == "serving/chat-1"
    assert record["queue"] == "default"
    assert record["outcome"] == "placed"
    assert record["node"] == "gpu-a100"
    assert record["devices"] == [
        {"container": "server", "vendor": "NVIDIA", "uuid": "GPU-a100-0", "memory": 8192, "cores": 20}
    ]
    assert list(record["scores"]) == ["gpu-a100", "gpu-v100"], "the chosen node comes first"
    assert record["rejected"] == [
        {
            "reason": "NodeUnregistered",
            "plugin": "devices",
            "nodes": 2,
            "example": "cpu-1",
            "message": "cpu-1: no NVIDIA card is registered",
        }
    ]


def test_a_percentage_becomes_memory_of_the_card_that_was_chosen() -> None:
    assert decided("-f", CLUSTER)["research/notebook-ann"]["devices"][0]["memory"] == 40960 // 2


def test_the_nodes_of_a_waiting_pod_add_up() -> None:
    record = decided("-f", CLUSTER)["serving/llm-70b"]
    assert (record["node"], record["devices"], record["scores"]) == (None, [], {})
    assert sum(rejection["nodes"] for rejection in record["rejected"]) == 4


def test_scores_are_kept_of_ten_nodes_at_most() -> None:
    nodes = [node(f"n{i:02}", gpus=1) for i in range(15)]
    record = decided("-f", "-", stdin=manifest(*nodes, pod("p", 1, memory=10)))["default/p"]
    assert list(record["scores"]) == [f"n{i:02}" for i in range(10)]


def test_problems_are_shown_in_the_table_and_in_the_document() -> None:
    document = cycle("-f", PROBLEMS)
    text = schedule("-f", PROBLEMS)
    about = [(problem["object"], problem["field"], problem["position"]) for problem in document["problems"]]
    register = "metadata.annotations[hami.io/node-nvidia-register]"
    allocated = "metadata.annotations[hami.io/vgpu-devices-allocated]"
    lines = PROBLEMS.read_text().splitlines()
    line_of = {word: next(i for i, line in enumerate(lines, 1) if word in line) for word in ("lots}", "high")}
    assert about == [
        ("Node/gpu-4", "status.allocatable[ephemeral-storage]", f"{PROBLEMS} line {line_of['lots}']}"),
        ("Pod/default/misspelt-priority", "spec.priority", f"{PROBLEMS} line {line_of['high']}"),
        ("Node/gpu-2", register, ""),
        ("Node/gpu-3", register, "device 2"),
        ("Node/gpu-4", register, "device 2"),
        ("Node/gpu-4", "devices", "GPU-a30-1"),
        ("Pod/default/ghost-card", allocated, "GPU-gone"),
        ("Pod/default/ghost-node", "spec.nodeName", ""),
        ("Pod/default/says-nonsense", allocated, "container 1, device 1, field 3 (memory)"),
        ("Pod/default/says-nothing", allocated, ""),
        ("Pod/default/misspelt-policy", "metadata.annotations[hami.io/gpu-scheduler-policy]", ""),
        ("Pod/default/misspelt-policy", "metadata.annotations[hami.io/node-scheduler-policy]", ""),
    ]
    assert "\nProblems:\n" in text
    for problem in document["problems"]:
        assert problem["field"] in text
        assert problem["message"] in text
    assert text.splitlines()[-1] == "1 pod placed, 2 waiting, on 4 nodes, 12 problems"


def test_a_broken_quantity_frees_neither_a_node_nor_the_cards_of_a_running_pod() -> None:
    objects = json.loads(
        manifest(
            node("a", gpus=1, gpu_memory=8000),
            node("b", gpus=1, cpu="lots"),
            running("r", on="a", gpu=0, memory=8000),
            pod("p", containers=[container(gpus=1, memory=1000, cpu="1")]),
        )
    )
    objects["items"][2]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "lots"
    document = cycle("-f", "-", stdin=json.dumps(objects, indent=2))
    (decision,) = document["decisions"]
    assert {r["example"]: r["reason"] for r in decision["rejected"]} == {
        "a": "CardInsufficientMemory",
        "b": "InsufficientCpu",
    }
    assert {problem["object"] for problem in document["problems"]} == {"Node/b", "Pod/default/r"}


# -- input


def test_standard_input_is_read_for_a_dash() -> None:
    assert schedule("-f", "-", stdin=CLUSTER.read_bytes()) == schedule("-f", CLUSTER)


def test_json_says_the_same_as_yaml() -> None:
    items = list(yaml.safe_load_all(CLUSTER.read_text()))
    assert cycle("-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})) == cycle(
        "-f", CLUSTER
    )


def test_several_files_make_one_cluster(tmp_path: Path) -> None:
    parts = CLUSTER.read_text().split("\n---\n")
    halves = [tmp_path / "nodes.yaml", tmp_path / "pods.yaml"]
    halves[0].write_text("\n---\n".join(parts[:4]))
    halves[1].write_text("\n---\n".join(parts[4:]))
    whole = schedule("-f", CLUSTER)
    assert schedule("-f", halves[0], "-f", halves[1]) == whole
    assert schedule("-f", halves[1], "-f", halves[0]) == whole, "the order of files does not matter"
    assert schedule("-f", halves[0], "-f", "-", stdin=halves[1].read_bytes()) == whole


def test_kinds_that_are_not_read_are_skipped_with_one_line() -> None:
    text = "\n---\n".join(
        ["apiVersion: v1\nkind: Service", "apiVersion: v1\nkind: Service", "apiVersion: apps/v1\nkind: DaemonSet"]
    )
    done = tonnage("schedule", "-f", "-", "-f", CLUSTER, stdin=text)
    assert done.stderr == "Skipped what Tonnage does not read: 1 apps/v1 DaemonSet, 2 v1 Service\n"
    assert done.stdout == schedule("-f", CLUSTER)


def test_the_same_input_gives_the_same_bytes() -> None:
    for output in ("wide", "json"):
        first, second = (
            tonnage("schedule", "-f", CLUSTER, "-f", PROBLEMS, "-o", output, PYTHONHASHSEED=seed).stdout
            for seed in ("1", "2")
        )
        assert first == second


def test_a_thousand_nodes_and_three_thousand_pods() -> None:
    nodes = [node(f"n{i:04}", gpus=8, gpu_memory=40960) for i in range(1000)]
    held = [running(f"r{i}", on=f"n{i % 1000:04}", gpu=i % 8, memory=8192, cores=20) for i in range(1500)]
    waiting = [pod(f"w{i}", 1 + i % 2, memory=1024 * (1 + i % 7), cores=10) for i in range(1500)]
    document = cycle("-f", "-", stdin=manifest(*nodes, *held, *waiting))
    assert len(document["decisions"]) == 1500
    assert {decision["outcome"] for decision in document["decisions"]} == {"placed"}
    assert document["problems"] == []


# -- order and policies


def test_pods_are_placed_by_priority_then_creation_time_then_name() -> None:
    pods = [
        pod("late", created="2026-01-03T00:00:00Z"),
        pod("early-b", created="2026-01-02T00:00:00Z"),
        pod("early-a", created="2026-01-02T00:00:00Z"),
        pod("urgent", created="2026-01-04T00:00:00Z", priority=10),
        pod("lowly", created="2026-01-01T00:00:00Z", priority=-1),
    ]
    order = list(decided("-f", "-", stdin=manifest(node("a"), *pods)))
    assert order == ["default/urgent", "default/early-a", "default/early-b", "default/late", "default/lowly"]


def test_who_comes_first_gets_the_last_card() -> None:
    first, second = pod("zeta", 1, created="2026-01-01T00:00:00Z"), pod("alpha", 1, created="2026-01-02T00:00:00Z")
    got = places("-f", "-", stdin=manifest(node("a", gpus=1), first, second))
    assert got == {"default/zeta": ["a/0"], "default/alpha": []}


TWO_NODES = manifest(
    node("node1", gpus=2),
    node("node2", gpus=2),
    running("x", on="node1", gpu=0, memory=2000, cores=25),
    running("y", on="node2", gpu=1, memory=6000, cores=75),
    pod("p", 1, memory=1000, cores=20),
)


@pytest.mark.parametrize(
    ("node_policy", "gpu_policy", "card"),
    [
        ("binpack", "binpack", "node2/1"),
        ("binpack", "spread", "node2/0"),
        ("spread", "binpack", "node1/0"),
        ("spread", "spread", "node1/1"),
        ("spread", "binpack,numa", "node1/0"),
    ],
)
def test_the_policy_flags(node_policy: str, gpu_policy: str, card: str) -> None:
    flags = ("--node-scheduler-policy", node_policy, "--gpu-scheduler-policy", gpu_policy)
    assert places("-f", "-", *flags, stdin=TWO_NODES) == {"default/p": [card]}


def test_without_flags_nodes_are_packed_and_cards_spread() -> None:
    assert places("-f", "-", stdin=TWO_NODES) == {"default/p": ["node2/0"]}


def test_annotations_of_a_pod_overrule_the_flags() -> None:
    wants = {"hami.io/node-scheduler-policy": "spread", "hami.io/gpu-scheduler-policy": "binpack"}
    stdin = json.loads(TWO_NODES)
    stdin["items"][-1]["metadata"]["annotations"] = wants
    flags = ("--node-scheduler-policy", "binpack", "--gpu-scheduler-policy", "spread")
    assert places("-f", "-", *flags, stdin=json.dumps(stdin)) == {"default/p": ["node1/0"]}


def test_the_numa_order_flag() -> None:
    stdin = manifest(node("a", gpus=2, numas=[0, 1]), running("x", on="a", gpu=1, memory=1000), pod("p", 1, memory=10))
    assert places("-f", "-", stdin=stdin) == {"default/p": ["a/0"]}
    assert places("-f", "-", "--numa-order", "first", stdin=stdin) == {"default/p": ["a/1"]}


# -- how it ends


def test_pods_that_wait_are_no_failure_unless_asked() -> None:
    done = tonnage("schedule", "-f", CLUSTER, "--fail-on-unschedulable")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == schedule("-f", CLUSTER)
    assert tonnage("schedule", "-f", "-", "--fail-on-unschedulable", stdin=SHARED).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing option '-f'"),
        (["-f", "nowhere.yaml"], "nowhere.yaml: there is no such file"),
        (["-f", os.devnull], f"no Kubernetes objects in {os.devnull}; it is empty"),
        (["-f", "-", "-f", "-"], "standard input can be read only once"),
        (["-f", "examples/cluster.yaml", "--node-scheduler-policy", "mutex"], "'mutex' is not one of"),
        (["-f", "examples/cluster.yaml", "--gpu-scheduler-policy", "binpak"], "'binpak' is not one of binpack, spread"),
        (["-f", "examples/cluster.yaml", "--numa-order", "last"], "'last' is not one of"),
        (["examples/cluster.yaml", "-f", "examples/problems.yaml"], "unexpected extra argument"),
    ],
)
def test_bad_usage_ends_with_status_2_and_says_what_to_do(arguments: list[str], says: str) -> None:
    done = tonnage("schedule", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"a: b\n\tc: d\n", "line 2 column 1: bad YAML: found a tab character"),
        (b'{"kind": "Node"', "line 1 column 16: bad JSON: the text ends too early"),
        (b'{\n"kind": Node,\n"a" "b"}', "line 2 column 9: bad JSON"),
        (b"kind: \xff\n", "line 1 column 7: not UTF-8 text"),
        (b"", "it is empty or holds only comments"),
    ],
)
def test_unreadable_files_end_with_status_2_and_their_line(tmp_path: Path, text: bytes, says: str) -> None:
    file = tmp_path / "broken.yaml"
    file.write_bytes(text)
    done = tonnage("schedule", "-f", CLUSTER, "-f", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert str(file) in done.stderr
    assert says in done.stderr
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_standard_input_is_an_empty_one() -> None:
    done = subprocess.run(
        f"{shlex.join(COMMAND)} schedule -f - <&-",
        shell=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: no Kubernetes objects in standard input")


def test_a_reader_that_goes_away_ends_it_without_words() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [*COMMAND, "schedule", "-f", str(CLUSTER)],
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
    assert done.stderr == b""


def test_piping_into_head() -> None:
    done = subprocess.run(
        f"{shlex.join(COMMAND)} schedule -f {shlex.quote(str(CLUSTER))} -o json | head -1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_disk_is_said_in_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "schedule", "-f", str(CLUSTER)],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, b"Error: No space left on device\n")


def test_ctrl_c_while_waiting_for_standard_input() -> None:
    process = subprocess.Popen(
        [*COMMAND, "schedule", "-f", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdin is not None
    # More than a pipe holds: once all is written, the command is reading.
    process.stdin.write(b"# comment\n" * 50_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, output) == (130, b"")
    assert errors.strip() == b""


def test_kais_plugins_place_parts_of_cards_on_nodes_without_hami(tmp_path: Path) -> None:
    names = ["gpusharingorder", "gpupack", "nodeplacement"]
    config = tmp_path / "kai.yaml"
    config.write_text("actions: allocate\ntiers:\n- plugins:\n" + "".join(f"  - name: {name}\n" for name in names))
    shared = part("x", 0.5, on="b", group="g")
    text = manifest(plain("a", 2, gpu_memory=8000), plain("b", 2, gpu_memory=8000), shared, part("p", 0.5))
    assert decided("-f", "-", "--config", config, stdin=text)["default/p"]["devices"] == [
        {"container": "main", "vendor": "NVIDIA", "uuid": "b/0", "memory": 4000, "cores": 0}
    ]
    assert "b scores 10009 (gpusharingorder 10000, nodeplacement 9)" in schedule(
        "-f", "-", "--config", config, "-o", "wide", stdin=text
    )


def test_cards_go_by_the_names_of_a_device_configuration(tmp_path: Path) -> None:
    devices = tmp_path / "devices.yaml"
    devices.write_text("nvidia: {resourceCountName: acme.com/gpu, resourceMemoryName: acme.com/gpumem}\n")
    asks = container(gpus=None, **{"acme.com/gpu": 1, "acme.com/gpumem": 1000})
    given = manifest(node("a", gpus=1), pod("p", containers=[asks]))
    assert places("-f", "-", "--device-config-file", devices, stdin=given) == {"default/p": ["a/0"]}
    devices.write_text("nvidia: 7\n")
    done = tonnage("schedule", "-f", "-", "--device-config-file", devices, stdin=given)
    assert done.returncode == 2
    assert "the device configuration is not valid" in done.stderr
