"""Quotas on the memory and compute of cards: a pod waits that would exceed its namespace's."""

import json

import msgspec
import pytest

from tests.plugins.gpus.migcards import mig
from tests.plugins.gpus.quotas import CORES, MEMORY, NOT_FIT, limited, quota, used
from tests.plugins.gpus.vendor_lives import asking, machine
from tests.scenario import cards, container, decide, gpu, node, place, plain, pod, reasons, running, scenario, session
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import make_task
from tonnage.devices.base import Vendor
from tonnage.devices.cambricon import Cambricon
from tonnage.devices.nvidia import Nvidia
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement
from tonnage.model.meta import ObjectMeta
from tonnage.model.quota import QuotaSpec, ResourceQuota
from tonnage.plugins.defaults import default_plugins


def fits(cluster, wanted) -> bool:
    decision = decide(cluster, wanted)
    assert (decision.node is not None) == (reasons(decision).get(NOT_FIT, 0) == 0), reasons(decision)
    return decision.node is not None


# -- memory and compute that are known before the card is


@pytest.mark.parametrize(
    ("wants", "allowed"),
    [
        ({"gpus": 1, "memory": 100}, True),
        ({"gpus": 1, "memory": 1000}, True),
        ({"gpus": 1, "memory": 1001}, False),
        ({"gpus": 2, "memory": 500}, True),
        ({"gpus": 2, "memory": 501}, False),
        ({"gpus": 2, "memory": 1, "cores": 100}, True),
        ({"gpus": 3, "memory": 1, "cores": 100}, False),
        ({"gpus": 3, "memory": 1, "cores": 66}, True),
    ],
)
def test_every_card_counts(wants, allowed):
    # 1000 of 2000 MiB and 200 of 400 % are held.
    held = running("x", on="a", gpu=[2, 3], memory=500, cores=100)
    cluster = limited({MEMORY: 2000, CORES: "400"}, node("a", gpus=5), held)
    assert fits(cluster, pod("p", **wants)) is allowed


def test_a_quota_that_is_exceeded_already_concerns_only_pods_that_request_some_of_it():
    """Such pods do not make it worse; HAMi refuses them too."""
    held = running("x", on="a", memory=500, cores=50)
    cluster = limited({MEMORY: 2000, CORES: 20}, node("a", gpus=1), held)
    assert fits(cluster, pod("p", 1, memory=100))
    assert not fits(cluster, pod("p", 1, memory=100, cores=1))


@pytest.mark.parametrize("wanted", [pod("p", 1), pod("p", None, annotations={"gpu-fraction": "0.5"})])
def test_a_card_of_unknown_size_takes_no_memory_of_a_quota(wanted):
    """Nobody knows how much that would be, so no sentence can name an amount."""
    cluster = limited({MEMORY: 10}, plain("a", 2))
    for name in ("one", "two"):
        place(cluster, msgspec.structs.replace(wanted, metadata=msgspec.structs.replace(wanted.metadata, name=name)))
    assert used(cluster) == 0


def test_cards_of_known_size_stay_within_the_quota_beside_cards_of_unknown_size():
    cluster = limited({MEMORY: 5000}, plain("known", 1, gpu_memory=8000))
    assert not fits(cluster, pod("p", 1))
    cluster.upsert_node(plain("unknown", 1))
    assert place(cluster, pod("p", 1)).node == "unknown"


def test_the_sentence_has_limit_use_and_request():
    cluster = limited({MEMORY: 2000}, node("a", gpus=1), node("b", gpus=1), running("x", on="a", memory=1000))
    decision = decide(cluster, pod("p", 1, memory=1200))
    (rejection,) = decision.record().rejected
    assert (rejection.plugin, rejection.reason, rejection.nodes) == ("devicequota", NOT_FIT, 2)
    assert rejection.message == "nvidia.com/gpumem is limited to 2000, 1000 are used, and the pod asks for 1200"


