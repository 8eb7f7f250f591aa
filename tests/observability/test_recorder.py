"""What both servers' recorders share: an Event, a line and a counter for an overlap, and failures that hurt nobody."""

import logging

import pytest

from tests.extender.recording import Api
from tests.scenario import running
from tonnage.observability.events import DEVICE_OVERLAP, EventRecorder, ObjectRef
from tonnage.observability.logs import FIELDS
from tonnage.observability.metrics import ServerMetrics
from tonnage.observability.recorder import PodRecorder, harmless

log = logging.getLogger(__name__)


class FailingRecorder(PodRecorder):
    @harmless
    def failed(self, message: str) -> None:
        raise ValueError(message)


@pytest.fixture
def recorder():
    return FailingRecorder(log, ServerMetrics(), EventRecorder(Api(), lambda: 0.0))


def test_an_overlap_is_an_event_a_line_and_a_count(recorder, caplog):
    pod = running("p", on="a", memory=1000)
    recorder.overlapped(pod, "evicted: it came later")
    ((about, reason, message),) = recorder.events._warnings
    assert about == ObjectRef("default", "p", pod.metadata.uid or "")
    assert (reason, message) == (DEVICE_OVERLAP, "evicted: it came later")
    (line,) = caplog.records
    assert (line.levelname, line.getMessage()) == ("WARNING", "overlap")
    assert getattr(line, FIELDS) == {"pod": "default/p", "node": "a", "message": "evicted: it came later"}
    assert recorder._overlaps._value.get() == 1


def test_a_failure_is_logged_and_goes_no_further(recorder, caplog):
    recorder.failed("no")
    (line,) = caplog.records
    assert line.getMessage() == "a decision could not be told"
    assert line.exc_info is not None
