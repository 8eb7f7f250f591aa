"""Where time goes: whole requests, waiting for a node, and how far the picture is behind."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.extender.metering import parts_of
from tests.extender.recording import ask, parsed
from tests.scenario import node, place, pod, running, scenario
from tonnage.extender.metrics import RequestTimings
from tonnage.kube.kinds import NODES, PODS
from tonnage.kube.resource import Change


class Watch:
    """Timings of an extender, at a time that is set."""

    def __init__(self, cluster=None):
        self.now = 0.0
        self.registry = CollectorRegistry()
        self.timings = RequestTimings(self.registry, lambda: self.now)
        self.parts = parts_of(cluster or scenario(node("a", gpus=1)), lambda: self.now)
        self.timings.attach(self.parts)

    def shows(self, thing, kind=PODS, is_gone=False):
        change = Change(thing.key if kind is PODS else thing.name, thing, is_gone)
        self.parts.informer.tell(kind, [change])

    def told(self, name, **labels):
        """Count and sum of a histogram."""
        found = parsed(generate_latest(self.registry).decode())
        return tuple(found[f"tonnage_{name}_{part}"][frozenset(labels.items())] for part in ("count", "sum"))


@pytest.fixture
def watch():
    return Watch()


# -- how far the picture is behind


def test_the_picture_is_behind_by_the_time_from_the_answer_to_what_the_watch_shows(watch):
    watch.now = 10.0
    place(watch.parts.cluster, pod("p", 1))
    watch.timings.answered("default/p")
    watch.now = 10.25
    watch.shows(pod("p", 1))
    watch.shows(node("a"), NODES)
    watch.shows(running("other", on="a", memory=1))
    assert watch.told("informer_delay_seconds") == (0, 0)
    watch.shows(running("p", on="a", memory=1))
    watch.now = 11.0
    watch.shows(running("p", on="a", memory=1))
    assert watch.told("informer_delay_seconds") == (1, 0.25)


def test_a_watch_that_is_faster_than_the_answer_is_not_behind(watch):
    shown = running("p", on="a", memory=1)
    watch.parts.cluster.upsert_pod(shown)
    watch.shows(shown)
    watch.timings.answered("default/p")
    assert watch.told("informer_delay_seconds") == (1, 0)
    watch.now = 5.0
    watch.shows(shown)
    assert watch.told("informer_delay_seconds") == (1, 0)


def test_nothing_is_remembered_of_pods_that_go_before_the_watch_shows_them_bound(watch):
    watch.timings.answered("default/gone-before-the-answer")
    assert not watch.timings._unseen
    place(watch.parts.cluster, pod("p", 1))
    watch.timings.answered("default/p")
    assert watch.timings._unseen
    watch.shows(pod("p", 1), is_gone=True)
    assert not watch.timings._unseen
    watch.shows(running("p", on="a", memory=1))
    assert watch.told("informer_delay_seconds") == (0, 0)


def test_taking_over_is_told_by_kind(watch):
    watch.parts.informer.observer("Pod", 0.002)
    watch.parts.informer.observer("Node", 0.5)
    assert watch.told("informer_apply_duration_seconds", kind="Pod") == (1, 0.002)
    assert watch.told("informer_apply_duration_seconds", kind="Node") == (1, 0.5)


# -- waiting for a node


def test_the_time_that_binds_wait_for_their_node_is_told_whether_their_turn_comes_or_not(watch):
    handovers = watch.parts.handovers

    async def main():
        assert await handovers.acquire("a", pod("x"), 28)
        waiting = [asyncio.create_task(handovers.acquire("a", pod(name), 28)) for name in "yz"]
        await asyncio.sleep(0)
        watch.now = 4.0
        handovers.release("a", pod("x"))
        assert await waiting[0]
        watch.now = 9.0
        waiting[1].cancel()
        await asyncio.wait(waiting)

    asyncio.run(main())
    assert watch.told("bind_wait_duration_seconds") == (3, 0 + 4 + 9)


# -- whole requests


def test_requests_are_timed_by_what_is_asked_and_other_paths_are_not(watch):
    async def app(scope, receive, send):
        watch.now += 0.5
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        if scope["path"] == "/bind":
            raise ValueError("a mistake")

    timed = watch.timings.timed(app)
    for path in ("/filter", "/webhook", "/filter", "/healthz", "/team-a/filter"):
        asyncio.run(ask(timed, path))
    with pytest.raises(ValueError, match="a mistake"):
        asyncio.run(ask(timed, "/bind"))
    found = {
        verb: watch.told("request_duration_seconds", verb=verb) for verb in ("filter", "webhook", "bind", "preempt")
    }
    assert found == {"filter": (2, 1.0), "webhook": (1, 0.5), "bind": (1, 0.5), "preempt": (0, 0)}
    series = parsed(generate_latest(watch.registry).decode())["tonnage_request_duration_seconds_count"]
    assert len(series) == 5


def test_what_is_not_http_passes(watch):
    heard = []

    async def app(scope, receive, send):
        heard.append(scope["type"])

    asyncio.run(watch.timings.timed(app)({"type": "lifespan"}, None, None))
    assert heard == ["lifespan"]