@pytest.mark.parametrize(
    ("init", "main", "allowed"),
    [
        ([800, 800], [500], True),
        ([800, 800], [500, 600], False),
        ([1001], [1], False),
        ([("sidecar", 500), 500], [500], True),
        ([("sidecar", 500), 501], [1], False),
        ([501, ("sidecar", 500)], [500], True),
        ([("sidecar", 500)], [501], False),
    ],
)
def test_phases_count_at_their_peak(init, main, allowed):
    def box(name, what):
        is_sidecar = isinstance(what, tuple)
        return container(name, sidecar=is_sidecar, gpus=1, memory=what[1] if is_sidecar else what)

    wanted = pod(
        "p",
        containers=[box(f"main{i}", what) for i, what in enumerate(main)],
        init=[box(f"init{i}", what) for i, what in enumerate(init)],
    )
    assert fits(limited({MEMORY: 1000}, node("a", gpus=1)), wanted) is allowed


def test_an_init_container_that_must_take_another_card_counts_beside_the_rest():
    """800 MiB of a card for the init container and 500 MiB of another one are 1300 held, though never at one time."""
    cards_of_a = [gpu("small", memory=600), gpu("large", index=1, memory=9000)]
    wanted = pod(
        "p", containers=[container(gpus=1, memory=500)], init=[container("init", gpus=1, memory=800)], annotations={}
    )
    roomy = limited({MEMORY: 1300}, node("a", gpus=cards_of_a))
    decision = place(roomy, wanted, gpu_policy="binpack")
    assert cards(decision) == ["large", "small"]
    assert used(roomy) == 1300
    tight = limited({MEMORY: 1299}, node("a", gpus=cards_of_a))
    decision = decide(tight, wanted, gpu_policy="binpack")
    assert reasons(decision) == {NOT_FIT: 1}
    assert decision.rejected[0].message == (
        "a: nvidia.com/gpumem is limited to 1299, 0 are used, and the pod asks for 1300"
    )


def test_a_limit_of_nothing_blocks_and_asking_for_nothing_passes():
    nodes = [node("a", gpus=1)]
    assert not fits(limited({MEMORY: 0}, *nodes), pod("p", 1, memory=1))
    assert not fits(limited({MEMORY: "0"}, *nodes), pod("p", 1))
    assert not fits(limited({CORES: 0}, *nodes), pod("p", 1, memory=1, cores=1))
    assert fits(limited({CORES: 0}, *nodes), pod("p", 1, memory=1))
    assert fits(limited({MEMORY: 0}, *nodes), pod("p"))


def test_a_quota_below_what_is_held_lets_only_pods_pass_that_ask_for_none_of_it():
    cluster = limited({CORES: 50}, node("a", gpus=2), running("x", on="a", memory=10, cores=80))
    assert not fits(cluster, pod("p", 1, memory=10, cores=1))
    assert fits(cluster, pod("q", 1, memory=10))


def test_other_namespaces_and_other_resources_are_not_limited():
    others = {"limits.nvidia.com/gpu": 0, "requests.nvidia.com/gpumem": 0, "limits.cpu": 0, "limits.": 0}
    assert fits(limited(others, node("a", gpus=1)), pod("p", 1, memory=100, cores=10))
    cluster = limited({MEMORY: 0}, node("a", gpus=1))
    assert fits(cluster, pod("p", 1, memory=100, namespace="team"))


def test_of_several_quotas_the_tightest_counts_until_it_goes():
    cluster = limited({MEMORY: 4000}, node("a", gpus=1))
    cluster.quotas.upsert(quota({MEMORY: 1000, CORES: 10}, name="second"))
    assert not fits(cluster, pod("p", 1, memory=1001))
    cluster.quotas.remove("default/second")
    assert fits(cluster, pod("p", 1, memory=1001, cores=50))
    cluster.quotas.remove("default/gpus")
    assert fits(cluster, pod("p", 1, memory=4001))
    assert not cluster.quotas.limits


