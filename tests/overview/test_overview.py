"""The overview of a cluster: its rows say what the cluster says, and only what has changed is made again."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenario import gpu, node, place, pod, running, scenario, session
from tonnage.cluster.cluster import Cluster
from tonnage.framework.reasons import KNOWN_REASONS
from tonnage.model.selection import Taint
from tonnage.overview.noderows import CardRow
from tonnage.overview.overview import Overview
from tonnage.overview.strandedcards import REASONS
from tonnage.plugins.fragmentation.fragments import fragmentation
from tonnage.plugins.fragmentation.usablecards import UsableCards


def cards(cluster: Cluster, name: str) -> tuple[CardRow, ...]:
    return next(row for row in Overview(cluster).update().nodes if row.name == name).cards


def stranded(cluster: Cluster, name: str) -> list[str]:
    return [card.stranded for card in cards(cluster, name)]


def test_a_card_names_its_holders_and_what_each_holds():
    cluster = scenario(
        node("a", gpus=2), running("x", on="a", gpu=0, memory=2000, cores=30), running("y", on="a", memory=1000)
    )
    first, second = cards(cluster, "a")
    assert [(one.pod, one.queue, one.memory, one.cores) for one in first.holders] == [
        ("default/x", "default", 2000, 30),
        ("default/y", "default", 1000, 0),
    ]
    assert (first.memory, first.memory_used, first.cores_used, first.slots_used) == (8000, 3000, 30, 2)
    assert (first.free, first.stranded) == (0.625, "")
    assert (second.holders, second.free) == ((), 1)


def test_cards_without_cpu_beside_them_only_look_free():
    cluster = scenario(node("a", gpus=2), node("b", gpus=1), pod("hog", on="a", cpu="64"))
    cluster.upsert_pod(pod("typical", 1, memory=4000, cpu="4", on="b"))
    assert stranded(cluster, "a") == ["InsufficientCpu", "InsufficientCpu"]
    assert stranded(cluster, "b") == [""]
    totals = Overview(cluster).update().totals
    assert (totals.stranded, totals.stranded_free) == (2, 2.0)


def test_a_rest_that_is_too_small_for_any_typical_pod_is_stranded():
    cluster = scenario(
        node("a", gpus=2),
        running("x", on="a", gpu=0, memory=7000),
        running("y", on="a", gpu=1, memory=4000, cores=100),
        pod("waits", 1, memory=8000),
    )
    assert stranded(cluster, "a") == ["CardInsufficientMemory", "CardInsufficientCore"]


def test_cards_of_a_model_that_nobody_wants_are_stranded():
    wants = {"nvidia.com/use-gputype": "A100"}
    cluster = scenario(
        node("a", gpus=[gpu("a/0", type="NVIDIA T4")]),
        node("b", gpus=1),
        pod("waits", 1, memory=1000, annotations=wants),
    )
    assert stranded(cluster, "a") == ["CardTypeMismatch"]
    assert stranded(cluster, "b") == [""]


def test_single_cards_are_stranded_where_pods_want_two():
    pairs = [pod(f"waits-{number}", 2) for number in range(30)]
    cluster = scenario(node("a", gpus=2), node("b", gpus=2), running("x", on="a", gpu=0, memory=8000), *pairs)
    assert stranded(cluster, "a") == ["", "AllocatedCardsInsufficientRequest"]
    assert stranded(cluster, "b") == ["", ""]


def test_a_card_without_slots_sick_cards_and_closed_nodes_are_stranded():
    cluster = scenario(
        node("full", gpus=1, slots=1),
        running("x", on="full", memory=100),
        node("sick", gpus=[gpu("sick/0", healthy=False)]),
        node("cordoned", gpus=1, unschedulable=True),
        node("lost", gpus=1, taints=[Taint("node.kubernetes.io/unreachable", "", "NoSchedule")]),
    )
    assert stranded(cluster, "full") == ["CardTimeSlicingExhausted"]
    assert stranded(cluster, "sick") == ["CardNotHealth"]
    assert cards(cluster, "sick")[0].health == "unhealthy"
    assert stranded(cluster, "cordoned") == ["NodeUnschedulable"]
    assert stranded(cluster, "lost") == ["UntoleratedTaint"]
    cluster.device_plugins.update(frozenset(("full",)))
    assert stranded(cluster, "full") == ["DevicePluginSilent"]


def test_nothing_is_stranded_where_nobody_wants_cards():
    assert stranded(scenario(node("a", gpus=2)), "a") == ["", ""]


def test_every_reason_of_a_stranded_card_is_a_registered_one():
    assert set(REASONS[1:]) <= KNOWN_REASONS.keys()


def test_waiting_pods_are_grouped_by_their_main_reason_the_oldest_first():
    cluster = scenario(
        node("a", gpus=1),
        pod("young", 1, memory=9000, created="2026-01-01T00:01:00Z"),
        pod("old", 1, memory=9000, created="2026-01-01T00:00:00Z"),
        pod("fresh", 1, memory=10),
    )
    with session(cluster) as open_session:
        decisions = {key: open_session.decide(task) for key, task in cluster.waiting.items() if "fresh" not in key}
    found = Overview(cluster).update(lambda task: decisions.get(task.key))
    assert [(group.reason, [row.pod for row in group.pods]) for group in found.waiting] == [
        ("CardInsufficientMemory", ["default/old", "default/young"]),
        ("", ["default/fresh"]),
    ]
    assert found.waiting[0].means
    assert found.waiting[0].gpus == 2
    assert found.totals.waiting == 3


def test_queues_count_cards_held_and_pods_that_wait():
    labels = {"kai.scheduler/queue": "research"}
    cluster = scenario(node("a", gpus=2), pod("waits", 2, labels=labels), running("x", on="a", gpu=0, memory=4000))
    rows = {row.name: row for row in Overview(cluster).update().queues}
    assert (rows["research"].waiting, rows["research"].waiting_cards, rows["research"].cards) == (1, 2, 0)
    assert (rows["default"].running, rows["default"].cards) == (1, 0.5)


def test_only_rows_that_changed_get_a_new_stamp():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1), running("x", on="a", memory=100))
    overview = Overview(cluster)
    first = overview.update()
    place(cluster, pod("p", 1, memory=100), node_policy="spread")
    second = overview.update()
    assert second.stamp > first.stamp
    changed, gone = overview.node_rows.since(first.stamp)
    assert ([row.name for row in changed], gone) == (["b"], [])
    assert second.nodes[0] is first.nodes[0]
    assert overview.update().stamp == second.stamp
    cluster.remove_node("b")
    overview.update()
    assert overview.node_rows.since(second.stamp) == ([], ["b"])
    cluster.upsert_node(node("b", gpus=1))
    assert [row.name for row in overview.update().nodes] == ["a", "b"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from((500, 3000, 8000)), st.sampled_from((1, 2)), st.booleans()),
        max_size=12,
    )
)
def test_rows_that_are_followed_equal_rows_that_are_made_anew(steps: list[tuple[int, int, int, bool]]):
    cluster = scenario(*(node(name, gpus=2) for name in "abc"))
    overview = Overview(cluster)
    for number, (target, memory, count, leaves) in enumerate(steps):
        place(cluster, pod(f"p{number}", count, memory=memory, cpu="8"))
        if leaves:
            cluster.remove_pod(f"default/p{target}")
        followed = overview.update()
        fresh = Overview(cluster)
        # What pods typically want is learned again only after many changes.
        fresh._usable.learned = None
        fresh._usable._workload = lambda known=overview: known._usable.fragments.workload
        anew = fresh.update()
        assert [_bare(row) for row in followed.nodes] == [_bare(row) for row in anew.nodes]
        assert followed.totals == anew.totals


def _bare(row):
    return (row.name, row.cards, row.pods, row.cpu_free, row.ram_free)


def test_the_usable_parts_of_cards_add_up_to_the_measure_of_fragmentation():
    cluster = scenario(
        node("a", gpus=4), node("b", gpus=2), running("x", on="a", memory=3000), pod("waits", 2, cpu="4")
    )
    found = Overview(cluster).update()
    measured = UsableCards(cluster, ())
    measured.learn()
    counted = fragmentation(cluster, measured.fragments.workload)
    cards_ = [card for row in found.nodes for card in row.cards]
    assert sum(card.free for card in cards_) == found.totals.free == counted.free
    assert abs(sum(card.free - card.usable for card in cards_) - counted.fragments) < 1e-6
