"""Volumes of pods: claims that cannot be used, nodes that do not reach a volume, and nodes that have enough of them."""

import pytest

from tests.neighbours import labelled, zoned
from tests.scenario import decide, reasons, scenario, session
from tests.storage import LATE, allowed, claim, limit, storage_class, volume
from tonnage.cluster.task import make_task
from tonnage.model.selection import Expression, LabelSelector
from tonnage.model.storage import CSISource


def zones(*others, pods=()):
    cluster = scenario(zoned("a1", "a"), zoned("b1", "b"), zoned("x"), *pods)
    for thing in others:
        cluster.upsert_surrounding(thing)
    return cluster


def feasible(cluster, wanted):
    return sorted(decide(cluster, wanted).scores)


USER = labelled("p", claims=["data"])


# -- claims


@pytest.mark.parametrize(
    ("things", "reason", "said"),
    [
        ([claim("other")], "ClaimNotFound", "there is no PersistentVolumeClaim default/data"),
        ([claim(leaving=True)], "ClaimBeingDeleted", "default/data is being deleted"),
        ([claim(volume="pv", phase="Lost")], "ClaimLost", "default/data has lost its volume pv"),
        ([claim()], "ClaimNotBound", "has no volume yet and no class that would make one"),
        ([claim(storage_class="")], "ClaimNotBound", "has no volume yet and no class that would make one"),
        (
            [claim(storage_class="now"), storage_class("now", "Immediate")],
            "ClaimNotBound",
            "its class now does not wait",
        ),
        ([claim(storage_class="now"), storage_class("now", None)], "ClaimNotBound", "its class now does not wait"),
        ([claim(storage_class="gone"), storage_class()], "ClaimNotBound", "there is no StorageClass gone"),
        ([claim(volume="pv"), volume("other")], "VolumeNotFound", "is bound to pv, and there is no such"),
    ],
)
def test_a_claim_that_cannot_be_used_keeps_the_pod_waiting(things, reason, said):
    decision = decide(zones(*things), USER)
    assert reasons(decision) == {reason: 3}
    assert said in decision.rejected[0].message


def test_a_claim_for_one_pod_is_used_by_one_pod():
    cluster = zones(
        claim(volume="pv", modes=["ReadWriteOncePod"]), volume(), pods=[labelled("u", on="a1", claims=["data"])]
    )
    decision = decide(cluster, USER)
    assert reasons(decision) == {"ClaimInUse": 3}
    assert decision.rejected[0].message == (
        "the PersistentVolumeClaim default/data is ReadWriteOncePod, and default/u on a1 uses it"
    )
    cluster.remove_pod("default/u")
    assert decide(cluster, USER).node == "a1"


def test_the_second_of_two_waiting_pods_sees_that_the_first_took_the_claim():
    cluster = zones(claim(volume="pv", modes=["ReadWriteOncePod"]), volume())
    open_session = session(cluster)
    first, second = (make_task(labelled(name, claims=["data"]), cluster.vendors) for name in "pq")
    assert open_session.place(first).node == "a1"
    assert open_session.decide(first).node == "a1"
    assert reasons(open_session.place(second)) == {"ClaimInUse": 3}
    assert open_session.place(first).node == "a1"
    open_session.unplace(first.key)
    assert open_session.place(second).node == "a1"


def test_an_ephemeral_volumes_claim_is_called_after_pod_and_volume():
    cluster = zones(claim("p-scratch", "pv"), volume(zone="b"))
    assert feasible(cluster, labelled("p", ephemeral=["scratch"])) == ["b1"]
    assert reasons(decide(cluster, labelled("q", ephemeral=["scratch"]))) == {"ClaimNotFound": 3}


def test_what_is_not_given_at_all_blocks_nobody_and_is_said_once():
    for things, field in (
        ([], "PersistentVolumeClaim"),
        ([claim(volume="pv")], "PersistentVolume"),
        ([claim(storage_class="fast")], "StorageClass"),
    ):
        cluster = zones(*things)
        with session(cluster) as open_session:
            for name in "pq":
                assert open_session.decide(make_task(labelled(name, claims=["data"]), cluster.vendors)).node == "a1"
            told = open_session.problems()
        assert [(problem.object, problem.field) for problem in told] == [("Plugin/predicates", field)]
        assert "default/p" in told[0].message


# -- volumes that claims have


