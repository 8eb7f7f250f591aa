"""Random changes while random things go wrong with the watch; at the end the cluster is that of a fresh list."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.kube.fake_server import NODES, PODS, FakeServer, Stream, error_line
from tests.kube.live import live, run
from tests.scenario import node, pod, running


def change_something(server: FakeServer, rng: random.Random) -> None:
    name = f"n{rng.randrange(6)}"
    match rng.randrange(6):
        case 0:
            server.put(node(name, gpus=rng.randrange(4), cpu=rng.choice(["8", "16"])))
        case 1 if (NODES, name) in server.objects:
            server.delete(NODES, name)
        case 2 | 3:
            server.put(running(f"p{rng.randrange(20)}", on=name, gpu=rng.randrange(3), memory=100))
        case 4:
            server.put(pod(f"p{rng.randrange(20)}", 1, phase=rng.choice(["Pending", "Succeeded"])))
        case _:
            known = sorted(name for path, name in server.objects if path == PODS)
            if known:
                server.delete(PODS, rng.choice(known))


async def misbehave(stream: Stream, rng: random.Random) -> None:
    """Behave for a while, then not."""
    for _ in range(rng.randrange(3)):
        data = b"".join(await stream.lines())
        while data:
            size = rng.randrange(1, 2000)
            await stream.send(data[:size])
            data = data[size:]
    match rng.randrange(5):
        case 0:
            await stream.send((await stream.lines())[0][:50])
            stream.hang_up()
        case 1:
            await stream.send(error_line(410, "Expired"))
        case 2:
            await stream.send(error_line(500, "InternalError"))
        case 3:
            await stream.send(b"\x00\xffgarbage\n")
        case _:
            await asyncio.sleep(60)


@pytest.mark.parametrize("seed", range(8))
def test_after_chaos_nothing_differs(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    async def main() -> None:
        async with live(tmp_path, silence=0.2) as now:
            for _ in range(60):
                for _ in range(rng.randrange(8)):
                    change_something(now.server, rng)
                if rng.random() < 0.2:
                    now.server.plans.append(lambda stream: misbehave(stream, rng))
                if rng.random() < 0.1:
                    now.server.forget_history()
                if rng.random() < 0.1:
                    now.server.stop_connections()
                await asyncio.sleep(0.01 * rng.random())
            now.server.plans.clear()
            now.server.stop_connections()
            await now.until_same()
            assert now.informer.reflectors["Pod"].breaks
            assert not now.informer.problems

    run(main())
