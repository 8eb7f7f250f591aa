"""The parts of an extender that its metrics are about."""

from types import SimpleNamespace
from unittest.mock import Mock

from tests.extender.asking import reservations
from tests.extender.recording import Api
from tonnage.binder.handover import HandoverQueue
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.watch import Backoff


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
