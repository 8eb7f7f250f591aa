"""The informer on a real API server, while connections are cut and the server restarts."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.command import tonnage
from tests.e2e.proxy import wire
from tests.kube.live import following, run, until_same
from tests.scenario import node, pod, running
from tonnage.kube.client import Client, connect
from tonnage.kube.errors import OutdatedError
from tonnage.kube.kinds import PODS, VOLCANO_QUEUES
from tonnage.kube.watch import Backoff, Reflector, listing
from tonnage.lab import definitions
from tonnage.lab.api import Api, ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane

SECONDS_OF_CHANGES = 20.0


def change_something(api: Api, rng: random.Random) -> None:
    """Nodes and pods come, change and go; what makes no sense at the time is refused."""
    name, host = f"p{rng.randrange(40)}", f"n{rng.randrange(8)}"
    at_pod, at_node = f"{pods_path()}/{name}", f"/api/v1/nodes/{host}"
    match rng.randrange(10):
        case 0:
            api.create_nodes([node(host, gpus=3)])
        case 1:
            api.patch(at_node, {"metadata": {"labels": {"zone": str(rng.randrange(3))}}})
        case 2:
            api.patch(at_node, {"spec": {"unschedulable": rng.random() < 0.5}})
        case 3:
            api.delete(at_node)
        case 4:
            api.create_pods([running(name, on=host, gpu=rng.randrange(3), memory=100)])
        case 5:
            api.create_pods([pod(name, 1)])
        case 6:
            api.patch(at_pod, {"metadata": {"annotations": {"note": str(rng.random())}}})
        case 7:
            api.patch(f"{at_pod}/status", {"status": {"phase": rng.choice(["Running", "Succeeded", "Failed"])}})
        case 8:
            api.create(f"{at_pod}/binding", {"metadata": {"name": name}, "target": {"kind": "Node", "name": host}})
        case _:
            api.delete(at_pod)


def change_things(api: Api, rng: random.Random, times: int) -> None:
    """Make so many changes, or as many as a slow machine can make in some seconds."""
    end = time.monotonic() + SECONDS_OF_CHANGES
    while times and time.monotonic() < end:
        times -= 1
        with suppress(ApiError):
            change_something(api, rng)


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Client]:
    client = await connect(str(kubeconfig))
    try:
        yield client
    finally:
        await client.close()


def kubeconfig_through(plane: ControlPlane, address: str, folder: Path) -> Path:
    config = json.loads(plane.kubeconfig().read_text())
    config["clusters"][0]["cluster"]["server"] = address
    path = folder / "through-the-wire"
    path.write_text(json.dumps(config))
    return path


def test_after_cuts_nothing_differs(control_plane: ControlPlane, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            wire(control_plane.server) as between,
            client_of(kubeconfig_through(control_plane, between.address, tmp_path)) as client,
            following(client) as informer,
        ):
            work = asyncio.create_task(asyncio.to_thread(change_things, control_plane.api, random.Random(1), 600))
            cuts = 0
            while not work.done() or informer.reflectors["Pod"].breaks <= 3:
                await asyncio.sleep(0.15)
                between.cut()
                cuts += 1
            await work
            assert cuts > 3
            assert informer.reflectors["Pod"].breaks > 3
            # Whatever was changed last, something runs.
            await asyncio.to_thread(control_plane.api.create_nodes, [node("stays", gpus=3)])
            await asyncio.to_thread(control_plane.api.create_pods, [running("stays", on="stays", gpu=0, memory=100)])
            await until_same(client, informer.cluster)
            assert "stays" in informer.cluster.nodes
            assert informer.cluster.holders["default/stays"] == "stays"
            assert not informer.problems

    run(main())


def test_a_restart_of_the_api_server_is_survived(control_plane: ControlPlane) -> None:
    async def main() -> None:
        async with client_of(control_plane.kubeconfig()) as client, following(client) as informer:
            control_plane.api_server.stop()
            await asyncio.to_thread(control_plane.start_server)
            await asyncio.to_thread(change_things, control_plane.api, random.Random(2), 200)
            await until_same(client, informer.cluster)

    run(main())


def test_the_real_server_calls_an_old_version_outdated(control_plane: ControlPlane) -> None:
    """Of a kind that it has known for a moment; of others it may still know all that ever happened."""
    definitions.install(control_plane.api, "queues.scheduling.volcano.sh")

    async def main() -> None:
        async with client_of(control_plane.kubeconfig()) as client:
            with pytest.raises(OutdatedError, match="too old resource version"):
                async for _ in Reflector(client, VOLCANO_QUEUES.resource, Backoff(draw=lambda: 0.0))._watch("1"):
                    pass

    run(main())


def test_a_list_of_several_pages_is_complete(control_plane: ControlPlane) -> None:
    async def main() -> None:
        async with client_of(control_plane.kubeconfig()) as client:
            control_plane.api.create_pods([pod(f"page-{number}") for number in range(25)])
            keys = [change.key async for batch, _ in listing(client, PODS.resource, 10) for change in batch.changes]
            assert len(keys) == len(set(keys)) == len(control_plane.api.get("/api/v1/pods")["items"])

    run(main())


def test_the_debug_command_finds_no_difference(control_plane: ControlPlane) -> None:
    control_plane.api.create_nodes([node("seen", gpus=2)])
    done = tonnage("debug", "compare", "--seconds", "0.2", "--kubeconfig", control_plane.kubeconfig(), "-o", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["nodes"] >= 1
    assert document["differences"] == document["problems"] == []
    shown = tonnage("debug", "compare", "--seconds", "0", "--kubeconfig", control_plane.kubeconfig())
    assert shown.stdout.rstrip().endswith("no difference")


def test_the_debug_command_says_why_it_cannot_look(control_plane: ControlPlane) -> None:
    control_plane.api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "stranger"}})
    done = tonnage("debug", "compare", "--kubeconfig", control_plane.kubeconfig_of("default", "stranger"))
    assert done.returncode == 1
    assert "403 Forbidden" in done.stderr
