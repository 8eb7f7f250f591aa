"""Claims that wait for their first consumer: which volume each gets, that no volume is given twice, and undoing."""

import msgspec
import pytest

from tests.groups import add, group
from tests.neighbours import labelled, zoned
from tests.scenario import decide, reasons, scenario, session
from tests.storage import capacity, claim, driver, local_class, storage_class, volume
from tonnage.actions.catalog import make_actions
from tonnage.cluster.holding import VolumeReservation
from tonnage.cluster.jobs.group import VOLCANO_GROUP
from tonnage.cluster.savepoint import Savepoint
from tonnage.cluster.task import make_task
from tonnage.framework.cycle import run_cycle
from tonnage.framework.statement import Statement
from tonnage.plugins.filters.predicates import Predicates

GIB = 2**30


def zones(*others, pods=()):
    cluster = scenario(zoned("a1", "a"), zoned("b1", "b"), *pods)
    for thing in others:
        cluster.upsert_surrounding(thing)
    return cluster


def user(name, *claims, **more):
    return labelled(name, claims=claims, **more)


def member(name, *claims):
    """A pod of the group g."""
    made = user(name, *claims)
    return msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, annotations={VOLCANO_GROUP: "g"})
    )


def placed(cluster, *pods):
    """Place pods one after another; the node and the volume of each, "new" for one that is to be provisioned."""
    open_session = session(cluster)
    found = []
    for one in pods:
        decision = open_session.place(make_task(one, cluster.vendors))
        volumes = [reserved.volume or "new" for reserved in decision.volumes]
        found.append((decision.node, *volumes))
    return found


# -- what a claim gets


def test_a_class_provisions_the_volume_for_the_node_that_was_decided():
    cluster = zones(storage_class(), claim("c", None, "fast", size="2Gi"))
    assert placed(cluster, user("p", "c")) == [("a1", "new")]
    assert cluster.volumes.all() == {"default/p": (VolumeReservation("default/c", "", "fast", 2 * GIB),)}


def test_a_claim_gets_the_smallest_free_volume_that_the_node_reaches():
    things = [volume("large", "local", zone="b", size="9Gi"), volume("small", "local", zone="b", size="2Gi")]
    cluster = zones(local_class(), *things, volume("tiny", "local", zone="b", size="1Gi"))
    cluster.upsert_surrounding(claim("c", None, "local", size="2Gi"))
    assert placed(cluster, user("p", "c")) == [("b1", "small")]


def test_the_claims_of_one_pod_get_different_volumes_the_smaller_claim_the_smaller_one():
    things = [volume(name, "local", zone="a", size=size) for name, size in (("one", "2Gi"), ("two", "5Gi"))]
    claims = [claim("big", None, "local", size="4Gi"), claim("little", None, "local", size="1Gi")]
    cluster = zones(local_class(), *things, *claims)
    assert placed(cluster, user("p", "big", "little")) == [("a1", "one", "two")]
    assert decide(zones(local_class(), things[1], *claims), user("p", "big", "little")).node is None


def test_a_free_volume_is_preferred_to_a_new_one():
    cluster = zones(storage_class(), volume("spare", "fast"), claim("c", None, "fast"), claim("d", None, "fast"))
    assert placed(cluster, user("p", "c"), user("q", "d")) == [("a1", "spare"), ("a1", "new")]


def test_a_volume_that_names_the_claim_is_the_only_one():
    cluster = zones(storage_class(), volume("own", "fast", zone="b", owner="c"), claim("c", None, "fast"))
    assert placed(cluster, user("p", "c")) == [("b1", "own")]
    cluster = zones(local_class(), volume("own", "local", owner="d"), claim("c", None, "local"))
    assert reasons(decide(cluster, user("p", "c"))) == {"NoVolumeForNode": 2}


def test_a_volume_that_a_claim_names_is_not_free_even_if_it_does_not_say_so_yet():
    cluster = zones(local_class(), volume("pv", "local"), claim("c", None, "local"), claim("d", "pv", "local"))
    assert reasons(decide(cluster, user("p", "c"))) == {"NoVolumeForNode": 2}


def test_a_volume_of_an_earlier_claim_of_the_same_name_is_not_free():
    old = volume("pv", "local", owner="c")
    old = msgspec.structs.replace(
        old,
        spec=msgspec.structs.replace(old.spec, claimRef=msgspec.structs.replace(old.spec.claimRef, uid="before")),
    )
    cluster = zones(local_class(), old, claim("c", None, "local", uid="now"))
    assert reasons(decide(cluster, user("p", "c"))) == {"NoVolumeForNode": 2}


