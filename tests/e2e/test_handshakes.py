"""The handshake with device plugins on a real API server."""

import asyncio
from datetime import UTC, datetime
from unittest.mock import Mock

from tests.kube.live import QUICK, following, run
from tests.scenario import REGISTER, node
from tests.waiting import until_true
from tonnage.devices.catalog import default_vendors
from tonnage.extender.handshake import Handshakes
from tonnage.extender.service import ExtenderService
from tonnage.kube.client import connect
from tonnage.lab.control_plane import ControlPlane
from tonnage.plugins.defaults import default_plugins

HANDSHAKE = "hami.io/node-handshake"
REGISTERED = "gpu/0,10,8000,100,NVIDIA-Tesla V100-PCIE-32GB,0,true,0,hami-core:"
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC).timestamp()


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


class Plugin:
    """A device plugin of the old kind, and the kubelet beside it."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self._api, self._path = plane.api, f"/api/v1/nodes/{name}"
        self.reports = 0

    def report(self) -> None:
        self.reports += 1
        reported = f"Reported 2026-03-01 20:00:00.{self.reports} +0800 CST m=+{self.reports}"
        self._api.patch(self._path, {"metadata": {"annotations": {REGISTER: REGISTERED, HANDSHAKE: reported}}})

    def offer(self, number: int) -> None:
        amount = {"nvidia.com/gpu": str(number)}
        self._api.patch(f"{self._path}/status", {"status": {"capacity": amount, "allocatable": amount}})

    @property
    def said(self) -> str:
        return self._api.get(self._path)["metadata"]["annotations"].get(HANDSHAKE, "")


def test_a_plugin_is_asked_answers_falls_silent_and_returns(control_plane: ControlPlane) -> None:
    async def main() -> None:
        clock = Clock()
        control_plane.api.create_nodes([node("gpu"), node("plain"), node("new", gpus=1)])
        control_plane.api.patch(
            "/api/v1/nodes/new/status",
            {"status": {"capacity": {"nvidia.com/gpu": "10"}, "allocatable": {"nvidia.com/gpu": "10"}}},
        )
        untouched = [control_plane.api.get(f"/api/v1/nodes/{name}") for name in ("plain", "new")]
        plugin = Plugin(control_plane, "gpu")
        plugin.offer(10)
        plugin.report()
        client = await connect(str(control_plane.kubeconfig()))
        async with following(client) as informer:
            cluster = informer.cluster
            hands = Handshakes(client, cluster, clock, lambda: 0.0)

            def shown() -> str:
                return cluster.nodes["gpu"].node.annotations.get(HANDSHAKE, "")

            async def look() -> str:
                """Look twice, as what changes and as everything; the handshake as it is then, known to the picture."""
                await hands.check(["gpu"])
                await hands.check(list(cluster.nodes))
                said = await asyncio.to_thread(lambda: plugin.said)
                await until_true(lambda: shown() == said)
                return said

            async def act(*steps: object) -> None:
                for step in steps:
                    await asyncio.to_thread(step)  # type: ignore[arg-type]
                latest = (await asyncio.to_thread(control_plane.api.get, "/api/v1/nodes/gpu"))["metadata"]
                await until_true(lambda: shown() == latest["annotations"][HANDSHAKE])

            assert await look() == "Requesting_2026-03-01 12:00:00"
            await act(plugin.report)
            clock.now += 30
            assert await look() == "Requesting_2026-03-01 12:00:30"
            assert hands.writes == 2

            # Silent for long, but the kubelet still offers the cards: they stay.
            clock.now += 300
            assert await look() == "Requesting_2026-03-01 12:00:30"
            assert [device.uuid for device in cluster.nodes["gpu"].devices] == ["gpu/0"]

            # It reports once more and dies: a minute later its cards are gone, and nothing is written after that.
            await act(plugin.report, lambda: plugin.offer(0))
            await until_true(lambda: cluster.nodes["gpu"].offers["nvidia.com/gpu"] == 0)
            assert await look() == "Requesting_2026-03-01 12:05:30"
            clock.now += 59
            assert await look() == "Requesting_2026-03-01 12:05:30"
            assert cluster.nodes["gpu"].devices
            clock.now += 1
            assert await look() == "Deleted_2026-03-01 12:06:30"
            await until_true(lambda: not cluster.nodes["gpu"].devices)
            clock.now += 3600
            assert await look() == "Deleted_2026-03-01 12:06:30"
            assert hands.writes == 4

            # It returns.
            await act(lambda: plugin.offer(10), plugin.report)
            await until_true(lambda: len(cluster.nodes["gpu"].devices) == 1)
            assert (await look()).startswith("Requesting_")
            assert hands.writes == 5
        await client.close()
        assert untouched == [control_plane.api.get(f"/api/v1/nodes/{name}") for name in ("plain", "new")]

    run(main())


def test_the_extender_answers_plugins_that_report_while_it_runs(control_plane: ControlPlane) -> None:
    async def main() -> None:
        control_plane.api.create_nodes([node("served")])
        client = await connect(str(control_plane.kubeconfig()))
        service = ExtenderService(client, default_vendors(), default_plugins(), QUICK, Mock(), bytes)
        task = asyncio.create_task(service.run())
        plugin = Plugin(control_plane, "served")
        try:
            await until_true(service.informer.synced.is_set)
            for report in (1, 2):
                before = service.handshakes.writes
                await asyncio.to_thread(plugin.report)
                await until_true(lambda before=before: service.handshakes.writes > before)  # type: ignore[misc]
                await until_true(lambda: "Requesting_" in service.cluster.nodes["served"].node.annotations[HANDSHAKE])
                assert plugin.reports == report
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.close()

    run(main())
