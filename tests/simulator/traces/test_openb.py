"""Traces: both sets of columns, and a message with file, line and column for everything that is wrong."""

import pytest

from tests.paths import OPENB
from tests.simulator.traces.files import NODES, PODS, TIMED, write
from tests.simulator.traces.invented import invented_trace
from tonnage.manifests.written import ManifestError
from tonnage.simulator.traces.openb import Trace, model_annotations, read_nodes, read_pods, read_trace, unplaceable

GOOD_NODE = "a,8000,1000,2,T4\n"


def complaint(read, folder, text):
    path = write(folder, "file.csv", text)
    with pytest.raises(ManifestError) as caught:
        read(path)
    return str(caught.value).replace(path, "file.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file.csv line 1 column 1: the file is empty; expected a line with sn, cpu_milli, memory_mib, gpu, model"),
        (NODES, "file.csv line 2 column 1: there are no nodes below the first line"),
        ("sn,cpu_milli,memory_mib,gpu\n", "file.csv line 1 column 1: no column model; there are sn, cpu_milli,"),
        ("sn,sn,cpu_milli\n", "file.csv line 1 column 4: the column sn is there twice"),
        (NODES + "a,many,1,2,T4\n", "line 2 column 3: cpu_milli: expected a whole number from 0 up, got 'many'"),
        (
            NODES + GOOD_NODE + "b,1,-5,2,T4\n",
            "line 3 column 5: memory_mib: expected a whole number from 0 up, got '-5'",
        ),
        (NODES + GOOD_NODE + GOOD_NODE, "line 3 column 1: sn: there is a node a already"),
        (NODES + "a,1,1,2,\n", "line 2 column 9: model: node a has GPUs and no model"),
        (NODES + "a,1,1,2\n", "line 2 column 1: 4 values where the first line names 5 columns"),
        (NODES + ",1,1,0,\n", "line 2 column 1: sn: a node has no name"),
    ],
)
def test_what_is_wrong_with_a_list_of_nodes_is_told_with_its_place(tmp_path, text, message):
    assert message in complaint(read_nodes, tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PODS, "line 2 column 1: there are no pods below the first line"),
        (PODS + "p,1,1,2,500\n", "line 2 column 9: gpu_milli: 2 GPUs of 500 thousandths"),
        (PODS + "p,1,1,1,0\n", "line 2 column 9: gpu_milli: expected 1 to 1000 thousandths of a GPU, got 0"),
        (PODS + "p,1,1,1,1001\n", "line 2 column 9: gpu_milli: expected 1 to 1000 thousandths of a GPU, got 1001"),
        (PODS + "p,1,1,1,10\np,1,1,1,10\n", "line 3 column 1: name: there is a pod p already"),
        (TIMED + "p,1,1,1,10,,,,5,3,\n", "line 2 column 17: deletion_time: a negative duration: it ended at 3"),
        (TIMED + "p,1,1,1,10,,,,5,9,4\n", "line 2 column 19: scheduled_time: time goes backwards"),
        (TIMED + "p,1,1,1,10,,,,5,9,noon\n", "scheduled_time: expected seconds or a date"),
    ],
)
def test_what_is_wrong_with_a_list_of_pods_is_told_with_its_place(tmp_path, text, message):
    assert message in complaint(read_pods, tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ManifestError, match="there is no such file"):
        read_nodes(str(tmp_path / "none.csv"))


def test_pods_that_no_node_can_ever_take_are_named_with_their_place(tmp_path):
    pods = write(
        tmp_path,
        "pods.csv",
        TIMED + "ok,1,1,1,10,T4|X9,,,,,\nbig,1,1,3,1000,,,,,,\nodd,1,1,1,10,X9,,,,,\nfat,9000,1,0,0,,,,,,\n",
    )
    nodes = read_nodes(write(tmp_path, "nodes.csv", NODES + GOOD_NODE))
    told = list(unplaceable(Trace("pods.csv", nodes, read_pods(pods))))
    assert told == [
        "pods.csv line 3 column 9: big can never run: it is larger than any node: 0.001 CPUs, 1 MiB, 3 GPUs",
        "pods.csv line 4 column 14: odd can never run: no node has a GPU of model X9; there are T4",
        "pods.csv line 5 column 12: fat can never run: it is larger than any node: 9 CPUs, 1 MiB, 0 GPUs",
    ]


def test_models_whose_names_contain_a_wanted_one_are_refused():
    assert model_annotations((), ["A10"]) == {}
    assert model_annotations(("A10", "T4"), ["A10", "A100", "T4", "V100M16"]) == {
        "nvidia.com/use-gputype": "A10,T4",
        "nvidia.com/nouse-gputype": "A100",
    }


def test_a_trace_is_read_whole(tmp_path):
    invented = invented_trace(tmp_path)
    trace = read_trace(invented.nodes, invented.pods)
    assert (len(trace.nodes), len(trace.pods)) == (invented.node_count, invented.pod_count)
    assert sum(node.gpus for node in trace.nodes) == invented.card_count
    assert list(unplaceable(trace)) == []


@pytest.mark.openb
def test_the_openb_traces_are_read_whole():
    nodes = OPENB / "openb_node_list_gpu_node.csv"
    sizes = {}
    for file in sorted(OPENB.glob("openb_pod_list_*.csv")):
        trace = read_trace(str(nodes), str(file))
        assert len(trace.nodes) == 1213
        assert sum(node.gpus for node in trace.nodes) == 6212
        assert len(list(unplaceable(trace))) <= 4
        sizes[file.stem.removeprefix("openb_pod_list_")] = len(trace.pods)
    assert sizes["default"] == 8152
    assert sizes["multigpu20"] == 8324
    assert len(sizes) >= 9
