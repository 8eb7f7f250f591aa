"""The extender explains pods by all rules, on a copy in which reserved places are taken."""

import asyncio
import json
from unittest.mock import Mock

from tests.extender.recording import Api
from tests.kube.live import QUICK
from tests.scenario import node, pod
from tests.server.strangers import LOOPBACK, asked, head, serving
from tonnage.devices.catalog import default_vendors
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.extender.service import ExtenderService
from tonnage.kube.kinds import NODES, PODS
from tonnage.plugins.defaults import default_plugins
from tonnage.server.access import CallerAccess
from tonnage.server.explaining import explain_route


def test_a_pod_is_told_who_has_the_reserved_place_and_which_selector_keeps_it_off():
    async def main():
        service = ExtenderService(Api(), default_vendors(), default_plugins(), QUICK, Mock(), bytes)
        cluster = service.cluster
        for name in ("a", "b"):
            NODES.handler.put(cluster, node(name, gpus=1, labels={"zone": name}))
        for one in (pod("first", 1, memory=6000), pod("second", 1, memory=4000, selector={"zone": "a"})):
            PODS.handler.put(cluster, one)
        service.session.place(cluster.waiting["default/first"], cluster.mask(["a"]))
        service.ready.set()
        metrics = ExtenderMetrics()
        route = explain_route(service.ready, service.scheduled, CallerAccess(None, lambda: cluster).viewer_of())
        async with serving(metrics.app(service, more=[route])) as port:
            assert b" 403 " in await asked(port, head("/explain/pod/second"))
            answer = await asked(port, head("/explain/pod/second"), LOOPBACK)
        found = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert found["misses"][0]["holders"][0]["pod"] == "default/first"
        assert "it fits without the node selector zone: a" in [one["sentence"] for one in found["suggestions"]]
        assert list(cluster.reserved) == ["default/first"]
        service.session.close()

    asyncio.run(main())