def test_a_claim_that_was_told_its_node_goes_nowhere_else():
    cluster = zones(storage_class(), claim("c", None, "fast", told="b1"), volume("spare", "fast"))
    assert placed(cluster, user("p", "c")) == [("b1", "new")]
    decision = decide(cluster, user("q", "c", selector={"topology.kubernetes.io/zone": "a"}))
    assert reasons(decision) == {"ProvisionedElsewhere": 1, "NodeAffinityMismatch": 1}
    assert decision.rejected[-1].message == "a1: the volume of claim default/c is being provisioned for b1"


# -- no volume is given twice


def test_of_two_pods_one_gets_the_one_free_volume_and_the_other_is_told_who_has_it():
    cluster = zones(local_class(), volume("pv", "local"), claim("c", None, "local"), claim("d", None, "local"))
    open_session = session(cluster)
    first, second = (make_task(user(name, c), cluster.vendors) for name, c in ("pc", "qd"))
    assert open_session.place(first).node == "a1"
    decision = open_session.place(second)
    assert reasons(decision) == {"VolumesReserved": 2}
    assert decision.rejected[0].message == (
        "a1: the free volumes there for claim default/d are reserved for other claims: pv"
    )
    open_session.unplace(first.key)
    assert open_session.place(second).node == "a1"
    assert not open_session.decide(first).node


def test_pods_that_share_a_claim_share_its_volume():
    cluster = zones(
        local_class(), volume("pa", "local", zone="a"), volume("pb", "local", zone="b"), claim("c", None, "local")
    )
    assert placed(cluster, user("p", "c"), user("q", "c")) == [("a1", "pa"), ("a1", "pa")]
    only_b = {"topology.kubernetes.io/zone": "b"}
    assert decide(cluster, user("r", "c", selector=only_b)).node is None
    cluster.remove_pod("default/p")
    assert decide(cluster, user("r", "c", selector=only_b)).node is None
    cluster.release("default/q")
    assert decide(cluster, user("r", "c", selector=only_b)).node == "b1"


def test_pods_that_share_a_new_volume_may_go_to_different_nodes_and_look_again_when_it_is_there():
    cluster = zones(storage_class(), claim("c", None, "fast"))
    only_b = {"topology.kubernetes.io/zone": "b"}
    assert placed(cluster, user("p", "c"), user("q", "c", selector=only_b)) == [("a1", "new"), ("b1", "new")]


def test_a_gang_of_three_with_two_volumes_gets_no_place_and_keeps_no_volume():
    claims = [claim(name, None, "local") for name in "cde"]
    volumes = [volume("pa", "local", zone="a"), volume("pb", "local", zone="b")]
    pods = [member(f"g-{number}", name) for number, name in enumerate("cde")]
    cluster = zones(local_class(), *volumes, *claims, pods=[*pods, user("alone", "c")])
    add(cluster, group("g", 3))
    with session(cluster) as open_session:
        decided = {one.task.name: one for one in run_cycle(open_session, make_actions(("allocate",)))}
        assert [decided[f"g-{number}"].node for number in range(3)] == [None] * 3
        assert decided["alone"].node == "a1", "the volumes are free again for others"
        assert list(cluster.volumes.all()) == ["default/alone"]
    cluster.release("default/alone")
    cluster.upsert_surrounding(volume("pc", "local"))
    with session(cluster) as open_session:
        open_session.passed_over = {"default/alone"}
        run_cycle(open_session, make_actions(("allocate",)))
        assert sorted(one.volume for (one,) in cluster.volumes.all().values()) == ["pa", "pb", "pc"]


def test_a_claim_of_a_running_pod_that_is_not_bound_yet_takes_a_volume_of_its_node():
    volumes = [volume("pa", "local", zone="a"), volume("pb", "local", zone="b")]
    cluster = zones(
        local_class(), *volumes, claim("c", None, "local"), claim("d", None, "local"), pods=[user("u", "d", on="a1")]
    )
    assert placed(cluster, user("p", "c")) == [("b1", "pb")]


# -- capacity