def test_the_unit_of_a_vendor_is_that_of_its_requests():
    vendors: list[Vendor] = [Nvidia(), Cambricon()]
    cluster = Cluster(vendors)
    cluster.quotas.upsert(quota({"limits.cambricon.com/mlu.smlu.vmemory": 100}))
    found = cluster.quotas.quota("default", "cambricon.com/mlu.smlu.vmemory")
    assert found is not None
    assert found.limit == 25600


# -- memory that depends on the card


def test_a_whole_card_goes_where_cards_are_small_enough():
    cluster = limited({MEMORY: 20000}, node("a", gpus=2, gpu_memory=16000), node("b", gpus=2, gpu_memory=8000))
    first = place(cluster, pod("p", 1))
    assert first.node == "a"
    second = place(cluster, pod("q", 1), node_policy="binpack")
    assert second.node is None
    assert reasons(second) == {NOT_FIT: 2}
    assert {r.example: r.message for r in second.rejected} == {
        "a": "a: nvidia.com/gpumem is limited to 20000, 16000 are used, and the pod asks for 16000"
    }
    assert place(cluster, pod("r", 1, percentage=50)).node == "b"
    assert used(cluster) == 20000


def test_of_cards_of_different_sizes_the_affordable_ones_are_taken():
    mixed = node(
        "a", gpus=[gpu("a/0", memory=4000), gpu("a/1", index=1, memory=9000), gpu("a/2", index=2, memory=9000)]
    )
    assert cards(decide(limited({MEMORY: 9000}, mixed), pod("p", 1))) == ["a/2"]
    assert cards(decide(limited({MEMORY: 8999}, mixed), pod("p", 1))) == ["a/0"]
    assert set(cards(decide(limited({MEMORY: 18000}, mixed), pod("p", 2)))) == {"a/1", "a/2"}
    assert set(cards(decide(limited({MEMORY: 17999}, mixed), pod("p", 2)))) == {"a/0", "a/2"}
    assert cards(decide(limited({MEMORY: 12999}, mixed), pod("p", 2))) == []
    assert reasons(decide(limited({MEMORY: 3999}, mixed), pod("p", 1))) == {NOT_FIT: 1}


def test_containers_with_whole_cards_count_together():
    wanted = pod("p", containers=[container("one", gpus=1), container("two", gpus=1, percentage=50)])
    assert fits(limited({MEMORY: 12000}, node("a", gpus=2)), wanted)
    assert not fits(limited({MEMORY: 11999}, node("a", gpus=2)), wanted)


def test_nodes_that_will_not_do_anyway_keep_their_reason():
    cluster = limited({MEMORY: 100}, node("a", gpus=1), node("b"), node("c", gpus=[gpu("c/0", healthy=False)]))
    assert reasons(decide(cluster, pod("p", 1))) == {NOT_FIT: 1, "NodeUnregistered": 1, "CardNotHealth": 1}


def test_a_mig_instance_counts_with_its_own_size():
    wanted = pod("p", 1, memory=1000)
    roomy = limited({MEMORY: 40000}, node("a", gpus=[mig("a/0")]))
    place(roomy, wanted)
    size = used(roomy)
    assert size > 1000
    assert fits(limited({MEMORY: size}, node("a", gpus=[mig("a/0")])), wanted)
    tight = limited({MEMORY: size - 1}, *(node(name, gpus=[mig(f"{name}/0")]) for name in "ab"))
    decision = decide(tight, wanted)
    assert reasons(decision) == {NOT_FIT: 2}
    assert decision.rejected[0].message.endswith(f"0 are used, and the pod asks for {size}")


