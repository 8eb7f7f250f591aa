"""Init containers that have ended give their cards back, as the kubelet reports it; all else counts at its peak."""

import msgspec
import pytest

from tests.plugins.gpus.quotas import MEMORY, limited, used
from tests.scenario import ALLOCATED, cards, container, decide, gpu, node, plain, pod, reasons, scenario, usage
from tonnage.cluster.cluster import Cluster
from tonnage.model.pod import Pod
from tonnage.model.wire import decode

LOAD = [container("load", gpus=1, memory=7000)]
MAIN = [container("main", gpus=1, memory=1000)]
RECORD = "a/0,NVIDIA,7000,50:;a/0,NVIDIA,1000,10:;"


def loading(ended=(), record=RECORD, **more):
    """A pod whose init container holds most of a card, and whose app container little of it."""
    given = {"containers": MAIN, "init": LOAD, "on": "a", "annotations": {ALLOCATED: record}, **more}
    return pod("x", ended=ended, **given)


def test_a_card_is_freed_when_the_init_container_has_ended():
    cluster = scenario(node("a", gpus=1), loading())
    assert reasons(decide(cluster, pod("p", 1, memory=6000))) == {"CardInsufficientMemory": 1}
    cluster.upsert_pod(loading(ended=["load"]))
    assert usage(cluster, "a") == [(1, 1000, 10)]
    assert cards(decide(cluster, pod("p", 1, memory=6000))) == ["a/0"]


def test_a_restart_counts_what_the_events_counted():
    assert usage(scenario(node("a", gpus=1), loading(ended=["load"])), "a") == [(1, 1000, 10)]
    assert usage(scenario(loading(ended=["load"]), node("a", gpus=1)), "a") == [(1, 1000, 10)], "pods before nodes"


def test_all_init_containers_must_have_ended():
    first = [container("first", gpus=1, memory=5000), container("second", gpus=1, memory=7000)]
    record = "a/0,NVIDIA,5000,0:;a/0,NVIDIA,7000,0:;a/0,NVIDIA,1000,10:;"
    cluster = scenario(node("a", gpus=1), loading(["first"], record, init=first))
    assert usage(cluster, "a") == [(1, 7000, 10)]
    cluster.upsert_pod(loading(["first", "second"], record, init=first))
    assert usage(cluster, "a") == [(1, 1000, 10)]


def test_sidecars_go_on():
    first = [*LOAD, container("side", gpus=1, memory=500, sidecar=True)]
    record = "a/0,NVIDIA,7000,0:;a/0,NVIDIA,500,5:;a/0,NVIDIA,1000,10:;"
    cluster = scenario(node("a", gpus=1), loading(["load"], record, init=first))
    assert usage(cluster, "a") == [(2, 1500, 15)]


def test_a_card_of_init_containers_alone_is_free_afterwards():
    only = {"containers": [container("main")], "record": "a/1,NVIDIA,7000,50:;;"}
    cluster = scenario(node("a", gpus=2), loading(**only))
    assert usage(cluster, "a") == [(0, 0, 0), (1, 7000, 50)]
    cluster.upsert_pod(loading(["load"], **only))
    assert usage(cluster, "a") == [(0, 0, 0), (0, 0, 0)]
    assert not list(cluster.problems())


def test_an_app_container_whose_card_is_not_named_still_counts():
    cluster = scenario(node("a", gpus=1, slots=2), loading(["load"], "a/0,NVIDIA,7000,50:;;"))
    assert reasons(decide(cluster, pod("p", 1, cores=100))) == {"ExclusiveDeviceAllocateConflict": 1}


def test_init_containers_that_run_again_count_again():
    cluster = scenario(node("a", gpus=1), loading(["load"]))
    cluster.upsert_pod(loading())
    assert usage(cluster, "a") == [(1, 7000, 50)], "the pod's sandbox was made anew"


def test_quotas_follow():
    cluster = limited({MEMORY: 9000}, node("a", gpus=1), loading())
    assert used(cluster) == 7000
    cluster.upsert_pod(loading(["load"]))
    assert used(cluster) == 1000


def test_resources_count_at_their_peak_as_in_kubernetes():
    big = [container("load", cpu="8", **{"nvidia.com/gpu": 2})]
    small = [container("main", cpu="1", **{"nvidia.com/gpu": 1})]
    record = "a/0,NVIDIA,8000,0:a/1,NVIDIA,8000,0:;a/0,NVIDIA,8000,0:;"
    cluster = scenario(node("a", gpus=2, cpu="8"), loading(["load"], record, init=big, containers=small))
    assert usage(cluster, "a") == [(1, 8000, 0), (0, 0, 0)]
    assert reasons(decide(cluster, pod("p", 1, cpu="1"))) == {"InsufficientCpu": 1}


def test_the_kubelet_keeps_plain_cards_for_the_pod():
    record = "a/0,NVIDIA,100,100:a/1,NVIDIA,100,100:;a/0,NVIDIA,100,100:;"
    two, one = [container("load", gpus=2)], [container("main", gpus=1)]
    cluster = scenario(plain("a", 2), loading(["load"], record, init=two, containers=one))
    assert [slots for slots, _, _ in usage(cluster, "a")] == [1, 1]


def test_the_place_of_a_mig_instance_stays_taken():
    profile = {"name": "1g.5gb", "memoryMB": 4864, "core": 15, "sliceCount": 1}
    places = [{"start": start, "size": 1} for start in range(2)]
    card = gpu("a/0", memory=40000, mode="mig", count=2, migProfiles=[{**profile, "placements": places}])
    instances = (
        '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"a/0","profile":"1g.5gb","placement":{"start":1,"size":1}},'
        '{"containerIndex":1,"deviceIndex":0,"gpuUUID":"a/0","profile":"1g.5gb","placement":{"start":0,"size":1}}]'
    )
    notes = {ALLOCATED: "a/0,NVIDIA,4864,15:;a/0,NVIDIA,4864,15:;", "hami.io/vgpu-mig-allocations": instances}
    cluster = scenario(node("a", gpus=[card]), loading(["load"], annotations=notes))
    assert usage(cluster, "a") == [(1, 4864, 15)]
    assert reasons(decide(cluster, pod("p", 1, memory=1000))) == {"CardMigTopologyInfeasible": 1}


def read(statuses: list[dict[str, object]]) -> Pod:
    plain_pod = msgspec.to_builtins(loading())
    plain_pod["status"]["initContainerStatuses"] = statuses
    return decode(msgspec.json.encode(plain_pod), Pod)


@pytest.mark.parametrize(
    ("state", "is_over"),
    [
        ({"terminated": {"exitCode": 0, "reason": "Completed"}}, True),
        ({"terminated": {"exitCode": 1}}, False),
        ({"running": {"startedAt": "2026-01-01T00:00:00Z"}}, False),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, False),
        (None, False),
    ],
)
def test_only_success_counts_as_the_end(state, is_over):
    assert read([{"name": "load", "state": state, "ready": True}]).is_initialized is is_over


def test_a_status_of_another_container_ends_nothing():
    assert not read([{"name": "other", "state": {"terminated": {"exitCode": 0}}}]).is_initialized
    assert not read([]).is_initialized


def test_annotations_cannot_claim_that_a_container_has_ended():
    told = {ALLOCATED: RECORD, "initContainerStatuses": "load", "hami.io/bind-phase": "success"}
    cluster: Cluster = scenario(node("a", gpus=1), loading(annotations=told))
    assert usage(cluster, "a") == [(1, 7000, 50)]
