"""Lines, pages and waiting times, without a server."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scenario import pod
from tonnage.kube.errors import KubeError, OutdatedError, StatusError, refusal
from tonnage.kube.kinds import NODES, PODS
from tonnage.kube.resource import read_lines, read_page
from tonnage.kube.watch import Backoff, Lines
from tonnage.lab.api import pod_manifest
from tonnage.model.annotations import LAST_APPLIED


def line(kind: str, thing: object) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode()


def versioned(name: str, version: int) -> dict[str, object]:
    plain = pod_manifest(pod(name))
    plain["metadata"]["resourceVersion"] = str(version)
    return plain


@given(st.lists(st.binary(max_size=20).map(lambda text: text.replace(b"\n", b"_"))), st.lists(st.integers(1, 30)))
def test_lines_are_the_same_wherever_the_pieces_end(texts: list[bytes], sizes: list[int]) -> None:
    whole = b"".join(text + b"\n" for text in texts) + b"unfinished"
    splitter, found = Lines(), []
    for size in [*sizes, len(whole)]:
        piece, whole = whole[:size], whole[size:]
        if piece:
            found += splitter.feed(piece)
    assert found == [text for text in texts if text.strip()]


def test_a_line_without_end_is_given_up() -> None:
    splitter = Lines(longest=10)
    assert splitter.feed(b"12345678") == []
    with pytest.raises(OutdatedError, match="longer than 10 bytes"):
        splitter.feed(b"901")


def test_changes_are_in_order_and_the_last_version_is_where_to_continue() -> None:
    lines = [line("ADDED", versioned("p", 5)), line("MODIFIED", versioned("q", 6)), line("DELETED", versioned("p", 7))]
    events = read_lines(PODS.resource, [*lines, line("BOOKMARK", {"metadata": {"resourceVersion": "9"}})])
    assert [(change.key, change.is_gone) for change in events.changes] == [
        ("default/p", False),
        ("default/q", False),
        ("default/p", True),
    ]
    assert (events.version, events.failure) == ("9", None)


def test_what_came_before_an_error_counts() -> None:
    error = line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
    events = read_lines(PODS.resource, [line("ADDED", versioned("p", 5)), error, line("ADDED", versioned("q", 6))])
    assert [change.key for change in events.changes] == ["default/p"]
    assert events.version == "5"
    assert isinstance(events.failure, OutdatedError)


@pytest.mark.parametrize("more", [{}, {"metadata": {}}, {"metadata": {"name": "looks-like-a-node"}}])
def test_an_error_that_is_not_about_age_is_told_as_it_is(more: dict[str, object]) -> None:
    status = {"code": 500, "reason": "InternalError", "message": "no leader", **more}
    events = read_lines(NODES.resource, [line("ERROR", status)])
    assert isinstance(events.failure, StatusError)
    assert str(events.failure) == "500 InternalError: no leader"


NAMES = st.sampled_from(["type", "object", "metadata", "name", "spec"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_line_raises_anything(text: bytes) -> None:
    events = read_lines(PODS.resource, [text])
    assert events.failure is None or isinstance(events.failure, KubeError)


def test_a_page_with_one_object_that_cannot_be_read_gives_the_others() -> None:
    items = [versioned("p", 1), {"metadata": {"name": "q", "namespace": "n", "labels": 5}}, {"metadata": {}}, 7]
    metadata = {"resourceVersion": "8", "continue": "token"}
    page = read_page(PODS.resource, json.dumps({"metadata": metadata, "items": items}).encode())
    assert (page.version, page.continue_token) == ("8", "token")
    assert [(change.key, change.problem is None) for change in page.changes] == [
        ("default/p", True),
        ("n/q", False),
        ("", False),
        ("", False),
    ]


def test_what_can_be_read_of_a_pod_on_a_node_counts() -> None:
    odd = versioned("p", 1)
    odd["metadata"] |= {"labels": {"a": "b", "c": 5}, "annotations": {"d": "e", "f": None}, "ownerReferences": 7}
    box = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2", "odd": []}}, "ports": "all"}
    odd["spec"] = {"nodeName": "a", "containers": [box, 3], "priority": "high"}
    pending = {**odd, "metadata": {**odd["metadata"], "name": "q"}, "spec": {**odd["spec"], "nodeName": None}}
    on_a, waits = read_lines(PODS.resource, [line("ADDED", odd), line("ADDED", pending)]).changes
    assert on_a.problem is not None
    assert (on_a.object.key, on_a.object.node) == ("default/p", "a")
    assert (on_a.object.labels, on_a.object.annotations) == ({"a": "b"}, {"d": "e"})
    assert on_a.object.spec.containers[0].resources.limits == {"nvidia.com/gpu": "2"}
    assert (waits.key, waits.object) == ("default/q", None)
    assert waits.problem is not None


def test_environment_variables_of_pods_are_not_kept() -> None:
    made = versioned("p", 5)
    made["spec"]["containers"] = [{"name": "main", "env": [{"name": "TOKEN", "value": "hush"}]}]
    made["metadata"]["annotations"] = {LAST_APPLIED: '{"env": [{"name": "TOKEN", "value": "hush"}]}', "team": "x"}
    (change,) = read_lines(PODS.resource, [line("ADDED", made)]).changes
    assert change.object.annotations == {"team": "x"}
    assert "hush" not in repr(change)
    assert "TOKEN" not in repr(change)


def test_an_empty_list_may_be_null() -> None:
    assert read_page(NODES.resource, b'{"metadata": {"resourceVersion": "3"}, "items": null}').changes == []


def test_paths_of_objects() -> None:
    assert NODES.resource.path_of("a") == "/api/v1/nodes/a"
    assert PODS.resource.path_of("team/p") == "/api/v1/namespaces/team/pods/p"


def test_waiting_doubles_up_to_a_limit_with_jitter_that_is_handed_in() -> None:
    longest = Backoff(draw=lambda: 1.0, first=0.5, most=3.0)
    assert [longest.delay(failures) for failures in range(7)] == [0, 0, 0.5, 1.0, 2.0, 3.0, 3.0]
    shortest = Backoff(draw=lambda: 0.0, first=0.5, most=3.0)
    assert [shortest.delay(failures) for failures in range(7)] == [0, 0, 0.25, 0.5, 1.0, 1.5, 1.5]
    assert longest.delay(10_000) == 3.0


def test_a_refusal_that_is_no_status_is_shown_as_it_is() -> None:
    error = refusal(b"<html>proxy says no</html>", 502, "Bad Gateway")
    assert str(error) == "502 Bad Gateway: <html>proxy says no</html>"
    assert not error.is_definite
    assert refusal(b'{"reason": "Conflict", "message": "bound already"}', 409).is_definite