def test_a_plain_card_counts_whole_whatever_is_asked_of_it():
    wanted = pod("p", 1, memory=1000)
    assert fits(limited({MEMORY: 8000}, plain("a", 1, gpu_memory=8000)), wanted)
    assert not fits(limited({MEMORY: 7999}, plain("a", 1, gpu_memory=8000)), wanted)


def test_pods_one_after_another_in_one_session_use_a_quota_up():
    cluster = limited({MEMORY: 30000}, *(node(f"n{i}", gpus=4, gpu_memory=8000) for i in range(3)))
    with session(cluster) as opened:
        got = [opened.place(make_task(pod(f"p{i}", 1), cluster.vendors)).node is not None for i in range(5)]
        assert got == [True, True, True, False, False]
        opened.unplace("default/p1")
        assert opened.place(make_task(pod("p5", 1), cluster.vendors)).node is not None
        cluster.quotas.upsert(quota({MEMORY: 32000}))
        assert opened.place(make_task(pod("p6", 1), cluster.vendors)).node is not None
        assert used(cluster) == 32000


def test_who_looks_ahead_counts_without_those_who_leave():
    cluster = limited({MEMORY: 8000}, node("a", gpus=2), running("x", on="a", memory=8000))
    with Session(cluster, default_plugins()) as opened:
        task = make_task(pod("p", 1), cluster.vendors)
        with Statement(opened) as statement:
            assert statement.place(task).node is None
            statement.evict(cluster.running["default/x"], "default/p", "of lower priority")
            assert statement.place(task).node is None
            assert statement.pipeline(task).node == "a"
            assert used(cluster) == 16000
        assert used(cluster) == 8000
        assert opened.place(task).node is None


# -- bad input


@pytest.mark.parametrize("bad", ["lots", "8Gi", "1.5", -1, "-1", "500m", 2**31])
def test_a_limit_that_cannot_be_used_is_a_problem_and_the_others_count(bad):
    cluster = limited({MEMORY: bad, CORES: 50}, node("a", gpus=1))
    (problem,) = cluster.problems()
    assert (problem.object, problem.field) == ("ResourceQuota/default/gpus", f"spec.hard[{MEMORY}]")
    assert "left out" in problem.message
    assert fits(cluster, pod("p", 1, memory=8000))
    assert not fits(cluster, pod("q", 1, memory=8000, cores=51))
    cluster.quotas.upsert(quota({MEMORY: 1}))
    assert list(cluster.problems()) == []
    assert not fits(cluster, pod("p", 1, memory=8000))


def test_scopes_are_told_where_they_would_matter():
    spec = QuotaSpec({MEMORY: 10}, scopes=["BestEffort"])
    cluster = scenario(node("a", gpus=1))
    cluster.quotas.upsert(ResourceQuota(ObjectMeta("q", "default"), spec))
    cluster.quotas.upsert(ResourceQuota(ObjectMeta("r", "default"), QuotaSpec({"pods": 1}, scopes=["BestEffort"])))
    assert [problem.field for problem in cluster.problems()] == ["spec.scopes"]
    assert not fits(cluster, pod("p", 1))


# -- compute in a unit of the card's own


def test_compute_units_count_where_cards_have_them():
    def amd(name, percent):
        return asking(name, {"amd.com/gpu": 1, "amd.com/gpumem": 1, "amd.com/gpucores": percent})

    card = {"count": 10, "devmem": 196608, "type": "MI", "health": True}
    large, small = (
        machine(name, annotations={"hami.io/node-amd-register": json.dumps([card | {"id": name, "devcore": units}])})
        for name, units in (("large", 304), ("small", 60))
    )
    cluster = limited({"limits.amd.com/gpucores": 100}, large)
    assert cards(place(cluster, amd("a", 25))) == ["large"]
    assert used(cluster, "amd.com/gpucores") == 76
    assert not fits(cluster, amd("b", 10))
    assert fits(cluster, amd("b", 5))
    cluster.upsert_node(small)
    assert cards(decide(cluster, amd("b", 40))) == ["small"]
