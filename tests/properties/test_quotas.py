"""Quotas on cards under random events: what is held is always a recount, and decisions are those of a naive search."""

from collections import Counter
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.gpus.migcards import mig
from tests.plugins.gpus.quotas import CORES, MEMORY, NOT_FIT, quota
from tests.properties.worlds import examples, phases
from tests.scenario import ALLOCATED, container, gpu, node, part, plain, pod, reasons, scenario, session
from tonnage.cluster.columns import CORES as CARD_CORES
from tonnage.cluster.columns import MEMORY as CARD_MEMORY
from tonnage.cluster.columns import SLOTS
from tonnage.cluster.task import make_task

NAMES = ["team", "other"]
RESOURCES = ["nvidia.com/gpumem", "nvidia.com/gpucores"]
SIZES = [3000, 4000, 9000]
amounts = st.sampled_from([0, 500, 2999, 4000, 7000, 13000, 30000])
quotas = st.one_of(
    st.fixed_dictionaries({MEMORY: amounts}),
    st.fixed_dictionaries({MEMORY: amounts, CORES: st.sampled_from([0, 60, 150])}),
    st.just({"limits.cpu": 1}),
)
wishes = st.fixed_dictionaries(
    {"gpus": st.integers(1, 3)},
    optional={
        "memory": st.sampled_from([0, 400, 3000]),
        "percentage": st.sampled_from([30, 100]),
        "cores": st.sampled_from([0, 30, 100]),
    },
)


# -- what is held


def recounted(cluster, namespace):
    """Memory and compute that the pods of a namespace hold, from each pod's cards."""
    held = Counter()
    for key, name in cluster.holders.items():
        if key.startswith(f"{namespace}/") and not (cluster.is_ahead and key in cluster.leaving):
            state = cluster.nodes.get(name)
            uses = cluster.held(key).vendors if state is None else state.uses(key)
            for card in (card for use in uses for card in use.cards):
                held.update({RESOURCES[0]: card.memory, RESOURCES[1]: card.cores})
    return held


def assert_recounted(cluster):
    for namespace in NAMES:
        held = recounted(cluster, namespace)
        found = cluster.quotas.used(namespace)
        numbers = {cluster.quotas.names[number]: amount for number, amount in found.items() if amount}
        assert numbers == {name: amount for name, amount in held.items() if amount}


def a_node(data, name):
    kind = data.draw(st.sampled_from(["shared", "mixed", "mig", "plain", "plain", "bare"]))
    if kind == "plain":
        return plain(name, data.draw(st.integers(1, 3)), gpu_memory=4000)
    found = {
        "shared": [gpu(f"{name}/{i}", index=i, memory=4000) for i in range(2)],
        "mixed": [gpu(f"{name}/{i}", index=i, memory=size) for i, size in enumerate(SIZES)],
        "mig": [mig(f"{name}/0")],
        "bare": [],
    }[kind]
    return node(name, gpus=found)


def a_running_pod(data, name, namespace):
    on = data.draw(st.sampled_from(["a", "a", "b", "gone"]))
    how = data.draw(st.sampled_from(["annotated", "phases", "silent", "group"]))
    if how == "silent":
        return pod(name, 1, on=on, namespace=namespace)
    if how == "group":
        return part(name, "0.5", on=on, group=data.draw(st.sampled_from("gh")), namespace=namespace)
    first = f"{on}/{data.draw(st.integers(0, 2))},NVIDIA,700,10:"
    text = f"{first}{on}/0,NVIDIA,300,20:;" if how == "annotated" else f"{first};{on}/0,NVIDIA,400,5:;"
    init = [container("init", gpus=1)] if how == "phases" else None
    return pod(name, 1, on=on, init=init, annotations={ALLOCATED: text}, namespace=namespace)


