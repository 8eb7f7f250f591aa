"""The handlers of every kind in the registry: an object that the cluster takes is known until it is dropped."""

import pytest

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.handlers import HANDLERS
from tonnage.devices.catalog import default_vendors
from tonnage.model.group import PriorityClass
from tonnage.model.hypernode import HyperNode
from tonnage.model.kinds import BY_HEADER, BY_STRUCT, KINDS, ObjectKind
from tonnage.model.wire import convert

REQUIRED = {PriorityClass: {"value": 1}, HyperNode: {"spec": {"tier": 1}}}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.struct.__name__)
def test_an_object_is_known_until_it_is_dropped(kind: ObjectKind) -> None:
    cluster, handler = Cluster(default_vendors()), HANDLERS[kind.struct]
    metadata = {"name": "x", "namespace": "team"} if kind.is_namespaced else {"name": "x"}
    thing = convert({"metadata": metadata, **REQUIRED.get(kind.struct, {})}, kind.struct)
    key = kind.key(thing.metadata)
    assert key == ("team/x" if kind.is_namespaced else "x")
    assert kind.key(kind.meta(key)) == key
    handler.put(cluster, thing)
    assert key in handler.known(cluster)
    handler.drop(cluster, key, None)
    assert key not in handler.known(cluster)


def test_kinds_are_told_apart_by_type_by_header_and_by_path() -> None:
    assert len(BY_STRUCT) == len(BY_HEADER) == len({kind.path for kind in KINDS}) == len(KINDS)
    assert BY_HEADER["v1", "Pod"].path == "/api/v1/pods"
    assert BY_HEADER["scheduling.run.ai/v2", "Queue"].path == "/apis/scheduling.run.ai/v2/queues"
