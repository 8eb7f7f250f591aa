"""When the API server was last heard of, and how long changes take from the watch into the cluster."""

import asyncio
import time
from pathlib import Path

from tests.kube.fake_server import NODES, PODS, FakeServer, Stream
from tests.kube.live import live, run
from tests.scenario import node, pod

BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"200"}}}\n'


def test_a_bookmark_is_a_word_of_the_server(tmp_path: Path) -> None:
    noted = asyncio.Event()

    async def only_a_bookmark(stream: Stream) -> None:
        await noted.wait()
        await stream.send(BOOKMARK)
        await stream.honest()

    def prepare(server: FakeServer) -> None:
        server.put(pod("y", 1))
        server.plans.append(only_a_bookmark)

    async def main() -> None:
        begun = time.monotonic()
        async with live(tmp_path, prepare) as now:
            reflector = now.informer.reflectors["Pod"]
            await now.until(lambda: bool(now.server.watches(PODS)))
            listed = reflector.heard
            assert begun <= listed <= time.monotonic()
            noted.set()
            await now.until(lambda: reflector.heard > listed)
            assert now.informer.applied == 1, "nothing but the list has changed the picture"

    run(main())


def test_a_kind_of_which_nothing_is_heard_grows_silent_while_others_are_heard(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path) as now:
            nodes, pods = now.informer.reflectors["Node"], now.informer.reflectors["Pod"]
            # Watches have begun, and there is nothing more to say.
            await now.until(lambda: bool(now.server.watches(PODS) and now.server.watches(NODES)))
            silent, before = nodes.heard, pods.heard
            now.server.put(pod("z", 1))
            await now.until(lambda: pods.heard > before)
            assert nodes.heard == silent

    run(main())


def test_changes_from_a_watch_are_timed_until_all_listeners_know_and_lists_are_not(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    slow = 0.02

    async def main() -> None:
        async with live(tmp_path, lambda server: server.put(node("a", gpus=1))) as now:
            now.informer.observer = lambda kind, seconds: told.append((kind, seconds))
            now.informer.add_listener(now.kinds, lambda kind, changes: time.sleep(slow))
            now.server.put(pod("listed", 1))
            now.server.forget_history()
            await now.until(lambda: now.informer.reflectors["Pod"].lists == 2)
            assert told == []
            now.server.put(pod("watched", 1))
            await now.until(lambda: bool(told))
            assert [kind for kind, _ in told] == ["Pod"]
            assert slow <= told[0][1] < 10

    run(main())
