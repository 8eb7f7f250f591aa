"""The parts of an extender that its metrics are about."""

import asyncio
from types import SimpleNamespace

from tests.extender.asking import reservations
from tests.extender.recording import Api
from tonnage.binder.handover import HandoverQueue
from tonnage.extender.binding import Binder
from tonnage.extender.handshake import Handshakes


def parts_of(cluster, clock=lambda: 0.0, **reflectors):
    door, handovers = reservations(cluster), HandoverQueue(clock)
    informer = SimpleNamespace(
        synced=asyncio.Event(), applied=7, reflectors=reflectors, problems={"Pod/x": None}, listeners=[], observer=None
    )
    return SimpleNamespace(
        cluster=cluster,
        reservations=door,
        handovers=handovers,
        informer=informer,
        binder=Binder(Api(), cluster, door, handovers, clock, clock),
        handshakes=Handshakes(Api(), cluster, clock, lambda: 0.5),
        session=door._session,
        replicas=None,
    )


def reflector(trouble="", lists=1, breaks=0, heard=0.0):
    return SimpleNamespace(trouble=trouble, lists=lists, breaks=breaks, heard=heard)
