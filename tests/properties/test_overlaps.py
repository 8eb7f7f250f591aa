"""Pods that were placed rightly make nobody suspect, in whichever order another replica sees them bound."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.worlds import examples
from tests.scenario import node, plain, pod, scenario
from tonnage.actions.catalog import make_actions
from tonnage.binder.binding import BindingWriter
from tonnage.binder.overlaps import Overlaps
from tonnage.kube.resource import Change
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.cyclerunner import CycleRunner

NODES = st.one_of(
    st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3).map(
        lambda counts: [plain(f"n{number}", count, gpu_memory=1000) for number, count in enumerate(counts)]
    ),
    st.just([node("n0", gpus=2, nvidia__com__gpu=20), plain("n1", 2, gpu_memory=1000)]),
)
PODS = st.lists(st.sampled_from(["whole", "0.3", "0.5", "0.7"]), min_size=1, max_size=12)


def wanted(name, share):
    made = pod(name, 1) if share == "whole" else pod(name, None, annotations={"gpu-fraction": share})
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, uid=name))


@settings(max_examples=examples(60))
@given(nodes=NODES, shares=PODS, order=st.randoms(use_true_random=False))
def test_nobody_is_suspect_if_nothing_is_given_out_twice(nodes, shares, order):
    leader = scenario(*nodes, *(wanted(f"p{number}", share) for number, share in enumerate(shares)))
    placed = CycleRunner(leader, default_plugins(), make_actions()).run(frozenset(), 0.0).placed
    writer = BindingWriter(None, leader, lambda: 1e9, lambda: 0.0)
    standby = scenario(*nodes)
    overlaps = Overlaps(None, standby, lambda: 0.0, lambda pod, why: None, lambda: True)
    overlaps.settle()
    order.shuffle(placed)
    for decision in placed:
        bound = as_bound(decision, writer)
        standby.upsert_pod(bound)
        overlaps.seen([Change(bound.key, bound)])
    assert not overlaps.suspects


def as_bound(decision, writer):
    """The pod as the API server shows it after its Binding."""
    made = decision.task.pod
    binding = writer._binding(decision, decision.node, writer.is_handed_over(decision))
    notes = {**(made.metadata.annotations or {}), **binding["metadata"]["annotations"]}
    metadata = msgspec.structs.replace(made.metadata, annotations=notes)
    spec = msgspec.structs.replace(made.spec, nodeName=decision.node)
    return msgspec.structs.replace(made, metadata=metadata, spec=spec)
