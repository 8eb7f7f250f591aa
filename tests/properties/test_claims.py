"""No honest pod counts with less than it holds: of any vendor, placed by Tonnage or HAMi, under any configuration."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.plugins.gpus.vendor_lives import machine
from tests.plugins.gpus.vendornodes import registered
from tests.properties.worlds import PROFILES, examples
from tests.scenario import place
from tonnage.binder.binding import device_annotations
from tonnage.cluster.cluster import Cluster
from tonnage.devices._plain import CapacityVendor, WholeVendor
from tonnage.devices.ascend import Ascend, Chip, Template
from tonnage.devices.catalog import default_vendors
from tonnage.devices.enflame import EnflameSliced
from tonnage.devices.hygon import Hygon
from tonnage.devices.metax import MetaxShared
from tonnage.devices.neuron import Neuron
from tonnage.devices.nvidia import MIG_ALLOCATIONS, Nvidia
from tonnage.model.meta import ObjectMeta
from tonnage.model.pod import Container, Pod, PodSpec, ReportedPodStatus, ResourceRequirements

VENDORS = default_vendors()
MEMORY = {"XPU": 98304, "Ascend310P": 24576}
"""MiB of a card, where it is not 65536."""


def size(vendor):
    return MEMORY.get(vendor.name, 65536)


def node_of(vendor, scale=1, mig=False):
    """A node with eight cards of the vendor, whose memory its plugin scales."""
    memory = int(size(vendor) * scale)
    if isinstance(vendor, EnflameSliced):
        cards = [{"index": index, "minor": index, "capacity": 6} for index in range(8)]
        told = {"devices": cards, "profiles": {"1g.6gb": "1", "3g.20gb": "2", "6g.42gb": "3"}}
        return machine(annotations={vendor.register_annotations[0]: json.dumps(told)})
    if isinstance(vendor, MetaxShared):
        card = {"totalDevCount": 16, "totalCompute": 100, "totalVRam": memory, "healthy": True}
        told = [card | {"uuid": f"GPU-{index}"} for index in range(8)]
        return machine(annotations={vendor.register_annotations[0]: json.dumps(told)})
    if isinstance(vendor, Neuron):
        return machine(capacity={vendor.count_resource: 8, vendor.cores_resource: 16})
    if isinstance(vendor, WholeVendor):
        return machine(capacity={vendor.count_resource: 8})
    if isinstance(vendor, CapacityVendor):
        units = 8 * memory // vendor.memory_unit
        cores = 8 * vendor.cores_of_card
        return machine(capacity={vendor.cores_resource: cores, vendor.memory_resource: units})
    facts = {"count": 10, "devmem": memory, "type": f"{vendor.name} model"}
    if mig:
        facts |= {"mode": "mig", "migProfiles": PROFILES, "devmem": int(8000 * scale)}
    text = registered(*[f"{vendor.name}-{index}" for index in range(8)], **facts)
    return machine(annotations={vendor.register_annotations[0]: text})


@st.composite
def limits(draw, vendor):
    """What a container asks of a vendor's cards, in any of the ways that there are."""
    if isinstance(vendor, EnflameSliced) and draw(st.booleans()):
        return {vendor.memory_resource: draw(st.sampled_from([4, 16, 6000]))}
    if isinstance(vendor, Neuron) and draw(st.booleans()):
        return {vendor.cores_resource: draw(st.sampled_from([1, 2]))}
    asked = {vendor.count_resource: draw(st.sampled_from([1, 1, 2, 4]))}
    if vendor.memory_resource and draw(st.booleans()):
        asked[vendor.memory_resource] = draw(st.sampled_from([512, 1000, 5000, 20000])) // vendor.memory_unit or 1
    if vendor.cores_resource and draw(st.booleans()):
        asked[vendor.cores_resource] = draw(st.sampled_from([1, 7, 30, 100]))
    if isinstance(vendor, Nvidia) and draw(st.booleans()):
        asked[vendor.percentage_resource] = draw(st.sampled_from([1, 33, 100]))
    return asked


