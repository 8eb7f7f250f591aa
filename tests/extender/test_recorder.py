"""What is told of each decision: the Event on the pod, the line in the log, the counters."""

import io
import json
import logging

import pytest
from prometheus_client import generate_latest

from tests.extender.asking import asked, named, reservations
from tests.extender.recording import Api, parsed, values
from tests.scenario import container, node, pod, running, scenario
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.extender.protocol import BindArgs, FilterArgs, FilterResult
from tonnage.extender.recorder import ExtenderRecorder, FailedAttempts
from tonnage.extender.reservations import Filtered
from tonnage.model.wire import encode
from tonnage.observability.events import EventRecorder
from tonnage.observability.logs import JsonLines

BIND = BindArgs("p", "team", "uid-1", "a")


class Heard:
    """An extender on a cluster, and all that it says."""

    def __init__(self, cluster, level=logging.INFO):
        self.server = reservations(cluster)
        self.metrics = ExtenderMetrics()
        self.events = EventRecorder(Api(), lambda: 1_700_000_000.0)
        self.recorder = ExtenderRecorder(self.metrics, self.events)
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(JsonLines())
        self.log = logging.getLogger("tonnage.extender.recorder")
        self.log.handlers, self.log.propagate = [handler], False
        self.log.setLevel(level)

    def filter(self, *args, kube_scheduler=False, **more):
        asking = asked(*args, **more)
        filtered = self.server.feasible(asking) if kube_scheduler else self.server.filter(asking, 0)
        self.recorder.filtered(asking, filtered, 0.0005)
        return filtered

    @property
    def told(self):
        """Reason and message of each Event, in their order."""
        return [
            (told.reason, told.message)
            for queue in (self.events._warnings, self.events._others)
            for told in queue.values()
        ]

    @property
    def lines(self):
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def counted(self, name, *labels):
        samples = parsed(generate_latest(self.metrics.registry).decode()).get(name, {})
        return {key: value for key, value in values(samples, *labels).items() if value}


@pytest.fixture
def heard():
    log = logging.getLogger("tonnage.extender.recorder")
    before = log.handlers, log.propagate, log.level
    yield Heard
    log.handlers, log.propagate, log.level = before
    log.setLevel(logging.NOTSET)


def five():
    return scenario(
        node("gpu-1", gpus=2),
        node("gpu-2", gpus=1),
        node("gpu-3", gpus=1),
        node("cpu-1"),
        node("cpu-2"),
        running("w", on="gpu-1", gpu=0, memory=6000),
        running("x", on="gpu-1", gpu=1, memory=6000),
        running("y", on="gpu-2", memory=7000),
        running("z", on="gpu-3", memory=7000),
    )


ALL = ("gpu-1", "gpu-2", "gpu-3", "cpu-1", "cpu-2")


def test_a_pod_that_fits_nowhere_hears_the_numbers_and_what_can_be_cured_first(heard):
    said = heard(five())
    said.filter(named("p", gpus=1, memory=4000), *ALL)
    message = (
        "no available node, 5 nodes do not meet: 3 CardInsufficientMemory (gpu-1: 2/2 CardInsufficientMemory; wants "
        "4000 MiB on a card, at most 2000 of 8000 MiB are free), 2 NodeUnregistered (cpu-1: no NVIDIA card is "
        "registered)"
    )
    assert said.told == [("FilteringFailed", message)]
    (line,) = said.lines
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "tonnage.extender.recorder",
        "event": "unschedulable",
        "pod": "default/p",
        "seconds": 0.0005,
        "tries": 1,
        "reasons": {"CardInsufficientMemory": 3, "NodeUnregistered": 2},
        "message": message,
    }
    assert said.counted("tonnage_decisions_total", "verb", "outcome") == {("filter", "unschedulable"): 1}
    assert said.counted("tonnage_unschedulable_reasons_total", "reason") == {
        ("CardInsufficientMemory",): 1,
        ("NodeUnregistered",): 1,
    }
    assert said.counted("tonnage_filter_duration_seconds_count") == {(): 1}


def test_other_numbers_for_the_same_reasons_are_the_same_event(heard):
    cluster = five()
    said = heard(cluster)
    said.filter(named("p", gpus=1, memory=4000), *ALL)
    cluster.upsert_pod(running("more", on="gpu-1", memory=500))
    said.filter(named("p", gpus=1, memory=4000), *ALL)
    ((reason, message),) = said.told
    assert reason == "FilteringFailed"
    assert "at most 2000" in message
    cluster.upsert_pod(running("much", on="gpu-1", gpu=1, memory=900))
    said.filter(named("p", gpus=1, memory=4000), *ALL)
    ((_, message),) = said.told
    assert "at most 1500" in message


