"""What telling of a decision costs, counted in calls of functions: a measure that no noise touches."""

import gc
import io
import logging
import sys

import pytest

from tests.extender.asking import asked, named, reservations
from tests.extender.recording import Api
from tests.scenario import node, scenario
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.extender.protocol import BindArgs
from tonnage.extender.recorder import ExtenderRecorder
from tonnage.observability.events import EventRecorder
from tonnage.observability.logs import JsonLines

FEW, MANY = 20, 400
MOST_FOR_COUNTING = 42
MOST_FOR_A_LINE = 242
"""Twice what was counted, 21 and 121, nearly all of it in the Prometheus client and in logging: those may change."""


def calls_in(function):
    """How many functions are called on the way, those of C included, but not those that tidy up after others."""
    calls = 0
    gc.collect()
    gc.disable()

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


class Extender:
    """Tells of decisions among so many nodes, with nobody to write its Events."""

    def __init__(self, nodes):
        self.cluster = scenario(*[node(f"n{number}", gpus=1) for number in range(nodes)])
        self.server = reservations(self.cluster)
        self.metrics = ExtenderMetrics()
        self.recorder = ExtenderRecorder(self.metrics, EventRecorder(Api(), lambda: 0.0))

    def cost(self, memory, is_bind=False):
        """Of telling, once everything has been told before."""
        args = asked(named("p", gpus=1, memory=memory), *self.cluster.nodes)
        filtered = self.server.filter(args, 0.0)
        binding = BindArgs("p", "default", "1", filtered.decision.node or "")

        def tell():
            if is_bind:
                self.recorder.bound(binding, filtered.decision, 0.01)
            else:
                self.recorder.filtered(args, filtered, 0.0003)

        for _ in range(4):
            tell()
        return calls_in(tell)


@pytest.fixture
def log():
    logger = logging.getLogger("tonnage.extender.recorder")
    before = logger.handlers, logger.propagate, logger.level
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(JsonLines())
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    yield logger
    logger.handlers, logger.propagate, _ = before
    logger.setLevel(before[2])


@pytest.mark.parametrize(("memory", "is_bind"), [(1000, False), (1000, True), (10**6, False)])
def test_telling_costs_no_more_when_there_are_more_nodes(log, memory, is_bind):
    assert Extender(MANY).cost(memory, is_bind) <= Extender(FEW).cost(memory, is_bind)


def test_counting_a_decision_takes_a_few_calls():
    extender = Extender(FEW)
    metrics, counts = extender.metrics, extender.recorder._counts
    observe = metrics.timings.request_seconds.labels("filter").observe

    def count():
        metrics.filter_seconds.observe(0.0003)
        counts["filter", "placed"].inc()
        observe(0.0004)

    count()
    assert calls_in(count) <= MOST_FOR_COUNTING


def test_a_line_is_paid_for_only_where_it_is_said(log):
    extender = Extender(FEW)
    said = extender.cost(1000, is_bind=True)
    placed = extender.cost(1000)
    log.setLevel(logging.WARNING)
    unsaid = extender.cost(1000, is_bind=True)
    assert 0 < said - unsaid <= MOST_FOR_A_LINE
    assert extender.cost(1000) <= placed, "at the usual level no line tells of a pod that is placed"