@st.composite
def pods(draw, vendor):
    """A pod whose init containers, sidecars and containers may each ask for cards."""
    name = f"p{draw(st.integers(0, 9999))}"
    if isinstance(vendor, Nvidia) and draw(st.integers(0, 4)) == 0:
        asked = draw(st.sampled_from([{"gpu-fraction": "0.3"}, {"gpu-memory": "700"}]))
        notes = asked | draw(st.sampled_from([{}, {"gpu-fraction-num-devices": "2"}]))
        return Pod(ObjectMeta(name, "default", annotations=notes, uid=name), PodSpec([Container("c")]))

    def some(kind, least, most):
        made = []
        for number in range(draw(st.integers(least, most))):
            asked = draw(limits(vendor)) if draw(st.integers(0, 3)) else {}
            policy = "Always" if kind == "i" and draw(st.booleans()) else None
            resources = ResourceRequirements(limits=asked)
            made.append(Container(f"{kind}{number}", resources, restartPolicy=policy))
        return made

    return Pod(ObjectMeta(name, "default", uid=name), PodSpec(some("c", 1, 2), initContainers=some("i", 0, 2)))


def changed(vendor):
    """The vendor after a change of the device configuration."""
    if isinstance(vendor, Nvidia):
        return Nvidia(default_memory=10, default_cores=1, memory_factor=3)
    if isinstance(vendor, Hygon):
        return Hygon(memory_factor=4)
    if isinstance(vendor, Ascend):
        return Ascend(Chip(vendor.name, (Template("tiny", 1), Template("small", 100)), 65536, 200))
    return vendor


def as_bound(cluster, decision, rewrite=lambda text, pod: text):
    """The pod as the API server shows it after its Binding, with the record in one of the forms that there are."""
    made = decision.task.pod
    written = device_annotations(cluster, decision.task, decision.node, decision.grant, 0)
    records = {vendor.allocated for vendor in cluster.vendors}
    written = {key: rewrite(text, made) if key in records else text for key, text in written.items()}
    return replace(
        made,
        metadata=replace(made.metadata, annotations={**made.annotations, **written}),
        spec=replace(made.spec, nodeName=decision.node),
        status=ReportedPodStatus("Pending"),
    )


def placed(vendor, wanted, **more):
    """Each pod that finds a place on a node of the vendor, as it is bound, with what it holds."""
    cluster = Cluster(VENDORS)
    cluster.upsert_node(node_of(vendor, **more))
    found = []
    for pod in {pod.key: pod for pod in wanted}.values():
        decision = place(cluster, pod)
        if decision.node is not None and decision.grant:
            found.append((as_bound(cluster, decision), cluster.held(pod.key), decision))
    return cluster, found


def cards(holding):
    return {
        (use.vendor, card.uuid): (card.slots, card.memory, card.cores) for use in holding.vendors for card in use.cards
    }


def assert_no_less(holding, held):
    """Nothing of what is really held is missing."""
    counted = cards(holding)
    for key, parts in cards(held).items():
        assert all(one >= other for one, other in zip(counted[key], parts, strict=True)), (holding, held)


WORLDS = st.sampled_from(VENDORS).flatmap(
    lambda vendor: st.tuples(
        st.just(vendor),
        st.lists(pods(vendor), min_size=1, max_size=4),
        st.booleans() if isinstance(vendor, Nvidia) else st.just(False),
    )
)


@settings(max_examples=examples(300), deadline=None)
@given(WORLDS)
def test_what_this_configuration_places_counts_as_it_was_placed(world):
    vendor, wanted, mig = world
    _, found = placed(vendor, wanted, mig=mig)
    fresh = Cluster(VENDORS)
    fresh.claims.is_settled = True
    fresh.upsert_node(node_of(vendor, mig=mig))
    for pod, held, _ in found:
        fresh.upsert_pod(pod)
        assert fresh.held(pod.key) == held
    assert not fresh.claims.ignored