def test_a_pod_goes_where_its_volume_can_be_reached():
    decision = decide(zones(claim(volume="pv"), volume(zone="b")), USER)
    assert sorted(decision.scores) == ["b1"]
    assert reasons(decision) == {"VolumeNodeAffinityConflict": 2}
    assert decision.rejected[0].message == "a1: the volume pv of claim default/data cannot be reached from there"


def test_all_volumes_must_be_reached():
    cluster = zones(claim("one", "pv1"), claim("two", "pv2"), volume("pv1", zone="a"), volume("pv2", zone="b"))
    assert feasible(cluster, labelled("p", claims=["one", "two"])) == []


def test_zone_labels_of_a_volume_count_where_nodes_say_their_zone():
    decision = decide(zones(claim(volume="pv"), volume(where="b")), USER)
    assert sorted(decision.scores) == ["b1", "x"]
    assert reasons(decision) == {"VolumeZoneConflict": 1}
    assert decision.rejected[0].message == (
        "a1: the volume pv of claim default/data is in topology.kubernetes.io/zone=b"
    )
    assert feasible(zones(claim(volume="pv"), volume(where="a__b")), USER) == ["a1", "b1", "x"]


def test_a_volumes_old_zone_label_means_the_new_one():
    old = volume(labels={"failure-domain.beta.kubernetes.io/zone": "b"})
    assert feasible(zones(claim(volume="pv"), old), USER) == ["b1", "x"]
    region = volume(labels={"topology.kubernetes.io/region": "r"})
    assert feasible(zones(claim(volume="pv"), region), USER) == ["x"]


# -- volumes that claims will get


def test_a_class_makes_volumes_for_the_nodes_it_allows():
    waiting = claim(storage_class="fast")
    assert feasible(zones(waiting, storage_class()), USER) == ["a1", "b1", "x"]
    only_b = storage_class("fast", LATE, "csi.example.com", allowed(zone=["b", "c"]))
    decision = decide(zones(waiting, only_b), USER)
    assert sorted(decision.scores) == ["b1"]
    assert reasons(decision) == {"NoVolumeForNode": 2}
    assert decision.rejected[0].message == (
        "a1: claim default/data finds no free volume there, and its class fast makes none for such nodes"
    )
    either = storage_class("fast", LATE, "csi.example.com", allowed(zone=["b"]), allowed(zone=["a"]))
    assert feasible(zones(waiting, either), USER) == ["a1", "b1"]
    both = storage_class("fast", LATE, "csi.example.com", allowed(zone=["b"], rack=["r"]))
    assert feasible(zones(waiting, both), USER) == []


def test_a_free_volume_will_do_where_the_class_makes_none():
    only_b = storage_class("fast", LATE, "csi.example.com", allowed(zone=["b"]))
    cluster = zones(claim(storage_class="fast"), only_b, volume("spare", "fast", zone="a"))
    assert feasible(cluster, USER) == ["a1", "b1"]


@pytest.mark.parametrize(
    ("there", "fits"),
    [
        (volume("pv", "local", zone="b"), True),
        (volume("pv", "local", zone="b", size="500Mi"), False),
        (volume("pv", "other", zone="b"), False),
        (volume("pv", "local", zone="b", owner="someone"), False),
        (volume("pv", "local", zone="b", owner="data"), True),
        (volume("pv", "local", zone="b", volumeMode="Block"), False),
        (volume("pv", "local", zone="b", size="lots"), False),
    ],
)
def test_a_class_that_makes_nothing_needs_a_free_volume(there, fits):
    cluster = zones(claim(storage_class="local"), storage_class("local", LATE, "kubernetes.io/no-provisioner"), there)
    assert feasible(cluster, USER) == (["b1"] if fits else [])


def test_a_free_volume_must_have_the_claims_modes_and_labels():
    local = storage_class("local", LATE, "kubernetes.io/no-provisioner")
    shared = volume("pv", "local", accessModes=["ReadWriteOnce", "ReadWriteMany"], labels={"disk": "ssd"})
    for modes, disk, fits in ((["ReadWriteMany"], "ssd", True), (["ReadOnlyMany"], "ssd", False), (None, "hdd", False)):
        wanted = claim(storage_class="local", modes=modes, selector=LabelSelector({"disk": disk}))
        assert (feasible(zones(local, shared, wanted), USER) != []) == fits
    odd = claim(storage_class="local", selector=LabelSelector(matchExpressions=[Expression("disk", "Near", ["x"])]))
    assert feasible(zones(local, shared, odd), USER) == []


