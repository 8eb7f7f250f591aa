"""Cards and nodes that vanish, fall ill and return while pods hold them: after every step the usage is a recount."""

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.outcomes import VENDORS
from tests.properties.worlds import examples, phases
from tests.scenario import REGISTER, gpu, node, pod, running
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import CORES, MEMORY, SLOTS
from tonnage.cluster.task import make_task
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins

HANDSHAKE = "hami.io/node-handshake"
UUIDS = ["u", "v", "w"]
NVIDIA = 0

registrations = st.fixed_dictionaries(
    {
        "cards": st.lists(st.sampled_from(UUIDS), unique=True),
        "ill": st.sets(st.sampled_from(UUIDS), max_size=1),
        "cordoned": st.sets(st.sampled_from(UUIDS), max_size=1),
        "said": st.sampled_from(["", "Reported", "Requesting_2026-01-01 00:00:00", "Deleted_2026-01-01 00:00:00"]),
        "offered": st.sampled_from([None, 0, 30]),
        "readable": st.sampled_from([True, True, True, False]),
    }
)


def registered(now):
    """The node as it registers itself at one moment, and the cards that then count."""
    found = [gpu(uuid, index=i, healthy=uuid not in now["ill"]) for i, uuid in enumerate(now["cards"])]
    text = json.dumps(found)
    notes = {REGISTER: text if now["readable"] else text[:-1] + "?"}
    notes |= {HANDSHAKE: now["said"]} if now["said"] else {}
    notes |= {"hami.io/device-cordon": ",".join(now["cordoned"])} if now["cordoned"] else {}
    offers = {} if now["offered"] is None else {"nvidia.com__gpu": now["offered"]}
    written_off = now["said"].startswith("Deleted") and not now["offered"]
    there = now["cards"] if now["readable"] and not written_off else []
    return node("a", annotations=notes, **offers), there


def assert_recounted(cluster, there, held):
    """`held` has, by pod, the cards it holds, with memory and cores on each."""
    state = cluster.nodes["a"]
    columns = cluster.columns
    assert [device.uuid for device in state.devices] == list(there)
    slots, memory, cores = Counter(), Counter(), Counter()
    for uses in held.values():
        for uuid, mib, percent in uses:
            slots[uuid] += 1
            memory[uuid] += mib
            cores[uuid] += percent
    used = columns.card_total[:, :, state.row] - columns.card_free[:, :, state.row]
    for position, uuid in enumerate(there):
        found = used[(SLOTS, MEMORY, CORES), position].tolist()
        assert found == [slots[uuid], memory[uuid], cores[uuid]], uuid
    elsewhere = sum(number for uuid, number in slots.items() if uuid not in there)
    assert columns.foreign[NVIDIA, state.row] == columns.foreign_total == elsewhere
    kinds = {SLOTS: slots, MEMORY: memory, CORES: cores}
    sums = [sum(kinds[kind][uuid] for uuid in there) for kind in range(3)]
    assert columns.node_used[:, state.row].tolist() == sums


@settings(max_examples=examples(150), deadline=None, phases=phases())
@given(st.lists(registrations, min_size=1, max_size=4), st.data())
def test_usage_is_right_at_every_step(moments, data):
    cluster = Cluster(VENDORS)
    session = Session(cluster, default_plugins())
    there: list[str] = []
    held: dict[str, list[tuple[str, int, int]]] = {}
    known = False
    names = (f"p{number}" for number in range(1000))
    for _ in range(data.draw(st.integers(3, 12))):
        step = data.draw(st.sampled_from(["register", "register", "remove", "run", "place", "end", "confirm"]))
        if step == "register" or not known:
            thing, there = registered(data.draw(st.sampled_from(moments)))
            cluster.upsert_node(thing)
            known = True
        elif step == "remove":
            cluster.remove_node("a")
            assert cluster.columns.foreign_total == 0
            known = False
            continue
        elif step == "run":
            name, which = next(names), data.draw(st.lists(st.sampled_from(UUIDS), min_size=1, max_size=2, unique=True))
            cluster.upsert_pod(running(name, on="a", gpu=which, memory=1000, cores=10))
            held[f"default/{name}"] = [(uuid, 1000, 10) for uuid in which]
        elif step == "place":
            wanted = pod(next(names), 1, memory=500, cores=5)
            cluster.upsert_pod(wanted)
            decision = session.place(make_task(wanted, VENDORS))
            if decision.node is not None:
                (given_card,) = decision.devices
                assert given_card.uuid in there
                held[wanted.key] = [(given_card.uuid, 500, 5)]
        elif held:
            key = data.draw(st.sampled_from(sorted(held)))
            if step == "confirm":
                cluster.confirm(key)
            elif key in cluster.reserved:
                session.unplace(key)
                del held[key]
            else:
                cluster.remove_pod(key)
                del held[key]
        assert_recounted(cluster, there, held)
    session.close()


def test_a_card_that_returns_still_bears_what_its_pods_hold():
    cluster = Cluster(VENDORS)
    everything = {"cards": UUIDS, "ill": set(), "cordoned": set(), "said": "", "offered": 30, "readable": True}
    held = {"default/x": [("u", 1000, 10), ("v", 1000, 10)], "default/y": [("v", 1000, 10)]}
    cluster.upsert_node(registered(everything)[0])
    cluster.upsert_pod(running("x", on="a", gpu=["u", "v"], memory=1000, cores=10))
    cluster.upsert_pod(running("y", on="a", gpu=["v"], memory=1000, cores=10))
    for cards in (UUIDS, ["u", "w"], [], ["w", "v", "u"], UUIDS):
        thing, there = registered(everything | {"cards": cards})
        cluster.upsert_node(thing)
        assert_recounted(cluster, there, held)
    cluster.upsert_node(registered(everything | {"cards": ["u", "w"]})[0])
    cluster.remove_pod("default/y")
    cluster.upsert_node(registered(everything)[0])
    assert_recounted(cluster, UUIDS, {"default/x": held["default/x"]})
