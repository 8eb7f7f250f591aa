"""What claims and volumes are told, each onto the version that was just read; and refusals and conflicts."""

import asyncio

import pytest

from tests.binder.volumestore import CLAIM, VOLUME, VolumeStore
from tests.storage import claim
from tonnage.binder.binding import BindError
from tonnage.binder.volumewriter import VolumeWriter
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.model.storage import BOUND_BY_CONTROLLER, SELECTED_NODE

WANTED = claim("c", storage_class="fast", uid="u1")
OTHERS = {"spec": {"claimRef": {"namespace": "default", "name": "d", "uid": "u9"}}}


def select_node(store, node="a"):
    return asyncio.run(VolumeWriter(store).select_node(WANTED, node))


def set_claim(store):
    return asyncio.run(VolumeWriter(store).set_claim("pv", WANTED))


def test_a_claim_is_told_its_node_once():
    store = VolumeStore()
    assert select_node(store)
    assert select_node(store, "b")
    assert store.writes == [{"metadata": {"annotations": {SELECTED_NODE: "a"}}}]


def test_a_free_volume_is_told_its_claim_once():
    store = VolumeStore()
    assert set_claim(store)
    assert set_claim(store)
    (written,) = store.writes
    assert written["metadata"] == {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    named = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "uid": "u1"}
    assert written["spec"] == {"claimRef": named}


def test_a_volume_that_an_administrator_gave_to_the_claim_learns_which_claim_that_is():
    store = VolumeStore(volume={"spec": {"claimRef": {"namespace": "default", "name": "c"}}})
    assert set_claim(store)
    assert store.objects[VOLUME]["spec"]["claimRef"]["uid"] == "u1"
    assert store.writes[0]["metadata"] == {"annotations": {}}, "the binding stays when the claim goes"


def test_after_a_conflict_a_claim_is_read_again_and_keeps_the_node_that_another_scheduler_told_it():
    store = VolumeStore()
    store.between = lambda: store.put(CLAIM, {"metadata": {"annotations": {SELECTED_NODE: "b"}}})
    assert not select_node(store)
    assert select_node(store)
    assert store.writes == []
    assert store.objects[CLAIM]["metadata"]["annotations"] == {SELECTED_NODE: "b"}


def test_after_a_conflict_that_changes_nothing_the_next_try_writes():
    store = VolumeStore()
    store.between = lambda: store.put(CLAIM, {"metadata": {"labels": {"team": "a"}}})
    assert not select_node(store)
    assert select_node(store)
    assert store.objects[CLAIM]["metadata"]["annotations"] == {SELECTED_NODE: "a"}


def test_a_volume_that_another_claim_got_meanwhile_is_not_overwritten():
    store = VolumeStore()
    store.between = lambda: store.put(VOLUME, OTHERS)
    assert not set_claim(store)
    with pytest.raises(BindError, match="the PersistentVolume pv is not free any more for default/c") as raised:
        set_claim(store)
    assert raised.value.lasting
    assert store.writes == []


def test_a_later_claim_of_the_same_name_is_another_one():
    store = VolumeStore(claim={"metadata": {"uid": "u7"}})
    with pytest.raises(BindError, match="the PersistentVolumeClaim default/c is another one now"):
        select_node(store)
    store = VolumeStore(volume={"spec": {"claimRef": {"namespace": "default", "name": "c", "uid": "u7"}}})
    with pytest.raises(BindError, match="not free any more"):
        set_claim(store)
    assert store.writes == []


def test_a_volume_that_is_being_deleted_is_not_free():
    with pytest.raises(BindError, match="not free any more"):
        set_claim(VolumeStore(volume={"metadata": {"uid": "u2", "deletionTimestamp": "2026-01-01T00:00:00Z"}}))


@pytest.mark.parametrize(
    "failure", [StatusError(403, "Forbidden", "no"), StatusError(404, "NotFound", "gone")], ids=["forbidden", "gone"]
)
def test_a_refusal_that_stays_ends_the_bind(failure):
    store = VolumeStore()
    store.failure = failure
    for write, said in ((select_node, "claim default/c cannot be told its node a: 40"), (set_claim, "cannot be bound")):
        with pytest.raises(BindError, match=said) as raised:
            write(store)
        assert raised.value.lasting


@pytest.mark.parametrize(
    "failure",
    [StatusError(429, "TooManyRequests", ""), StatusError(500, "InternalError", ""), ConnectionLostError("no answer")],
    ids=["overloaded", "failing", "silent"],
)
def test_a_failure_that_passes_is_not_the_end(failure):
    store = VolumeStore()
    store.failure = failure
    assert not select_node(store)
    assert not set_claim(store)
    store.failure = None
    assert select_node(store)
    assert set_claim(store)


def test_an_answer_that_cannot_be_read_is_a_failure_that_passes():
    store = VolumeStore()
    store.objects[CLAIM] = {"metadata": 7}
    assert not select_node(store)
