"""The number of series does not grow with what happens: no label has the name of a pod, a node or a card."""

import asyncio

from prometheus_client import generate_latest

from tests.extender.asking import asked, named
from tests.extender.metering import parts_of, reflector
from tests.extender.recording import Api, parsed
from tests.scenario import node, pod, running, scenario
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.extender.protocol import BindArgs
from tonnage.extender.recorder import ExtenderRecorder
from tonnage.kube.kinds import PODS
from tonnage.kube.resource import Change
from tonnage.observability.events import EventRecorder

NODES = 20
PODS_PLACED = 3000


class Busy:
    """An extender that is asked about pods of ever other names, and tells of all."""

    def __init__(self):
        self.cluster = scenario(*[node(f"n{number}", gpus=8) for number in range(NODES)])
        self.parts = parts_of(self.cluster, Node=reflector(), Pod=reflector())
        self.metrics = ExtenderMetrics()
        self.events = EventRecorder(Api(), lambda: 0.0, count=self.metrics.event)
        self.recorder = ExtenderRecorder(self.metrics, self.events)
        self.app = self.metrics.app(self.parts)
        self.names = list(self.cluster.nodes)

    def live(self, number):
        """One pod comes, is placed or not, bound or not, seen and deleted."""
        name = f"p{number}"
        args = asked(named(name, str(number), gpus=1, memory=100 + number % 2 * 10**6), *self.names)
        filtered = self.parts.reservations.filter(args, float(number))
        self.recorder.filtered(args, filtered, 0.0001 * (number % 50))
        decision, path = filtered.decision, f"/api/v1/namespaces/default/pods/{name}"
        if decision.node is None:
            return
        binding = BindArgs(name, "default", str(number), decision.node)
        if number % 3:
            self.metrics.wrote("POST", f"{path}/binding", 0.004, "success")
            self.metrics.wrote("PATCH", path, 0.004, "success")
            self.recorder.bound(binding, decision, 0.01)
            bound = running(name, on=decision.node, memory=100)
            self.cluster.upsert_pod(bound)
            self.parts.informer.tell(PODS, [Change(bound.key, bound)])
        else:
            self.metrics.wrote("POST", f"{path}/binding", 0.004, "conflict")
            self.recorder.not_bound(binding, f"{name} is bound already", 30.0)
            self.recorder.plugin_failed(pod(name, on=decision.node))
        self.cluster.remove_pod(f"default/{name}")
        self.parts.informer.tell(PODS, [Change(f"default/{name}", is_gone=True)])

    def series(self):
        found = parsed(generate_latest(self.metrics.registry).decode())
        return {(name, labels) for name, samples in found.items() for labels in samples}


def test_thousands_of_pods_make_no_more_series_than_the_first_ones():
    busy = Busy()
    for number in range(12):
        busy.live(number)
    first = busy.series()
    for number in range(12, PODS_PLACED):
        busy.live(number)
    assert busy.series() == first
    assert len(first) < 500
    values = {value for _, labels in first for _, value in labels}
    assert not {value for value in values if value.startswith(("p1", "p2", "default/", "n1"))}
    assert not busy.metrics.timings._unseen


def test_the_whole_scrape_of_pods_that_have_gone_is_that_of_none():
    busy = Busy()
    for number in range(12):
        busy.live(number)

    async def lines():
        parts = [part async for part in busy.metrics.exposition(busy.cluster, legacy=True)]
        return b"".join(parts).count(b"\n")

    before = asyncio.run(lines())
    for number in range(12, 200):
        busy.live(number)
    assert asyncio.run(lines()) == before
