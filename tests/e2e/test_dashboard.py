"""The dashboard on a real API server: pods that come and go, a server that is away, and a tenant of one namespace."""

import asyncio
from pathlib import Path

from tests.dashboard.asking import Asked
from tests.e2e.viewers import deployed_rules, viewer
from tests.kube.live import run
from tests.scenario import node, pod, running
from tests.waiting import until_true
from tonnage.config.defaults import DEFAULT_ACTIONS
from tonnage.dashboard.app import always
from tonnage.dashboard.sources.viewedsource import ViewedSource
from tonnage.devices.catalog import default_vendors
from tonnage.kube.client import connect
from tonnage.lab.control_plane import ControlPlane
from tonnage.live.followed import FollowedCluster, following
from tonnage.live.view import ClusterView
from tonnage.plugins.defaults import default_plugins
from tonnage.server.viewer import Viewer


def viewed(live: FollowedCluster) -> ViewedSource:
    return ViewedSource(ClusterView(live, "the lab", default_plugins(), DEFAULT_ACTIONS, "binpack/spread"))


def test_pages_follow_the_api_server_and_say_when_it_is_away(fresh_control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = fresh_control_plane
    plane.api.create_nodes([node("a", gpus=2), node("b", gpus=2)])
    plane.api.create_pods([running("x", on="a", gpu=1, memory=100), pod("y", 1)])
    kubeconfig = viewer(plane, tmp_path, "may-look", deployed_rules())

    async def main() -> None:
        client = await connect(kubeconfig)
        try:
            async with following(client, default_vendors()) as live:
                asked = Asked(viewed(live))

                async def shown(path: str) -> str:
                    asked.board.look()
                    return (await asked.ask(path)).text

                async def until_shown(path: str, words: str, is_there: bool = True) -> None:
                    while (words in await shown(path)) != is_there:
                        await asyncio.sleep(0.1)

                assert 'id="n-a"' in await shown("/")
                assert "default/x" in await shown("/nodes/a")
                new = [running("came", on="b", gpu=0, memory=100), pod("waits-too", 8)]
                await asyncio.to_thread(plane.api.create_pods, new)
                await until_shown("/nodes/b", "default/came")
                await until_shown("/waiting", "default/waits-too")
                await until_shown("/decisions", "default/came")
                await asyncio.to_thread(plane.api.delete, "/api/v1/namespaces/default/pods/waits-too")
                await until_shown("/waiting", "default/waits-too", is_there=False)
                await asyncio.to_thread(plane.api_server.stop)
                await until_true(lambda: bool(asked.source.trouble))
                assert 'data-trouble=""' not in await shown("/")
                assert 'id="n-a"' in await shown("/")
                await asyncio.to_thread(plane.start_server)
                await until_true(lambda: not asked.source.trouble)
        finally:
            await client.close()

    run(main())


def test_a_tenant_with_rights_in_one_namespace_sees_its_pods(control_plane: ControlPlane, tmp_path: Path) -> None:
    plane = control_plane
    kubeconfig = viewer(plane, tmp_path, "lives-here", in_namespaces=["default"])
    plane.api.create_pods([pod("mine", 1)])

    async def main() -> None:
        client = await connect(kubeconfig)
        try:
            async with following(client, default_vendors(), namespace="default") as live:
                source = viewed(live)
                asked = Asked(source, always(Viewer(frozenset(("default",)), source.reads_nodes)))
                assert "default/mine" in (await asked.ask("/waiting")).text
                assert "right to list nodes" in (await asked.ask("/")).text
                assert (await asked.ask("/nodes/a")).status == 403
        finally:
            await client.close()

    run(main())
