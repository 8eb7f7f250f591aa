"""What a scrape shows: HAMi's metrics of both generations, and the extender's own."""

import asyncio
import random
import re

import pytest

from tests.agent.monitor.metering import of_the_agent
from tests.extender.asking import asked, named
from tests.extender.metering import of_the_extender, one_card, parts_of, reflector
from tests.extender.recording import ask, parsed, scraped, values
from tests.paths import ROOT
from tests.plugins.gpus.migcards import holder, mig
from tests.scenario import ALLOCATED, container, gpu, node, part, place, plain, pod, running, scenario, usage
from tests.scheduler.metering import of_the_batch_scheduler
from tonnage import __version__
from tonnage.agent.monitor import agentmetrics
from tonnage.agent.monitor import usage as usage_states
from tonnage.agent.monitor.regions import REGION_FAULTS
from tonnage.binder.handover import SILENCE_SECONDS
from tonnage.extender.metrics import HANDSHAKES, VERBS, ExtenderMetrics
from tonnage.extender.recorder import OUTCOMES
from tonnage.extender.reservations import ReservationState
from tonnage.kube.client import CONFLICT, REFUSED, SUCCESS, UNKNOWN
from tonnage.model.meta import ObjectMeta
from tonnage.model.quota import QuotaSpec, ResourceQuota
from tonnage.observability import cardmetrics, events, podmetrics, quotametrics
from tonnage.observability.exposition import SLICE
from tonnage.observability.metrics import MOST_REASONS, cluster_text, resource_of
from tonnage.observability.workmetrics import CONFLICTS, LOCKS
from tonnage.plugins.fragmentation._learnedpods import SLICE as LEARNED_AT_ONCE

MIB = 2**20

CARD = 'node="a",device_uuid="a/0",device_index="0",device_type="NVIDIA A100-SXM4-40GB",zone="vGPU"'
HELD = 'namespace="default",node="a",pod="x",container_index="0",device_uuid="a/0",zone="vGPU"'
NEW = f"""\
# HELP hami_gpu_memory_limit_bytes Memory of the card.
# TYPE hami_gpu_memory_limit_bytes gauge
hami_gpu_memory_limit_bytes{{{CARD}}} 8388608000
# HELP hami_gpu_core_limit_ratio Compute of the card in percent: 100 unless its device plugin scales it.
# TYPE hami_gpu_core_limit_ratio gauge
hami_gpu_core_limit_ratio{{{CARD}}} 100
# HELP hami_gpu_memory_allocated_bytes Memory of the card that pods hold or that is reserved for them.
# TYPE hami_gpu_memory_allocated_bytes gauge
hami_gpu_memory_allocated_bytes{{device_cores="100",{CARD}}} 2097152000
# HELP hami_gpu_shared_count Containers that share the card.
# TYPE hami_gpu_shared_count gauge
hami_gpu_shared_count{{{CARD}}} 1
# HELP hami_gpu_core_allocated_ratio Compute of the card that is given out, in percent.
# TYPE hami_gpu_core_allocated_ratio gauge
hami_gpu_core_allocated_ratio{{{CARD}}} 30
# HELP hami_node_gpu_overview Memory of the card that is given out, in bytes, with the card's compute (percent) and \
memory (MiB) as labels.
# TYPE hami_node_gpu_overview gauge
hami_node_gpu_overview{{device_cores="100",device_memory_limit="8000",{CARD}}} 2097152000
# HELP hami_node_gpu_memory_allocated_ratio Part of the card's memory that is given out, from 0 to 1.
# TYPE hami_node_gpu_memory_allocated_ratio gauge
hami_node_gpu_memory_allocated_ratio{{{CARD}}} 0.25
# HELP hami_vgpu_memory_allocated_bytes Memory of the card that the container was given.
# TYPE hami_vgpu_memory_allocated_bytes gauge
hami_vgpu_memory_allocated_bytes{{{HELD}}} 2097152000
# HELP hami_vgpu_core_allocated_ratio Compute of the card that the container was given, in percent.
# TYPE hami_vgpu_core_allocated_ratio gauge
hami_vgpu_core_allocated_ratio{{{HELD}}} 30
# HELP hami_node_gpu_mig_instance_info 1 for each MIG instance that a pod holds.
# TYPE hami_node_gpu_mig_instance_info gauge
# HELP hami_resource_quota_used What pods hold of a resource with a quota, in MiB or percent.
# TYPE hami_resource_quota_used gauge
# HELP hami_resource_quota_limit The quota on the resource, in MiB or percent.
# TYPE hami_resource_quota_limit gauge
"""