def test_a_pod_that_waits_for_the_same_reasons_is_said_ever_less_often(heard):
    said, wanted = heard(five()), named("p", gpus=1, memory=4000)
    for _ in range(20):
        said.filter(wanted, *ALL)
    assert [line["tries"] for line in said.lines] == [1, 2, 4, 8, 16]
    said.filter(wanted, "cpu-1")
    assert (said.lines[-1]["tries"], said.lines[-1]["reasons"]) == (1, {"NodeUnregistered": 1})
    said.filter(named("q", gpus=1, memory=4000), *ALL)
    assert (said.lines[-1]["pod"], said.lines[-1]["tries"]) == ("default/q", 1)
    assert said.counted("tonnage_decisions_total", "outcome") == {("unschedulable",): 22}


def test_when_debugging_every_try_is_a_line(heard):
    said = heard(five(), logging.DEBUG)
    for _ in range(5):
        said.filter(named("p", gpus=1, memory=4000), *ALL)
    assert [(line["tries"], line["level"]) for line in said.lines] == [
        (1, "info"),
        (2, "info"),
        (3, "debug"),
        (4, "info"),
        (5, "debug"),
    ]


def test_a_pod_that_was_placed_and_waits_again_is_news(heard):
    said = heard(five())
    for memory in (4000, 4000, 4000, 1500, 4000):
        said.filter(named("p", gpus=1, memory=memory), *ALL)
    assert [line["tries"] for line in said.lines] == [1, 2, 1]
    said.filter(named("p", gpus=1, memory=1500), *ALL, kube_scheduler=True)
    said.filter(named("p", gpus=1, memory=4000), *ALL)
    assert said.lines[-1]["tries"] == 1


def test_only_so_many_waiting_pods_are_remembered():
    attempts = FailedAttempts(most=2)
    for name in ("a", "b", "a", "c"):
        attempts.add(name, ["Some"])
    assert [attempts.add(name, ["Some"]) for name in ("a", "c", "b")] == [3, 2, 1]


def test_nodes_that_the_decision_did_not_look_at_are_counted_too(heard):
    said = heard(five())
    said.filter(named("p", gpus=1, memory=4000), *ALL, "gone")
    ((_, message),) = said.told
    assert message.startswith("no available node, 6 nodes do not meet: 3 CardInsufficientMemory (gpu-1: ")
    assert ", 1 NodeUnknown, 2 NodeUnregistered (" in message


def test_when_kube_scheduler_chooses_only_a_pod_that_fits_nowhere_is_told(heard):
    said = heard(five())
    said.filter(named("p", gpus=1, memory=1500), *ALL, kube_scheduler=True)
    assert said.told == []
    said.filter(named("q", gpus=1, memory=4000), *ALL, kube_scheduler=True)
    assert said.told == [
        ("FilteringFailed", "no available node, 5 nodes do not meet: 3 CardInsufficientMemory, 2 NodeUnregistered")
    ]
    assert said.counted("tonnage_decisions_total", "outcome") == {("fits",): 1, ("unschedulable",): 1}


def test_a_request_without_meaning_is_explained_once(heard):
    said = heard(five())
    said.filter(named("p", gpus=1, memory="8Gi"), "gpu-1", "cpu-1")
    ((_, message),) = said.told
    assert message.startswith("no available node, 2 nodes do not meet: 2 InvalidRequest (container 'main': nvidia.com/")


def test_a_pod_for_which_no_node_was_sent_hears_that(heard):
    said = heard(scenario())
    said.recorder.filtered(
        FilterArgs(pod=named("p", gpus=1), node_names=[]),
        Filtered(FilterResult(node_names=[], failed_nodes={}, failed_and_unresolvable_nodes={})),
        0.0,
    )
    assert said.told == [("FilteringFailed", "no available node, none was asked about")]


def test_a_placed_pod_hears_where_and_what_and_the_log_is_told_only_when_debugging(heard):
    wanted = named("p", containers=[container("one", gpus=1, memory=1000, cores=10), container("two", gpus=1)])
    said = heard(scenario(node("a", gpus=2), node("b")))
    said.filter(wanted, "a", "b")
    ((reason, message),) = said.told
    assert reason == "FilteringSucceed"
    assert message.startswith("find fit node(a), 1 nodes not fit, best scores(a:")
    assert message.endswith(", devices(one: a/1 1000 MiB 10 %, two: a/0 8000 MiB 0 %)")
    assert said.lines == []
    said = heard(scenario(node("a", gpus=2), node("b")), logging.DEBUG)
    said.filter(wanted, "a", "b")
    (line,) = said.lines
    assert (line["level"], line["event"], line["node"]) == ("debug", "placed", "a")
    assert line["reasons"] == {"NodeUnregistered": 1}
    assert said.counted("tonnage_decisions_total", "outcome") == {("placed",): 1}


