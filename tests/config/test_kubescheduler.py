"""Configurations of kube-scheduler: profiles of KubeSchedulerConfiguration, and Policy documents."""

import json

import pytest

from tests.config.texts import errors, load, warnings

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
RATIO = """\
profiles:
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources:
        - {name: intel.com/foo, weight: 5}
        - {name: memory, weight: 1}
        - {name: cpu, weight: 3}
        requestedToCapacityRatio:
          shape:
          - {utilization: 0, score: 0}
          - {utilization: 100, score: 10}
"""
SEED = {
    "kind": "Policy",
    "apiVersion": "v1",
    "priorities": [
        {
            "name": "ResourceBinPackingPriority",
            "weight": 5,
            "argument": {
                "resourceBinPacking": {
                    "resources": [
                        {"resource": "intel.com/foo", "weight": 5},
                        {"resource": "memory", "weight": 1},
                        {"resource": "cpu", "weight": 3},
                    ]
                }
            },
        }
    ],
}


def by_name(text):
    return {plugin.name: plugin for plugin in load(text).plugins}


# -- profiles


def test_a_profile_becomes_its_scores_with_kubernetes_weights():
    found = by_name(HEADER + "profiles: []\n")
    assert found["noderesourcesfit"].args.scoring_strategy.type == "LeastAllocated"
    assert found["nodeorder"].written_arguments() == {
        "leastrequested.weight": 0,
        "mostrequested.weight": 0,
        "balancedresource.weight": 1,
        "nodeaffinity.weight": 2,
        "podaffinity.weight": 2,
        "tainttoleration.weight": 3,
        "imagelocality.weight": 1,
        "podtopologyspread.weight": 2,
    }
    assert {"priority", "noderesources", "predicates", "devices"} <= found.keys()


def test_the_arguments_of_the_fit_are_kubernetes_own():
    found = by_name(HEADER + RATIO)
    strategy = found["noderesourcesfit"].args.scoring_strategy
    assert (strategy.type, len(strategy.resources)) == ("RequestedToCapacityRatio", 3)


def test_weights_and_plugins_that_are_switched_off_are_followed():
    text = HEADER + (
        "profiles:\n- plugins:\n    score:\n      enabled: [{name: NodeResourcesFit, weight: 7}]\n"
        "      disabled: [{name: ImageLocality}, {name: NodeResourcesBalancedAllocation}]\n"
    )
    found = by_name(text)
    assert found["noderesourcesfit"].args.weight == 7
    arguments = found["nodeorder"].written_arguments()
    assert (arguments["imagelocality.weight"], arguments["balancedresource.weight"]) == (0, 0)


def test_everything_can_be_switched_off_but_one():
    text = HEADER + (
        "profiles:\n- plugins:\n    multiPoint:\n      disabled: [{name: '*'}]\n"
        "      enabled: [{name: TaintToleration, weight: 2}]\n"
    )
    found = by_name(text)
    assert "noderesourcesfit" not in found
    assert {key: value for key, value in found["nodeorder"].written_arguments().items() if value} == {
        "tainttoleration.weight": 2
    }


def test_what_has_no_effect_is_said_with_its_place():
    said = warnings(
        HEADER + "percentageOfNodesToScore: 50\nprofiles:\n- schedulerName: a\n  pluginConfig:\n"
        "  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 5}}\n- schedulerName: b\n"
    )
    assert any(line.startswith("FILE:3:1: percentageOfNodesToScore has no effect: all nodes") for line in said)
    assert any("FILE:7:5: the arguments of InterPodAffinity have no effect" in line for line in said)
    assert any("only the first profile, a, is used; not b" in line for line in said)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("profile: []\n", "3:1", "did you mean profiles?"),
        ("profiles: {}\n", "3:11", "expected a list"),
        ("profiles:\n- plugins: {scor: {}}\n", "4:13", "did you mean score?"),
        ("profiles:\n- plugins: {score: {enabled: [{name: ImageLocality, weight: heavy}]}}\n", "4:61", "whole number"),
        (RATIO.replace("score: 10}", "score: 11}"), "17:", "11"),
        (RATIO.replace("RequestedToCapacityRatio\n", "MostUsed\n"), "9:", "MostUsed"),
    ],
)
def test_mistakes_are_told_with_their_place(text, place, words):
    said = errors(HEADER + text)
    assert any(line.startswith(f"FILE:{place}") and words in line for line in said), said


# -- policies


def test_the_policy_of_the_proposal_is_the_bin_packing_function():
    args = by_name(json.dumps(SEED))["noderesourcesfit"].args
    assert (args.scoring_strategy.type, args.weight) == ("ResourceBinPacking", 5)
    assert [(r.name, r.weight) for r in args.scoring_strategy.resources] == [
        ("intel.com/foo", 5),
        ("memory", 1),
        ("cpu", 3),
    ]


def test_a_policy_need_not_say_what_it_is():
    assert "noderesourcesfit" in by_name(json.dumps({"priorities": SEED["priorities"]}))


def test_requested_to_capacity_ratio_of_a_policy_and_its_other_priorities():
    priorities = [
        {
            "name": "RequestedToCapacityRatioPriority",
            "weight": 2,
            "argument": {
                "requestedToCapacityRatioArguments": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                    "resources": [{"name": "nvidia.com/gpu", "weight": 3}],
                }
            },
        },
        {"name": "NodeAffinityPriority", "weight": 4},
    ]
    found = by_name(json.dumps({"kind": "Policy", "priorities": priorities}))
    args = found["noderesourcesfit"].args
    assert (args.scoring_strategy.type, args.weight) == ("RequestedToCapacityRatio", 2)
    assert found["nodeorder"].args.node_affinity == 4


def test_what_a_policy_says_in_vain_or_wrongly_is_told():
    said = warnings("kind: Policy\npredicates: [{name: PodFitsHost}]\npriorities:\n- {name: SelectorSpreadPriority}\n")
    assert any(line.startswith("FILE:2:1: predicates have no effect") for line in said)
    assert any(line.startswith("FILE:4:3: SelectorSpreadPriority is not known here") for line in said)
    wrong = json.loads(json.dumps(SEED))
    wrong["priorities"][0]["argument"]["resourceBinPacking"]["resources"][1]["weight"] = 0
    (told,) = errors(json.dumps(wrong, indent=1))
    assert "weight from 1" in told
    twice = {"kind": "Policy", "priorities": SEED["priorities"] * 2}
    assert any("more than one priority has an argument" in line for line in errors(json.dumps(twice)))
