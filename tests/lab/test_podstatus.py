"""When and how the pods of the lab end."""

from typing import Any

import pytest

from tonnage.lab.podstatus import FAILED, RUN_SECONDS, SUCCEEDED, end_of, ended_status, running_status


def manifest(seconds: str | None = None, **spec: Any) -> dict[str, Any]:
    notes = {} if seconds is None else {RUN_SECONDS: seconds}
    return {"metadata": {"name": "p", "annotations": notes}, "spec": {"containers": [{"name": "main"}], **spec}}


def test_a_pod_that_says_nothing_runs_until_it_is_deleted() -> None:
    assert end_of(manifest()) is None
    assert end_of({"metadata": {"name": "p"}, "spec": {"containers": []}}) is None


def test_a_pod_that_is_not_restarted_succeeds_after_the_time_that_it_gives() -> None:
    for policy in ("Never", "OnFailure"):
        end = end_of(manifest("1.5", restartPolicy=policy))
        assert end
        assert (end.seconds, end.phase) == (1.5, SUCCEEDED)


def test_one_that_is_always_restarted_goes_on() -> None:
    assert end_of(manifest("30")) is None
    assert end_of(manifest("30", restartPolicy="Always")) is None


def test_a_deadline_ends_any_pod_unless_it_has_ended_before() -> None:
    end = end_of(manifest(activeDeadlineSeconds=5))
    assert end
    assert (end.seconds, end.phase, end.reason) == (5, FAILED, "DeadlineExceeded")
    end = end_of(manifest("3", restartPolicy="Never", activeDeadlineSeconds=5))
    assert end
    assert (end.seconds, end.phase) == (3.0, SUCCEEDED)


@pytest.mark.parametrize("written", ["30s", "", "nan", "inf", "-1", "1e400"])
def test_a_time_that_is_none_fails_the_pod_with_a_message(written: str) -> None:
    pod = manifest(written, restartPolicy="Never")
    end = end_of(pod)
    assert end
    status = ended_status(pod, end)
    assert (end.seconds, status["phase"], status["reason"]) == (0.0, FAILED, "InvalidAnnotation")
    assert status["message"].startswith(f"the annotation {RUN_SECONDS} must be a number of seconds such as 30, not")


def test_a_running_pod_is_ready_with_all_its_containers() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}, {"name": "side"}]}}
    status = running_status(pod)
    assert [one["name"] for one in status["containerStatuses"] if one["ready"]] == ["main", "side"]
    assert ("Ready", "True") in [(one["type"], one["status"]) for one in status["conditions"]]
