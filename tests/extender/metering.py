"""The parts of an extender that its metrics are about."""

from types import SimpleNamespace
from unittest.mock import Mock

from tests.extender.asking import reservations
from tests.extender.recording import Api, described
from tests.scenario import node, running, scenario
from tonnage.binder.handover import HandoverQueue
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.watch import Backoff
from tonnage.observability import cardmetrics, podmetrics, quotametrics


def parts_of(cluster, clock=lambda: 0.0, **reflectors):
    server, handovers = reservations(cluster), HandoverQueue(clock)
    informer = ClusterInformer(Mock(), cluster, Backoff(draw=lambda: 0.5))
    informer.applied, informer.reflectors, informer.problems = 7, reflectors, {"Pod/x": None}
    return SimpleNamespace(
        cluster=cluster,
        reservations=server,
        handovers=handovers,
        informer=informer,
        binder=Binder(Api(), cluster, server, handovers, clock, clock),
        handshakes=Handshakes(Api(), cluster, clock, lambda: 0.5),
        session=server._session,
        replicas=None,
    )


def reflector(trouble="", lists=1, breaks=0, heard=0.0):
    return SimpleNamespace(trouble=trouble, lists=lists, breaks=breaks, heard=heard)


def one_card():
    return scenario(node("a", gpus=1), running("x", on="a", memory=2000, cores=30))


# -- HAMi's metrics


def of_the_extender():
    """Name, type and labels of all its metrics."""
    metrics = ExtenderMetrics()
    metrics.app(parts_of(one_card(), Node=reflector()))

    def use():
        metrics.wrote("POST", "/api/v1/nodes", 0.1, "success")
        metrics.decisions.labels("filter", "placed")
        metrics.rejected({"Some": 1})
        metrics.event("written")
        metrics.requeued("written")
        metrics.timings.apply_seconds.labels("Pod")
        metrics.timings.timed(None)

    found = described(metrics.registry, use)
    for family in (
        *(one.family for one in (*cardmetrics.NEW, *cardmetrics.OLD)),
        *podmetrics.NEW,
        *podmetrics.OLD,
        *quotametrics.NEW,
        *quotametrics.OLD,
    ):
        found.add((family.name, "gauge", frozenset(family.labels) - {"zone"}))
    return found