def test_two_pods_do_not_get_the_same_local_volume():
    local = storage_class("local", LATE, "kubernetes.io/no-provisioner")
    cluster = zones(
        local,
        volume("pv-a", "local", zone="a"),
        volume("pv-b", "local", zone="b"),
        *(claim(c, None, "local") for c in "cde"),
    )
    open_session = session(cluster)
    tasks = [make_task(labelled(f"p{c}", claims=[c]), cluster.vendors) for c in "cde"]
    assert [open_session.place(task).node for task in tasks] == ["a1", "b1", None]
    assert feasible(cluster, labelled("both", claims=["c", "d"])) == []


# -- limits


def test_a_node_takes_as_many_volumes_of_a_driver_as_it_can():
    csi = CSISource("csi.example.com", "handle")
    things = [volume(f"pv{n}", csi=csi) for n in range(3)] + [claim(f"c{n}", f"pv{n}") for n in range(3)]
    users = [labelled("u0", on="a1", claims=["c0"]), labelled("u1", on="a1", claims=["c0"])]
    cluster = zones(*things, limit("a1", 1), limit("b1", 0), limit("x", 5, "other"), pods=users)
    decision = decide(cluster, labelled("p", claims=["c1"]))
    assert sorted(decision.scores) == ["x"]
    assert reasons(decision) == {"VolumeLimitExceeded": 2}
    assert decision.rejected[0].message == "a1: has 1 of 1 volumes of csi.example.com, and the pod needs 1 more"
    assert feasible(cluster, labelled("p", claims=["c0"])) == ["a1", "x"]
    cluster.remove_pod("default/u0")
    assert feasible(cluster, labelled("p", claims=["c1"])) == ["x"]
    cluster.remove_pod("default/u1")
    assert feasible(cluster, labelled("p", claims=["c1"])) == ["a1", "x"]
    assert feasible(cluster, labelled("p", claims=["c1", "c2"])) == ["x"]


def test_limits_hold_within_a_session():
    csi = CSISource("csi.example.com", "handle")
    things = [volume(f"pv{n}", csi=csi) for n in range(3)] + [claim(f"c{n}", f"pv{n}") for n in range(3)]
    cluster = zones(*things, limit("a1", 1), limit("b1", 1), limit("x", 0))
    open_session = session(cluster)
    tasks = [make_task(labelled(f"p{n}", claims=[f"c{n}"]), cluster.vendors) for n in range(3)]
    assert [open_session.place(task).node for task in tasks] == ["a1", "b1", None]
    open_session.unplace("default/p0")
    assert open_session.place(tasks[2]).node == "a1"


def test_volumes_that_are_still_to_be_made_count_against_the_limit():
    cluster = zones(
        storage_class(),
        claim("c0", None, "fast"),
        claim("c1", None, "fast"),
        limit("a1", 1),
        limit("b1", 0),
        limit("x", 0),
    )
    assert feasible(cluster, labelled("p", claims=["c0"])) == ["a1"]
    assert feasible(cluster, labelled("p", claims=["c0", "c1"])) == []


# -- changes


def test_changes_of_storage_are_followed_within_a_session():
    cluster = zones(claim(), storage_class())
    open_session = session(cluster)
    task = make_task(USER, cluster.vendors)
    assert reasons(open_session.decide(task)) == {"ClaimNotBound": 3}
    cluster.upsert_surrounding(claim(volume="pv"))
    cluster.upsert_surrounding(volume(zone="b"))
    assert open_session.decide(task).node == "b1"
    cluster.upsert_surrounding(volume(zone="a"))
    assert open_session.decide(task).node == "a1"
    cluster.upsert_surrounding(limit("a1", 0))
    cluster.upsert_surrounding(volume(zone="a", csi=CSISource("csi.example.com", "h")))
    assert open_session.decide(task).node is None
    cluster.remove_surrounding(limit("a1", 0))
    assert open_session.decide(task).node == "a1"
    cluster.remove_surrounding(claim())
    assert open_session.decide(task).node == "a1"
    assert [problem.field for problem in open_session.problems()] == ["PersistentVolumeClaim"]
