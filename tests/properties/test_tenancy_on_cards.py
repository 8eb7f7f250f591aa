"""Whatever comes and goes, nobody shares a card with others that it must not, and the columns know who is where."""

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plugins.gpus.vendor_lives import asking, live, machine
from tests.plugins.gpus.vendornodes import sgpu, sgpus, vxpu_node
from tests.properties.worlds import examples
from tests.scenario import scenario
from tonnage.cluster.columns import CORES, MEMORY, SLOTS
from tonnage.devices.kunlun import KunlunShared
from tonnage.devices.metax import MetaxShared

SIZES = st.lists(st.sampled_from([None, 1000, 24576, 30000, 49152, 98304]), min_size=1, max_size=2)
"""Memory that each container of a pod asks for."""
POLICIES = st.sampled_from([None, "best-effort", "fixed-share", "burst-share", "odd"])
CLASSES = st.sampled_from([None, None, "online", "offline"])
SGPUS = st.tuples(st.sampled_from([1, 4, 16]), st.sampled_from([None, 10, 50]), POLICIES, CLASSES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("vxpu"), SIZES),
        st.tuples(st.just("sgpu"), SGPUS),
        st.tuples(st.just("leave"), st.integers(0, 20)),
        st.tuples(st.just("read anew"), st.none()),
    ),
    max_size=14,
)


def vxpu(memory):
    return {"kunlunxin.com/vxpu": 1} | ({"kunlunxin.com/vxpu-memory": memory} if memory else {})


def both_kinds(labels=None):
    """One node with two cards of each of the vendors that are choosy."""
    annotations = {**sgpus(0, 1).annotations, **vxpu_node(2).annotations}
    return machine(annotations=annotations, labels=labels)


def present(cluster):
    """Who is on each card, counted from the pods."""
    found = {}
    for task in cluster.running.values():
        for vendor in cluster.vendors:
            if vendor.is_choosy and vendor.allocated in task.annotations:
                words = {
                    (use.uuid, vendor.tenancy(use.memory, task.annotations))
                    for container in vendor.decode_pod(task.pod)
                    for use in container
                }
                for uuid, word in words:
                    found.setdefault(uuid, Counter())[word] += 1
    return found


def check(cluster):
    (state,), columns = cluster.states, cluster.columns
    expected = present(cluster)
    for position, device in enumerate(state.devices):
        here = expected.get(device.uuid, Counter())
        assert columns.tenancies[int(columns.tenancy[position, state.row])] == frozenset(here)
        vendor = cluster.vendors[state.vendors[position]]
        if isinstance(vendor, KunlunShared):
            assert len(here) <= 1
        if isinstance(vendor, MetaxShared):
            classes = {word.split()[0] for word in here}
            assert len(here) <= 1 or classes <= {"online", "offline"}
    assert (columns.card_free[(SLOTS, MEMORY, CORES), :, state.row] >= 0).all()


@settings(max_examples=examples(60))
@given(steps=STEPS)
def test_only_those_share_a_card_who_may(steps):
    cluster = scenario(both_kinds())
    for number, (what, detail) in enumerate(steps):
        if what == "vxpu":
            live(cluster, asking(f"p{number}", *[vxpu(size) for size in detail]))
        elif what == "sgpu":
            memory, core, qos, kind = detail
            live(cluster, sgpu(f"p{number}", 1, memory, core, qos=qos, kind=kind))
        elif what == "leave":
            cluster.remove_pod(f"default/p{detail}")
        else:
            cluster.upsert_node(both_kinds({"changed": json.dumps(number)}))
        check(cluster)
