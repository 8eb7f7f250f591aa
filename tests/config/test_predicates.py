"""The arguments of predicates: Volcano's switches, and what they do here."""

import pytest

from tests.config.texts import load, warnings, with_plugin
from tests.neighbours import HOST, ZONE, labelled, spread, term, zoned
from tests.scenario import reasons, scenario
from tonnage.cluster.task import make_task
from tonnage.config.notes import ConfigError
from tonnage.framework.session import Session
from tonnage.model.meta import ObjectMeta
from tonnage.model.pod import ContainerPort
from tonnage.model.selection import LabelSelector
from tonnage.model.storage import (
    ClaimSpec,
    CSINode,
    CSINodeSpec,
    CSISource,
    DriverLimit,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeSpec,
)


def text(*lines):
    return with_plugin("predicates", *(["arguments:", *(f"  {line}" for line in lines)] if lines else []))


def arguments(*lines):
    (found,) = [plugin for plugin in load(text(*lines)).plugins if plugin.name == "predicates"]
    return found


def switched_off(switch, wanted, *pods, surroundings=()):
    """Why the pod is turned down on the only node, without the switch and with it."""
    found = []
    for lines in ([], [f"{switch}: false"]):
        cluster = scenario(zoned("n", "a"), *pods)
        for thing in surroundings:
            cluster.upsert_surrounding(thing)
        with Session(cluster, [arguments(*lines)]) as session:
            found.append(list(reasons(session.decide(make_task(wanted, cluster.vendors)))))
    return found


CLAIM = PersistentVolumeClaim(ObjectMeta("c", "default"), ClaimSpec("pv"))
ELSEWHERE = PersistentVolume(ObjectMeta("pv", labels={ZONE: "b"}), VolumeSpec(csi=CSISource("csi.example.com", "h")))
FULL = CSINode(ObjectMeta("n"), CSINodeSpec([NodeDriver("csi.example.com", DriverLimit(0))]))


@pytest.mark.parametrize(
    ("switch", "wanted", "others", "reason"),
    [
        ("NodePortsEnable", labelled("p", ports=[ContainerPort(hostPort=80)]), [], "HostPortConflict"),
        ("PodAffinityEnable", labelled("p", far=[term(HOST)]), [], "PodAntiAffinityConflict"),
        ("PodAffinityEnable", labelled("p", "db"), [], "RepelledByAntiAffinity"),
        ("PodAffinityEnable", labelled("p", far=[term("")]), [], "InvalidPodAffinity"),
        ("PodTopologySpreadEnable", labelled("p", "x", spread=[spread(1, "rack")]), [], "TopologyLabelMissing"),
        ("PodTopologySpreadEnable", labelled("p", "x", spread=[spread(0)]), [], "InvalidTopologySpread"),
        ("VolumeBindingEnable", labelled("p", "x", claims=["gone"]), [CLAIM], "ClaimNotFound"),
        ("VolumeZoneEnable", labelled("p", "x", claims=["c"]), [CLAIM, ELSEWHERE], "VolumeZoneConflict"),
    ],
)
def test_a_rule_that_is_switched_off_is_not_looked_at(switch, wanted, others, reason):
    user = labelled("u", on="n", ports=[ContainerPort(hostPort=80)], far=[term(HOST, "db")])
    assert switched_off(f"predicate.{switch}", wanted, user, surroundings=others) == [[reason], []]


def test_limits_of_volumes_can_be_switched_off():
    here = PersistentVolume(ObjectMeta("pv"), ELSEWHERE.spec)
    wanted = labelled("p", claims=["c"])
    found = switched_off("predicate.NodeVolumeLimitsEnable", wanted, surroundings=[CLAIM, here, FULL])
    assert found == [["VolumeLimitExceeded"], []]


def test_switches_may_be_texts_as_in_kais_and_volcanos_files():
    assert arguments('predicate.PodAffinityEnable: "false"').args.pod_affinity is False
    assert arguments('predicate.PodAffinityEnable: "T"').args.pod_affinity is True
    assert arguments().written_arguments() == {
        "predicate.NodePortsEnable": True,
        "predicate.PodAffinityEnable": True,
        "predicate.PodTopologySpreadEnable": True,
        "predicate.VolumeBindingEnable": True,
        "predicate.VolumeZoneEnable": True,
        "predicate.NodeVolumeLimitsEnable": True,
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("predicate.NodeAffinityEnable: false", "has no effect here: node selection is always on"),
        ("predicate.TaintTolerationEnable: false", "has no effect here: node selection is always on"),
        ("predicate.CacheEnable: false", "has no effect here: answers are always kept"),
        ("predicate.ProportionalEnable: true", "has no effect here"),
        ("predicate.resources: nvidia.com/gpu", "has no effect here"),
        ("predicate.resources.nvidia.com/gpu.cpu: 8", "has no effect here"),
        ("predicate.DynamicResourceAllocationEnable: true", "resource claims are not looked at yet"),
        ("predicate.GPUSharingEnable: false", "sharing cards is always on"),
        ("predicate.GPUNumberEnable: false", "counting cards is always on"),
        ("predicate.NodeLockEnable: true", "nodes are not locked"),
        ("volumebinding.weight: 3", "volumes are not scored"),
    ],
)
def test_a_switch_that_cannot_be_followed_is_said(line, said):
    (warning,) = [found for found in warnings(text(line)) if "no plugin scores nodes" not in found]
    key = line.partition(": ")[0]
    assert warning.startswith(f"FILE:6:7: {key} has no effect here")
    assert said in warning


@pytest.mark.parametrize(
    "line",
    [
        "predicate.NodeAffinityEnable: true",
        "predicate.TaintTolerationEnable: true",
        "predicate.CacheEnable: true",
        "predicate.ProportionalEnable: false",
        "predicate.DynamicResourceAllocationEnable: false",
        "predicate.GPUSharingEnable: true",
    ],
)
def test_a_switch_that_asks_for_what_is_done_anyway_is_not_talked_about(line):
    assert [said for said in warnings(text(line)) if "predicate" in said] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("predicate.PodAffinityEnable: perhaps", "predicate.PodAffinityEnable: expected bool, got str"),
        ("predicate.CacheEnable: perhaps", "predicate.CacheEnable: expected true or false, got 'perhaps'"),
        ("predicate.PodAfinityEnable: true", "predicates has no argument predicate.PodAfinityEnable"),
        ("predicate.CacheEnable: [1]", "predicate.CacheEnable: expected true or false, got [1]"),
    ],
)
def test_a_switch_that_is_none_is_an_error_with_its_place(line, said):
    with pytest.raises(ConfigError) as raised:
        load(text(line))
    (note,) = raised.value.errors
    assert note.position is not None
    assert note.position.line == 6
    assert note.message.startswith(said)


def test_the_rules_hold_whatever_the_configuration_names():
    plugins = load(with_plugin("binpack")).plugins
    cluster = scenario(zoned("n"), labelled("w", "web", on="n"))
    with Session(cluster, plugins) as session:
        wanted = make_task(labelled("p", far=[term(HOST, LabelSelector())]), cluster.vendors)
        assert reasons(session.decide(wanted)) == {"PodAntiAffinityConflict": 1}
