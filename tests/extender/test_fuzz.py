"""Requests of any content: each gets an answer that says what is wrong with it, and none leaves anything behind."""

import gc
import json
import random
import sys

import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.extender.fuzzing import ENDPOINTS, GPU, MEMORY, NODES, Server, body, box, fitting_pod, json_pod, valid
from tests.properties.worlds import examples

BINDING_AT = "/bind"


@pytest.fixture(scope="module", params=[True, False], ids=["extender decides", "kube-scheduler decides"])
def server(request):
    made = Server(decides=request.param)
    yield made
    made.close()


def check(endpoint: str, status: int, answer: bytes) -> None:
    """What kube-scheduler and the API server can do something with."""
    if endpoint == "/webhook":
        assert status in (200, 400)
        if status == 400:
            assert answer
            return
        response = json.loads(answer)["response"]
        assert "internal error" not in json.dumps(response)
        assert response["allowed"] or response["status"]["message"]
        return
    assert status == 200
    said = json.loads(answer)
    if endpoint in ("/filter", BINDING_AT):
        assert isinstance(said["Error"], str)
    elif endpoint == "/prioritize":
        assert all(isinstance(one["Host"], str) and 0 <= one["Score"] <= 10 for one in said)
    else:
        assert isinstance(said["NodeNameToMetaVictims"], dict)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@settings(max_examples=examples(300), database=None, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 2**64 - 1))
def test_any_request_is_answered_and_hurts_nobody(server, endpoint, seed):
    asked = body(endpoint, random.Random(seed))
    note(f"the request: {asked[:5000]!r}")
    status, answer = server.ask(endpoint, asked)
    check(endpoint, status, answer)
    assert server.mistakes.texts == []
    assert len(server.cluster.reserved) <= 61
    assert not server.cluster.waiting
    assert len(server.requeue.pending) <= 61


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_after_all_that_a_good_request_is_answered_well(server, endpoint):
    status, answer = server.ask(endpoint, json.dumps(valid(endpoint, whole=False)).encode())
    check(endpoint, status, answer)
    said = json.loads(answer)
    if endpoint == "/filter":
        assert said["NodeNames"] == ["a"]


def test_memory_does_not_grow_with_the_requests():
    server, rng = Server(), random.Random(0)

    def some(count: int) -> int:
        for number in range(count):
            limits = {GPU: "1", MEMORY: str(rng.randrange(1, 9000))}
            asked = json_pod(box(limits=limits, env=[{"name": f"v{rng.random()}", "value": "x" * 1000}]))
            asked["metadata"] |= {"name": f"p{rng.random()}", "uid": f"{rng.random()}", "labels": {"a": f"{number}"}}
            server.ask("/filter", json.dumps({"Pod": asked, "NodeNames": NODES}).encode())
        gc.collect()
        return sys.getallocatedblocks()

    try:
        before, after = some(1200), some(1200)
    finally:
        server.close()
    assert after < 1.05 * before


def test_a_valid_pod_is_one_that_fits():
    server = Server()
    try:
        _, answer = server.ask("/filter", json.dumps({"Pod": fitting_pod(), "NodeNames": NODES}).encode())
        assert json.loads(answer)["NodeNames"] == ["a"]
    finally:
        server.close()