def test_a_scrape_of_one_card_and_one_pod_is_this_text():
    assert "".join(cluster_text(one_card(), legacy=False)) == NEW


def test_the_old_names_come_behind_the_new_ones_when_they_are_wished_for():
    text = "".join(cluster_text(one_card(), legacy=True))
    card = 'nodeid="a",deviceuuid="a/0",deviceidx="0",devicetype="NVIDIA A100-SXM4-40GB",zone="vGPU"'
    held = 'podnamespace="default",nodename="a",podname="x",containeridx="0",deviceuuid="a/0",zone="vGPU"'
    assert [line for line in text.splitlines() if not line.startswith(("#", "hami_"))] == [
        f"GPUDeviceMemoryLimit{{{card}}} 8388608000",
        f"GPUDeviceCoreLimit{{{card}}} 100",
        f'GPUDeviceMemoryAllocated{{devicecores="100",{card}}} 2097152000',
        f"GPUDeviceSharedNum{{{card}}} 1",
        f"GPUDeviceCoreAllocated{{{card}}} 30",
        f'nodeGPUOverview{{devicecores="100",devicememorylimit="8000",{card}}} 2097152000',
        f"nodeGPUMemoryPercentage{{{card}}} 0.25",
        f"vGPUMemoryAllocated{{{held}}} 2097152000",
        f"vGPUCoreAllocated{{{held}}} 30",
        f'vGPUPodsDeviceAllocated{{deviceusedcore="30",{held}}} 2097152000',
        f"vGPUMemoryPercentage{{{held}}} 0.25",
        f"vGPUCorePercentage{{{held}}} 30",
    ]
    assert set(parsed(NEW)) <= set(parsed(text))


def test_a_reserved_place_counts_on_its_card():
    cluster = one_card()
    place(cluster, pod("p", 1, memory=1000))
    found = scraped(cluster)
    assert values(found["hami_gpu_memory_allocated_bytes"], "device_uuid") == {("a/0",): 3000 * MIB}
    assert values(found["hami_gpu_shared_count"], "device_uuid") == {("a/0",): 2}


def test_labels_may_hold_any_character():
    odd = 'a "b" \\c\nd'
    cluster = scenario(node(odd, gpus=[gpu("u", type=odd)]), running(odd, on=odd, gpu="u", memory=5))
    found = scraped(cluster)
    assert values(found["hami_gpu_memory_limit_bytes"], "node", "device_type") == {(odd, odd): 8000 * MIB}
    assert values(found["hami_vgpu_memory_allocated_bytes"], "node", "pod") == {(odd, odd): 5 * MIB}


def test_a_card_without_memory_has_no_share_of_it():
    cluster = scenario(node("a", gpus=[gpu("none", memory=0), gpu("some", index=1)]))
    found = scraped(cluster)
    assert values(found["hami_node_gpu_memory_allocated_ratio"], "device_uuid") == {("some",): 0}
    assert values(found["hami_gpu_memory_limit_bytes"], "device_uuid") == {("none",): 0, ("some",): 8000 * MIB}


def test_a_card_whose_memory_is_not_known_has_shares_and_no_bytes():
    known, unknown = plain("a", 1, gpu_memory=8000), plain("b", 1)
    cluster = scenario(known, unknown)
    for name in ("p", "q"):
        place(cluster, part(name, 0.5))
    found = scraped(cluster, legacy=True)
    assert values(found["hami_node_gpu_memory_allocated_ratio"], "device_uuid") == {("a/0",): 1, ("b/0",): 0}
    for name in ("hami_gpu_memory_limit_bytes", "hami_gpu_memory_allocated_bytes", "hami_node_gpu_overview"):
        assert set(values(found[name], "device_uuid")) == {("a/0",)}
    assert set(values(found["hami_gpu_shared_count"], "device_uuid")) == {("a/0",), ("b/0",)}


def test_an_empty_cluster_has_no_samples():
    assert scraped(scenario(), legacy=True) == {}


def test_every_container_of_a_pod_is_told_by_its_place_in_the_annotation():
    notes = {ALLOCATED: "a/0,NVIDIA,1000,10:;;a/0,NVIDIA,500,5:a/1,NVIDIA,500,5:;"}
    several = [container("one", gpus=1), container("two"), container("three", gpus=2)]
    cluster = scenario(node("a", gpus=2), pod("x", on="a", containers=several, annotations=notes))
    samples = scraped(cluster)["hami_vgpu_memory_allocated_bytes"]
    assert values(samples, "container_index", "device_uuid") == {
        ("0", "a/0"): 1000 * MIB,
        ("2", "a/0"): 500 * MIB,
        ("2", "a/1"): 500 * MIB,
    }


