"""Texts that somebody else wrote, in log lines, Events and metric labels: bounded, and never a line of their own."""

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extender.recording import Api
from tonnage.binder.binding import pod_path
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.model.excerpt import LONGEST_EXCERPT, excerpt
from tonnage.observability.events import FILTERING_FAILED, EventRecorder, ObjectRef
from tonnage.observability.logs import FIELDS, JsonLines

FORGED = 'x\n{"time":"2026-01-01T00:00:00.000Z","level":"error","event":"forged"}\n'


def test_a_text_with_line_breaks_stays_in_its_line_of_the_log():
    record = logging.LogRecord("x", logging.INFO, "", 0, "read %s", (FORGED,), None)
    setattr(record, FIELDS, {"message": FORGED, "pod": "team/p"})
    (line,) = JsonLines().format(record).splitlines()
    assert json.loads(line)["message"] == FORGED


def test_a_line_of_the_log_has_a_bounded_length():
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", ("y" * 10**6,), None)
    setattr(record, FIELDS, {"message": "z" * 10**6})
    assert len(JsonLines().format(record)) < 20_000


def test_an_event_remembers_no_more_of_a_message_than_it_writes():
    recorder = EventRecorder(Api(), lambda: 0.0)
    recorder.record(ObjectRef("team", "p", "1"), FILTERING_FAILED, FORGED + "y" * 10**6)
    ((_, _, remembered),) = recorder._known
    assert len(remembered.encode()) <= 1024
    assert "\n" not in remembered


@given(st.text(max_size=600))
def test_an_excerpt_is_short_and_one_line(text):
    short = excerpt(text)
    assert len(short.splitlines()) <= 1
    assert len(short) <= 6 * LONGEST_EXCERPT
    assert excerpt(text, 10_000) == text or not text.isascii() or not text.isprintable()


@pytest.mark.parametrize("name", ["p", "../../../pods?x=", "a/b/c"])
def test_the_label_of_a_write_is_one_of_a_fixed_set(name):
    metrics = ExtenderMetrics()
    metrics.wrote("POST", pod_path("default", name, "binding"), 0.1, "success")
    metrics.wrote("PATCH", f"/api/v1/namespaces/default/pods/{name}/x{name}", 0.1, "success")
    resources = {sample.labels["resource"] for family in metrics.write_seconds.collect() for sample in family.samples}
    assert resources == {"pods/binding", "other"}
