"""Volcano's configurations with resource-strategy-fit, as people write them."""

import pytest

from tests.config.texts import errors, load, warnings, with_plugin
from tonnage.config.tiers import registered_points
from tonnage.plugins.scoring._strategyarguments import Strategy

STRATEGIES = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: resource-strategy-fit
    arguments:
      resourceStrategyFitWeight: 20
      resources:
        nvidia.com/gpu:
          type: MostAllocated
          weight: 2
        nvidia.com/*:
          type: MostAllocated
        cpu:
          type: LeastAllocated
          weight: 1
      sra:
        enable: true
        resources: nvidia.com/t4, nvidia.com/a10
        weight: 10
        resourceWeight:
          nvidia.com/t4: 2
      proportional:
        enable: false
        resources: nvidia.com/gpu
        resourceProportion:
          nvidia.com/gpu.cpu: 4
          nvidia.com/gpu.memory: 8.5
"""
NAME, AWARE = "resource-strategy-fit", "network-topology-aware"


def arguments(text: str, name: str = NAME) -> object:
    (plugin,) = (plugin for plugin in load(text).plugins if plugin.name == name)
    return plugin.args


def test_volcanos_example_of_strategies_loads() -> None:
    args = arguments(STRATEGIES)
    assert args.resource_strategy_fit_weight == 20  # type: ignore[attr-defined]
    most, least = Strategy("MostAllocated", 1), Strategy("LeastAllocated", 1)
    assert args.resources == {"nvidia.com/gpu": Strategy("MostAllocated", 2), "nvidia.com/*": most, "cpu": least}  # type: ignore[attr-defined]
    assert args.sra.weights == {"nvidia.com/t4": 2, "nvidia.com/a10": 1}  # type: ignore[attr-defined]
    assert not any(NAME in line or "score" in line for line in warnings(STRATEGIES))


def test_a_fallback_of_volcanos_is_said_at_its_place() -> None:
    lines = ["arguments:", "  resources:", "    x.io/y:", "      type: Most", "      weight: 0", "    '*': {}"]
    said = warnings(with_plugin(NAME, *lines))
    assert [line.split(": ")[0] for line in said] == ["FILE:8:11", "FILE:9:11", "FILE:10:9"]
    assert said[0].startswith("FILE:8:11: resources.x.io/y.type: 'Most' is none of LeastAllocated, MostAllocated; ")
    assert said[1] == "FILE:9:11: resources.x.io/y.weight: 0 is not above 0; 1 is used, as in Volcano"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["  resorces: {}"], "FILE:6:7: resource-strategy-fit has no argument resorces; did you mean resources?"),
        (
            ["  sra: {enabel: true}"],
            "FILE:6:13: resource-strategy-fit has no argument sra.enabel; did you mean enable?",
        ),
        (
            ["  resources:", "    nvidia.com/*:", "      wieght: 2"],
            "FILE:8:11: resources.nvidia.com/*.wieght is no argument of resource-strategy-fit, which takes "
            "resources.nvidia.com/*.type and resources.nvidia.com/*.weight; did you mean "
            "resources.nvidia.com/*.weight?",
        ),
        (
            ["  resources:", "    nvidia.com/gpu:", "      weight: '2'"],
            "FILE:8:19: resources.nvidia.com/gpu.weight: expected int, got str",
        ),
        (["  resourceStrategyFitWeight: 1.5"], "FILE:6:34: resourceStrategyFitWeight: expected int, got float"),
        (
            ["  sra:", "    resources: x.io/y", "    resourceWeight: {x.io/z: 1}"],
            "FILE:8:34: sra.resourceWeight.x.io/z: 'x.io/z' is not listed in sra.resources, so that its weight would "
            "not count",
        ),
    ],
)
def test_an_error_stands_at_its_place_with_the_nearest_name(lines: list[str], says: str) -> None:
    assert errors(with_plugin(NAME, "arguments:", *lines)) == [says]


def test_several_errors_are_all_shown() -> None:
    lines = ["arguments:", "  resources:", "    cpu: {weight: a, tipe: b}", "    memory: 5", "  sra: {weight: []}"]
    found = errors(with_plugin(NAME, *lines))
    assert [line.split(": ")[0] for line in found] == ["FILE:7:23", "FILE:7:26", "FILE:8:17", "FILE:9:21"]


KEEPING = "arguments: {proportional: {enable: true, resources: x.io/y}}"


@pytest.mark.parametrize(
    ("name", "lines", "left"),
    [
        (NAME, ["enableNodeOrder: false", KEEPING], {"batch predicate", "pre-predicate"}),
        (NAME, ["enablePredicate: false", KEEPING], {"batch node order"}),
        (AWARE, ["enableNodeOrder: false"], {"node sets", "subgroup node sets"}),
        (AWARE, ["enabledHyperNodeGradient: false"], {"batch node order"}),
    ],
)
def test_what_is_switched_off_is_not_there(name: str, lines: list[str], left: set[str]) -> None:
    text = with_plugin(name, *lines)
    (plugin,) = (plugin for plugin in load(text).plugins if plugin.name == name)
    assert set(registered_points(plugin)) == left
    assert not any("has no effect" in line for line in warnings(text))
    assert any("no plugin scores nodes" in line for line in warnings(text)) is ("enableNodeOrder: false" in lines)


def cancelling(*plugins: str) -> list[str]:
    text = "actions: allocate\ntiers:\n- plugins:\n" + "".join(f"  - {plugin}\n" for plugin in plugins)
    return [line for line in warnings(text) if "cancel each other out" in line]


def test_strategies_that_cancel_binpack_out_are_told_so() -> None:
    (said,) = cancelling("{name: binpack, arguments: {binpack.weight: 10}}", f"name: {NAME}")
    assert "resource-strategy-fit with LeastAllocated of weight 10 cancel each other out" in said
    assert "250 + 750 = 1000" in said


@pytest.mark.parametrize(
    "written",
    [
        "resources: {nvidia.com/gpu: {type: MostAllocated}, cpu: {}}",
        "resources: {cpu: {type: MostAllocated}, memory: {type: MostAllocated}}",
        "resourceStrategyFitWeight: 0",
        "resources: {cpu: {weight: 3}, memory: {}}",
    ],
)
def test_strategies_that_do_not_cancel_are_not_said_to(written: str) -> None:
    plugins = "{name: binpack, arguments: {binpack.weight: 10}}", f"{{name: {NAME}, arguments: {{{written}}}}}"
    assert cancelling(*plugins) == []


@pytest.mark.parametrize("written", ["resources: [1]", "resources: {cpu: {type: [x]}}", "resources: {cpu: 3}"])
def test_looking_for_cancelling_does_not_fail_over_other_errors(written: str) -> None:
    assert len(errors(with_plugin(NAME, f"arguments: {{{written}}}"))) == 1


# -- network-topology-aware

NETWORK = """\
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: predicates
  - name: network-topology-aware
    arguments:
      weight: 10
      hypernode.binpack.cpu: 5
      hypernode.binpack.memory: 1
      hypernode.binpack.resources: nvidia.com/gpu, example.com/foo
      hypernode.binpack.resources.nvidia.com/gpu: 2
      hypernode.binpack.resources.example.com/foo: 3
      hypernode.binpack.normal-pod.enable: true
      hypernode.binpack.normal-pod.fading: 0.7
"""


def test_volcanos_example_of_network_topology_loads() -> None:
    args = arguments(NETWORK, AWARE)
    assert (args.weight, args.cpu, args.memory, args.fading) == (10, 5, 1, 0.7)  # type: ignore[attr-defined]
    assert args.resources == {"nvidia.com/gpu": 2, "example.com/foo": 3}  # type: ignore[attr-defined]
    assert not any(AWARE in line or "hypernode" in line or "score" in line for line in warnings(NETWORK))


def test_named_without_arguments_it_has_its_defaults() -> None:
    assert warnings(with_plugin(AWARE)) == []


@pytest.mark.parametrize(
    ("line", "place", "nearest"),
    [
        ("wieght: 3", "FILE:6:7", "weight"),
        ("hypernode.binpack.cpus: 3", "FILE:6:7", "hypernode.binpack.cpu"),
        ("hypernode.binpack.normal-pod.fadeing: 1", "FILE:6:7", "hypernode.binpack.normal-pod.fading"),
    ],
)
def test_a_misspelt_argument_has_the_nearest_name(line: str, place: str, nearest: str) -> None:
    (said,) = errors(with_plugin(AWARE, "arguments:", f"  {line}"))
    assert said.startswith(f"{place}: {line.partition(':')[0]} is no argument of network-topology-aware")
    assert said.endswith(f"; did you mean {nearest}?")


def test_a_value_of_another_type_is_an_error_at_its_place() -> None:
    (said,) = errors(with_plugin(AWARE, "arguments:", "  hypernode.binpack.normal-pod.fading: much"))
    assert said == "FILE:6:44: hypernode.binpack.normal-pod.fading expects a number, not 'much'"