def test_pods_whose_annotation_cannot_be_read_and_pods_on_unknown_nodes_do_not_spoil_the_scrape():
    broken = pod("broken", 1, on="a", annotations={ALLOCATED: "nonsense"})
    cluster = scenario(node("a", gpus=1), broken, running("lost", on="gone", memory=1), running("x", on="a", memory=2))
    found = scraped(cluster, legacy=True)
    assert values(found["hami_vgpu_memory_allocated_bytes"], "pod") == {("x",): 2 * MIB}
    assert values(found["vGPUMemoryPercentage"], "podname") == {("x",): 2 / 8000}


@pytest.mark.parametrize("gpus", [None, 1, 2000])
def test_invented_cards_make_no_series(gpus):
    invented = "".join(f"invented-{number},NVIDIA,1,1:" for number in range(1000)) + ";"
    cluster = scenario(node("a", gpus=1), pod("x", gpus, on="a", annotations={ALLOCATED: invented}))
    found = scraped(cluster, legacy=True)
    assert not found.get("hami_vgpu_memory_allocated_bytes")
    assert not found.get("vGPUPodsDeviceAllocated")


def test_instances_in_use_are_told_with_their_profile_and_place():
    cluster = scenario(node("a", gpus=[mig("m", index=3)]), holder("x", "m", 2, 1), holder("y", "m", 5, 1))
    found = scraped(cluster, legacy=True)
    assert values(
        found["hami_node_gpu_mig_instance_info"], "device_index", "profile", "placement_start", "placement_size"
    ) == {("3", "1g.5gb", "2", "1"): 1, ("3", "1g.5gb", "5", "1"): 1}
    assert values(found["nodeGPUMigInstance"], "deviceuuid", "migname") == {("m", "1g.5gb-2"): 1, ("m", "1g.5gb-5"): 1}


def test_a_scrape_shows_one_moment_of_the_cards_whatever_happens_while_it_is_sent():
    cluster = one_card()
    parts = cluster_text(cluster, legacy=False)
    begun = next(parts)
    cluster.upsert_node(node("a0", gpus=1))
    cluster.upsert_node(node("a", gpus=3))
    cluster.upsert_pod(running("y", on="a", memory=100))
    found = parsed(begun + "".join(parts))
    assert values(found["hami_gpu_memory_allocated_bytes"], "device_uuid") == {("a/0",): 2000 * MIB}