@settings(max_examples=examples(200), deadline=None, phases=phases())
@given(st.data())
def test_what_is_held_is_a_recount_after_every_event(data):
    cluster = scenario(a_node(data, "a"))
    opened = session(cluster)
    names = (f"p{number}" for number in range(1000))
    for _ in range(data.draw(st.integers(5, 30))):
        steps = [
            "node",
            "forget node",
            "run",
            "run",
            "run",
            "place",
            "place",
            "end",
            "bind",
            "evict",
            "restore",
            "ahead",
            "quota",
        ]
        step = data.draw(st.sampled_from(steps))
        namespace = data.draw(st.sampled_from(NAMES))
        known = sorted(cluster.holders)
        if step == "node":
            cluster.upsert_node(a_node(data, data.draw(st.sampled_from("ab"))))
        elif step == "forget node":
            cluster.remove_node(data.draw(st.sampled_from("ab")))
        elif step == "run":
            again = [task.name for task in cluster.running.values() if task.namespace == namespace]
            name = data.draw(st.sampled_from(again)) if again and data.draw(st.booleans()) else next(names)
            cluster.upsert_pod(a_running_pod(data, name, namespace))
        elif step == "place":
            wanted = pod(next(names), namespace=namespace, **data.draw(wishes))
            decision = opened.place(make_task(wanted, cluster.vendors))
            if decision.node is not None:
                for resource in RESOURCES:
                    limit = cluster.quotas.quota(namespace, resource)
                    asked = sum(d.memory if resource == RESOURCES[0] else d.cores for d in decision.devices)
                    assert limit is None or not asked or limit.used <= limit.limit
        elif step == "quota":
            cluster.quotas.upsert(quota(data.draw(quotas), namespace))
        elif step == "ahead":
            cluster.look_ahead(not cluster.is_ahead)
        elif known:
            key = data.draw(st.sampled_from(known))
            if step == "end":
                cluster.remove_pod(key)
            elif step == "bind":
                cluster.confirm(key)
            else:
                (cluster.evict if step == "evict" else cluster.restore)(key)
        assert_recounted(cluster)
    for key in sorted(cluster.pods()):
        cluster.remove_pod(key)
    assert not any(cluster.quotas.used(namespace) for namespace in NAMES)


# -- what is decided


def affordable(cluster, wanted, left):
    """Whether some set of fitting cards of some node stays within what is left, by looking at all of them."""
    task = make_task(wanted, cluster.vendors)
    (request,) = task.demands[0].requests
    for state in cluster.states:
        free = cluster.columns.card_free[:, :, state.row]
        total = cluster.columns.card_total[:, :, state.row]
        fitting = []
        for card, device in enumerate(state.devices):
            needed = request.memory_on(device.memory)
            untouched = free[SLOTS, card] == total[SLOTS, card]
            if (
                free[SLOTS, card] >= 1
                and free[CARD_MEMORY, card] >= needed
                and free[CARD_CORES, card] >= max(request.cores, 1)
                and (request.cores < 100 or untouched)
            ):
                fitting.append(needed)
        for some in combinations(fitting, request.count):
            memory, cores = sum(some), request.cores * request.count
            if all(not asked or asked <= rest for asked, rest in zip((memory, cores), left, strict=True)):
                return True
    return False


@settings(max_examples=examples(200), deadline=None, phases=phases())
@given(
    st.lists(st.lists(st.sampled_from(SIZES), min_size=1, max_size=4), min_size=1, max_size=3),
    quotas,
    st.lists(wishes, min_size=1, max_size=6),
)
def test_a_pod_is_placed_exactly_if_some_cards_stay_within_the_quota(worlds, hard, wanted):
    nodes = [
        node(f"n{place}", gpus=[gpu(f"n{place}/{i}", index=i, memory=size) for i, size in enumerate(sizes)])
        for place, sizes in enumerate(worlds)
    ]
    cluster = scenario(*nodes)
    cluster.quotas.upsert(quota(hard, "team"))
    with session(cluster) as opened:
        for number, wish in enumerate(wanted):
            cluster.settle()
            asked = pod(f"p{number}", namespace="team", **wish)
            found = [cluster.quotas.quota("team", resource) for resource in RESOURCES]
            left = [float("inf") if one is None else one.limit - one.used for one in found]
            free, limited = (affordable(cluster, asked, rest) for rest in ([float("inf")] * 2, left))
            decision = opened.place(make_task(asked, cluster.vendors))
            assert (decision.node is not None) == limited
            assert (NOT_FIT in reasons(decision)) or limited or not free
            assert_recounted(cluster)