@pytest.mark.parametrize(
    ("pools", "nodes"),
    [
        ([capacity("a", "a", "5Gi"), capacity("b", "b", "3Gi")], ["a1"]),
        ([capacity("a", "a", "4Gi")], ["a1"]),
        ([capacity("a", "a", "9Gi", "3Gi"), capacity("b", "b", None, "4Gi")], ["b1"]),
        ([capacity("a", "a", "1Gi", "4Gi")], ["a1"]),
        ([capacity("a", "a"), capacity("none", None, "9Gi"), capacity("x", "a", "9Gi", None, "other")], []),
        ([capacity("a", "a", "much"), capacity("b", "b", "9Gi")], ["b1"]),
    ],
)
def test_a_driver_that_reports_its_capacity_provisions_where_there_is_enough(pools, nodes):
    cluster = zones(storage_class(), driver(), claim("c", None, "fast", size="4Gi"), *pools)
    decision = decide(cluster, user("p", "c"))
    assert sorted(decision.scores) == nodes
    if len(nodes) < 2:
        assert reasons(decision) == {"InsufficientStorage": 2 - len(nodes)}
        assert decision.rejected[0].message.endswith("its class fast has less storage left there than 4Gi")


def test_capacity_counts_only_if_the_driver_reports_it():
    cluster = zones(storage_class(), claim("c", None, "fast"))
    assert decide(cluster, user("p", "c")).node == "a1"
    cluster.upsert_surrounding(driver(reports=False))
    assert decide(cluster, user("p", "c")).node == "a1"
    cluster.upsert_surrounding(driver())
    assert decide(cluster, user("p", "c")).node is None
    cluster.remove_surrounding(driver())
    assert decide(cluster, user("p", "c")).node == "a1"


def test_what_is_reserved_counts_against_the_pool_until_it_is_given_up():
    claims = [claim(name, None, "fast", size="4Gi") for name in "cdef"]
    cluster = zones(storage_class(), driver(), *claims, capacity("a", "a", "9Gi"), capacity("b", "b", "5Gi"))
    assert placed(cluster, *(user(f"p{name}", name) for name in "cdef")) == [
        ("a1", "new"),
        ("a1", "new"),
        ("b1", "new"),
        (None,),
    ]
    cluster.release("default/pc")
    assert decide(cluster, user("pf", "f")).node == "a1"


def test_the_claims_of_one_pod_count_together():
    cluster = zones(storage_class(), driver(), *(claim(name, None, "fast", size="4Gi") for name in "cd"))
    cluster.upsert_surrounding(capacity("a", "a", "7Gi"))
    cluster.upsert_surrounding(capacity("b", "b", "8Gi"))
    assert placed(cluster, user("p", "c", "d")) == [("b1", "new", "new")]


# -- undoing


def test_undoing_gives_volumes_back():
    cluster = zones(local_class(), volume("pv", "local"), claim("c", None, "local"), claim("d", None, "local"))
    first, second = (make_task(user(name, c), cluster.vendors) for name, c in ("pc", "qd"))
    with session(cluster) as open_session:
        with Statement(open_session) as statement:
            assert statement.place(first).volumes[0].volume == "pv"
            assert statement.place(second).node is None
            statement.undo()
            assert not cluster.volumes
            assert statement.place(second).volumes[0].volume == "pv"
        assert not cluster.volumes
        savepoint = Savepoint(cluster)
        open_session.place(first)
        assert cluster.volumes
        savepoint.roll_back()
        assert not cluster.volumes


def test_a_reservation_goes_with_its_pod_and_stays_while_the_pod_waits_to_be_bound():
    cluster = zones(local_class(), volume("pv", "local"), claim("c", None, "local"))
    placed(cluster, user("p", "c"))
    cluster.upsert_pod(user("p", "c"))
    assert cluster.volumes.is_taken("pv", "default/other")
    cluster.rebuild(cluster.holdings.all())
    assert cluster.volumes.is_taken("pv", "default/other")
    cluster.remove_node("a1")
    assert cluster.volumes.is_taken("pv", "default/other")
    cluster.remove_pod("default/p")
    assert not cluster.volumes


def test_nothing_is_chosen_where_the_switch_is_off():
    cluster = zones(local_class(), volume("pv", "local"), claim("c", None, "local"))
    plugin = Predicates(Predicates.read_arguments({"predicate.VolumeBindingEnable": False}, lambda key, why: None))
    with type(session(cluster))(cluster, [plugin]) as open_session:
        assert open_session.place(make_task(user("p", "c"), cluster.vendors)).volumes == ()