@settings(max_examples=examples(200), deadline=None)
@given(WORLDS, st.sampled_from([0.5, 1, 3]), st.booleans())
def test_what_another_configuration_placed_counts_as_it_is_written(world, scale, node_first):
    vendor, wanted, mig = world
    _, found = placed(vendor, wanted, mig=mig)
    later = Cluster([changed(one) for one in VENDORS])
    node = node_of(vendor, scale)
    if node_first:
        later.upsert_node(node)
    for pod, _, _ in found:
        later.upsert_pod(pod)
    later.upsert_node(node)
    for pod, held, _ in found:
        assert_no_less(later.held(pod.key), held)


@settings(max_examples=examples(100), deadline=None)
@given(WORLDS, st.sampled_from([0.25, 0.5, 3]))
def test_a_card_that_is_registered_anew_takes_nothing_from_its_pods(world, scale):
    vendor, wanted, mig = world
    _, found = placed(vendor, wanted, mig=mig)
    cluster = Cluster(VENDORS)
    cluster.claims.is_settled = True
    cluster.upsert_node(node_of(vendor, mig=mig))
    for pod, _, _ in found:
        cluster.upsert_pod(pod)
    cluster.upsert_node(node_of(vendor, scale, mig=mig))
    for pod, held, _ in found:
        cluster.upsert_pod(replace(pod, status=ReportedPodStatus("Running")))
        assert_no_less(cluster.held(pod.key), held)


@settings(max_examples=examples(100), deadline=None)
@given(WORLDS, st.data())
def test_whatever_is_written_on_a_running_pod_its_cards_stay_its(world, data):
    vendor, wanted, mig = world
    _, found = placed(vendor, wanted, mig=mig)
    cluster = Cluster(VENDORS)
    cluster.claims.is_settled = data.draw(st.booleans())
    cluster.upsert_node(node_of(vendor, mig=mig))
    for pod, _, _ in found:
        cluster.upsert_pod(pod)
    texts = st.sampled_from(["", ";", "nonsense", "x,y,1,1:;", f"{vendor.name}-7,{vendor.name},1,1:;", "abc", "0.1"])
    for pod, held, _ in found:
        keys = [*pod.annotations, "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"]
        notes = {key: data.draw(texts) for key in data.draw(st.lists(st.sampled_from(keys)))}
        kept = {key: text for key, text in pod.annotations.items() if data.draw(st.booleans())}
        cluster.upsert_pod(replace(pod, metadata=replace(pod.metadata, annotations=kept | notes)))
        assert cards(cluster.held(pod.key)) == cards(held)


def without_init(text, pod):
    """HAMi before 2.9 knows no init containers."""
    slots = text.split(";")
    init = len(pod.spec.initContainers or ())
    return text if any(slots[:init]) else ";".join(slots[init:])


def without_empty(text, pod):
    """HAMi 2.10.0 drops the slots of containers without devices on some nodes."""
    return "".join(f"{slot};" for slot in text.split(";") if slot)


def with_placeholders(text, pod):
    """HAMi 2.4 writes something for containers without devices."""
    return "".join(f"{slot or ',,0,0:'};" for slot in text.split(";")[:-1])


def with_instances(text, pod):
    """HAMi 2.5 to 2.9 name a MIG instance beside the card."""
    return text.replace(",", "[7-9],", 1)


FORMS = st.sampled_from([without_init, without_empty, with_placeholders, with_instances])


@settings(max_examples=examples(200), deadline=None)
@given(WORLDS, FORMS, st.booleans())
def test_records_in_all_of_hamis_forms_count_in_full(world, form, is_settled):
    vendor, wanted, mig = world
    cluster, found = placed(vendor, wanted, mig=mig)
    reader = Cluster(VENDORS)
    reader.claims.is_settled = is_settled
    reader.upsert_node(node_of(vendor, mig=mig))
    for _, held, decision in found:
        pod = as_bound(cluster, decision, form)
        # Those versions do not say where on a card an instance is.
        notes = {key: text for key, text in pod.annotations.items() if key != MIG_ALLOCATIONS}
        pod = replace(pod, metadata=replace(pod.metadata, annotations=notes))
        reader.upsert_pod(pod)
        assert_no_less(reader.held(pod.key), held)