def test_a_bound_pod_has_one_line_with_all_that_was_decided(heard):
    said = heard(scenario(node("a", gpus=1)))
    decision = said.filter(named("p", gpus=1, memory=1000, cores=20), "a").decision
    said.recorder.bound(BIND, decision, 0.0123456789)
    assert said.told[1] == ("BindingSucceed", "Successfully binding node [a] to team/p")
    (line,) = said.lines
    assert {key: line[key] for key in ("level", "event", "pod", "node", "seconds", "devices")} == {
        "level": "info",
        "event": "bound",
        "pod": "team/p",
        "node": "a",
        "seconds": 0.012346,
        "devices": [{"container": "main", "vendor": "NVIDIA", "uuid": "a/0", "memory": 1000, "cores": 20}],
    }
    assert line["reasons"] == {}
    assert said.counted("tonnage_decisions_total", "verb", "outcome")[("bind", "bound")] == 1
    assert said.counted("tonnage_bind_duration_seconds_count") == {(): 1}


def test_a_bind_that_failed_is_a_warning_with_the_cause(heard):
    said = heard(scenario())
    said.recorder.not_bound(BIND, "a is busy", 25.0)
    assert said.told == [("BindingFailed", "a is busy")]
    (line,) = said.lines
    assert (line["level"], line["event"], line["message"], line["node"]) == ("warning", "not_bound", "a is busy", "a")
    assert said.counted("tonnage_decisions_total", "verb", "outcome") == {("bind", "not_bound"): 1}


def test_a_pod_whose_device_plugin_failed_hears_it_and_is_counted(heard):
    said = heard(scenario())
    said.recorder.plugin_failed(pod("p", 1, on="a"))
    ((reason, message),) = said.told
    assert (reason, message.split(" could")[0]) == ("BindingFailed", "the device plugin on a")
    (line,) = said.lines
    assert (line["level"], line["event"], line["pod"], line["node"], line["message"]) == (
        "warning",
        "device_plugin_failed",
        "default/p",
        "a",
        message,
    )
    assert said.counted("tonnage_device_plugin_failures_total") == {(): 1}
    assert said.counted("tonnage_decisions_total", "outcome") == {}


def test_a_filter_that_is_answered_with_an_error_is_a_warning(heard):
    said = heard(five())
    wanted = named("w", gpus=1)
    said.recorder.filtered(asked(wanted, "gpu-1"), Filtered(FilterResult(error="bound already")), 0.0)
    assert said.told == [("FilteringFailed", "bound already")]
    assert said.lines[0]["level"] == "warning"
    said.recorder.filtered(FilterArgs(), Filtered(FilterResult(error="the request holds no Pod")), 0.0)
    assert len(said.told) == 1
    assert said.lines[1]["event"] == "filter: the request holds no Pod"


def test_when_debugging_every_answer_to_filter_is_a_line(heard):
    said = heard(five(), logging.DEBUG)
    said.filter(named("p", gpus=1, memory=1500), *ALL, kube_scheduler=True)
    said.filter(named("q", cpu="1"), "cpu-1", "cpu-2")
    assert [(line["level"], line["event"], line["pod"], line["nodes"]) for line in said.lines] == [
        ("debug", "fits", "default/p", 1),
        ("debug", "nothing_asked", "default/q", 2),
    ]


def test_what_the_autoscaler_asks_and_pods_without_devices_are_only_counted(heard):
    said = heard(five())
    whole = {"items": [json.loads(encode(node("new", gpus=1)))]}
    said.filter(named("p", gpus=1), nodes=whole)
    said.filter(named("p", gpus=1), nodes={"items": [{"metadata": 1}]})
    said.filter(named("q", cpu="1"), "cpu-1")
    assert said.told == []
    assert said.counted("tonnage_decisions_total", "outcome") == {
        ("simulated",): 1,
        ("error",): 1,
        ("nothing_asked",): 1,
    }


def test_telling_never_harms_a_decision(heard):
    said = heard(five())
    said.recorder.events = None
    said.filter(named("p", gpus=1, memory=1000), *ALL)
    said.recorder.not_bound(BIND, "busy", 0.0)
    assert [line["event"] for line in said.lines] == ["a decision could not be told"] * 2
    assert "AttributeError" in said.lines[0]["exception"]


def test_lines_of_other_modules_are_json_too():
    record = logging.LogRecord("tonnage.kube.watch", logging.WARNING, "", 0, "%s: %s", ("Pod", 'a "b"\n'), None)
    line = json.loads(JsonLines().format(record))
    assert (line["level"], line["logger"], line["event"]) == ("warning", "tonnage.kube.watch", 'Pod: a "b"\n')