@pytest.mark.parametrize("seed", range(5))
def test_random_clusters_are_told_as_a_plain_count_finds_them(seed):
    rng = random.Random(seed)
    cluster = scenario(*[node(f"n{i}", gpus=rng.randrange(4)) for i in range(rng.randrange(200))])
    names = [name for name, state in cluster.nodes.items() if state.devices]
    for i in range(rng.randrange(300) if names else 0):
        on = rng.choice(names)
        card = rng.randrange(len(cluster.nodes[on].devices))
        cluster.upsert_pod(running(f"p{i}", on=on, gpu=card, memory=rng.randrange(100), cores=rng.randrange(10)))
    for name in rng.sample(sorted(cluster.nodes), len(cluster.nodes) // 4):
        cluster.remove_node(name)
    expected = {}
    for name in cluster.nodes:
        expected |= {f"{name}/{number}": used for number, used in enumerate(usage(cluster, name))}
    found = scraped(cluster, legacy=True)
    for metric, kind, unit in (
        ("hami_gpu_shared_count", 0, 1),
        ("hami_gpu_memory_allocated_bytes", 1, MIB),
        ("hami_gpu_core_allocated_ratio", 2, 1),
    ):
        assert values(found.get(metric, {}), "device_uuid") == {
            (uuid,): used[kind] * unit for uuid, used in expected.items()
        }
    held = values(found.get("hami_vgpu_memory_allocated_bytes", {}), "node", "device_uuid")
    known = [key for key in cluster.running if cluster.holders[key] in cluster.nodes]
    assert len(found.get("vGPUCoreAllocated", {})) == len(known)
    assert {uuid for _, uuid in held} >= {uuid for uuid, used in expected.items() if used[0]}


# -- the extender's own


def test_a_scrape_tells_how_much_of_the_free_cards_the_usual_pods_can_use():
    halves = [running(f"x{number}", on="a", gpu=number, memory=4000) for number in range(4)]
    cluster = scenario(node("a", gpus=4), *halves, *[pod(f"w{number}", 1, memory=8000) for number in range(4)])
    found = parsed(asyncio.run(ask(ExtenderMetrics().app(parts_of(cluster))))[2].decode())
    assert found["tonnage_gpus_free"] == {frozenset(): 2}
    assert found["tonnage_gpus_free_usable"] == {frozenset(): pytest.approx(1)}


def test_reservations_waiting_binds_silent_nodes_and_the_watch_are_read_when_asked():
    now = [0.0]
    parts = parts_of(one_card(), lambda: now[0], Node=reflector(), Pod=reflector("connection lost", 2, 3))
    parts.reservations.filter(asked(named("p", gpus=1, memory=1000), "a"), 0)

    async def main():
        app = ExtenderMetrics().app(parts)
        assert await parts.handovers.acquire("a", pod("x"), 1)
        waiting = asyncio.create_task(parts.handovers.acquire("a", pod("y"), 100))
        await asyncio.sleep(0)
        now[0] = SILENCE_SECONDS
        status, headers, body = await ask(app)
        waiting.cancel()
        assert status == 200
        assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return parsed(body.decode())

    found = asyncio.run(main())
    assert values(found["tonnage_reservations"], "state") == {("held",): 1, ("binding",): 0, ("bound",): 0}
    assert values(found["tonnage_pods"], "state") == {("waiting",): 0, ("reserved",): 1, ("bound",): 1}
    assert values(found["tonnage_informer_watch_failing"], "kind") == {("Node",): 0, ("Pod",): 1}
    assert values(found["tonnage_informer_lists_total"], "kind") == {("Node",): 1, ("Pod",): 2}
    assert values(found["tonnage_informer_watch_errors_total"], "kind") == {("Node",): 0, ("Pod",): 3}
    plain = {name: samples[frozenset()] for name, samples in found.items() if frozenset() in samples}
    assert plain["tonnage_binds_waiting"] == 1
    assert plain["tonnage_nodes_device_plugin_silent"] == 1
    assert plain["tonnage_nodes"] == 1
    assert plain["tonnage_informer_synced"] == 0
    assert plain["tonnage_informer_events_total"] == 7
    assert plain["tonnage_informer_unreadable_objects"] == 1
    assert values(found["tonnage_build_info"], "version") == {(__version__,): 1}
    assert values(found["hami_build_info"], "version") == {(__version__,): 1}
    assert "hami_gpu_memory_limit_bytes" in found
    assert "GPUDeviceMemoryLimit" not in found


def test_a_scrape_may_be_packed_and_may_have_the_old_names():
    app = ExtenderMetrics().app(parts_of(one_card()), legacy=True)
    _, headers, body = asyncio.run(ask(app, packed=True))
    assert headers["content-encoding"] == "gzip"
    assert "GPUDeviceMemoryLimit" in parsed(body.decode())


def test_only_the_metrics_are_served():
    assert asyncio.run(ask(ExtenderMetrics().app(parts_of(one_card())), "/"))[0] == 404


def test_other_work_goes_on_while_a_large_cluster_is_scraped():
    cluster = scenario(*[node(f"n{i}", gpus=8) for i in range(600)])

    async def main():
        turns = 0

        async def others():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.create_task(others())
        largest = 0
        async for text in ExtenderMetrics().exposition(cluster, legacy=False):
            largest = max(largest, text.count(b"\n"))
        task.cancel()
        return turns, largest

    turns, largest = asyncio.run(main())
    assert turns > 600 * 8 * 7 / SLICE
    assert largest <= SLICE


def test_other_work_goes_on_while_a_scrape_learns_the_usual_pods():
    cluster = scenario(node("a", gpus=1), *[pod(f"p{number}", 1) for number in range(10 * LEARNED_AT_ONCE)])
    metrics = ExtenderMetrics()
    metrics.app(parts_of(cluster))

    async def main():
        turns = 0

        async def others():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.create_task(others())
        first = await anext(metrics.exposition(cluster, legacy=False))
        task.cancel()
        return turns, parsed(first.decode())

    turns, found = asyncio.run(main())
    assert turns >= 10
    assert found["tonnage_gpus_free_usable"] == {frozenset(): 1}


def test_reasons_of_unbounded_number_are_counted_together():
    metrics = ExtenderMetrics()
    for number in range(MOST_REASONS + 50):
        metrics.rejected({f"Reason{number}": 3})
    found = {
        sample.labels["reason"]: sample.value
        for family in metrics.rejections.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }
    assert len(found) == MOST_REASONS + 1
    assert found["Other"] == 50
    assert found["Reason0"] == 1


def test_writes_are_told_by_resource_without_names():
    assert resource_of("/api/v1/namespaces/team/pods/train-0/binding") == "pods/binding"
    assert resource_of("/api/v1/namespaces/team/pods/train-0") == "pods"
    assert resource_of("/api/v1/nodes/gpu-07") == "nodes"
    assert resource_of("/api/v1/namespaces/team/events") == "events"
    assert resource_of("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x") == "leases"
    assert resource_of("/api/v1/namespaces/team") == "namespaces"


# -- the page


def documented():
    """Name, type and labels of every metric on the page."""
    found = set()
    for line in (ROOT / "docs/metrics.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 4:
            names, kind, labels, _ = cells
            found |= {(name, kind, frozenset(re.findall(r"`(\w+)`", labels))) for name in re.findall(r"`(\w+)`", names)}
    return found


def test_the_page_has_every_metric_with_its_type_and_labels_and_no_other():
    assert documented() == of_the_extender() | of_the_batch_scheduler() | of_the_agent()


def test_the_page_has_every_value_of_labels_that_have_few():
    lines = (ROOT / "docs/metrics.md").read_text().splitlines()
    rows = {line.split("`")[1]: line for line in lines if line.startswith("| `") and line.count("|") == 5}
    for name, expected in (
        ("tonnage_request_duration_seconds", VERBS),
        ("tonnage_decisions_total", (outcome for outcomes in OUTCOMES.values() for outcome in outcomes)),
        ("tonnage_api_write_duration_seconds", (SUCCESS, CONFLICT, REFUSED, UNKNOWN)),
        ("tonnage_bind_conflicts_total", CONFLICTS),
        ("tonnage_node_locks_total", LOCKS),
        ("tonnage_handshakes_total", HANDSHAKES),
        ("tonnage_reservations", (state.value for state in ReservationState)),
        ("tonnage_agent_cards", (agentmetrics.HEALTHY, agentmetrics.UNHEALTHY)),
        ("tonnage_agent_answers_total", (agentmetrics.GIVEN, agentmetrics.REFUSED)),
        ("tonnage_agent_regions", (usage_states.READ, usage_states.NONE_YET, *REGION_FAULTS)),
        ("tonnage_events_total", (events.WRITTEN, events.REPEATED, events.REFUSED, events.DROPPED)),
    ):
        assert [value for value in expected if f"`{value}`" not in rows[name]] == [], name


def test_the_page_has_the_limits_of_events():
    page = " ".join((ROOT / "docs/metrics.md").read_text().split())
    limits = f"up to {events.PER_SECOND:g} a second are written, after a burst of up to {events.BURST}"
    assert f"{limits}, from a queue of {events.MOST_QUEUED:,}," in page


def test_all_of_hamis_metrics_carry_their_zone():
    every = [one.family for one in (*cardmetrics.NEW, *cardmetrics.OLD)] + podmetrics.NEW + podmetrics.OLD
    every += quotametrics.NEW + quotametrics.OLD
    assert all(family.labels[-1] == "zone" for family in every)


def test_quotas_are_told_with_what_is_held_and_reserved():
    cluster = one_card()
    hard = {"limits.nvidia.com/gpumem": 4000, "limits.nvidia.com/gpucores": "50", "pods": 7}
    cluster.quotas.upsert(ResourceQuota(ObjectMeta("q", "default"), QuotaSpec(hard)))
    cluster.quotas.upsert(ResourceQuota(ObjectMeta("q", "idle"), QuotaSpec({"limits.hygon.com/dcumem": 0})))
    place(cluster, pod("p", 1, memory=1000))
    found = scraped(cluster, legacy=True)
    used = {
        ("default", "nvidia.com/gpumem", "4000"): 3000,
        ("default", "nvidia.com/gpucores", "50"): 30,
        ("idle", "hygon.com/dcumem", "0"): 0,
    }
    assert values(found["hami_resource_quota_used"], "namespace", "quota_name", "limit") == used
    assert values(found["QuotaUsed"], "quotanamespace", "quotaName", "limit") == used
    limits = {(namespace, name): float(limit) for namespace, name, limit in used}
    assert values(found["hami_resource_quota_limit"], "namespace", "quota_name") == limits
