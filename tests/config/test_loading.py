"""Configurations that load: which plugins they give, and what is said about what does nothing here."""

import pytest

from tests.config.texts import (
    KAI_DEFAULT,
    VOLCANO_BUILT_IN,
    VOLCANO_CONFIG_MAP,
    VOLCANO_HELM,
    indented,
    load,
    warnings,
    with_plugin,
)
from tonnage.cluster.cluster import Cluster
from tonnage.config.compat import ABSENT, ACTIONS, ALWAYS_ON
from tonnage.config.defaults import default_text, with_flags
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.plugins.catalog import BUILT_IN, NODE_SCORERS, plugin_class
from tonnage.plugins.defaults import default_plugins

ALWAYS = ["noderesources", "nodeselection", "predicates", "devices", "devicequota"]


def names(text: str) -> list[str]:
    return [plugin.name for plugin in load(text).plugins]


def points_of(text: str, name: str) -> list[str]:
    """Where a plugin registers something in a session with the configuration."""
    with Session(Cluster(default_vendors()), load(text).plugins) as session:
        return [point for plugin, point in session.registered if plugin == name]


# -- both peers' stock files


def test_volcanos_helm_default_scores_with_nodeorder_and_binpack() -> None:
    settings = load(VOLCANO_HELM)
    assert [plugin.name for plugin in settings.plugins] == [
        *ALWAYS,
        "priority",
        "gang",
        "conformance",
        "overcommit",
        "drf",
        "proportion",
        "nodeorder",
        "binpack",
        "gpupolicy",
        "topology",
    ]
    assert settings.actions == ["enqueue", "allocate", "backfill"]


def test_every_name_of_volcanos_defaults_has_an_effect() -> None:
    assert warnings(VOLCANO_BUILT_IN) == []
    (said,) = warnings(VOLCANO_HELM)
    assert "cancel each other out" in said


def test_a_name_without_effect_is_said_with_its_place() -> None:
    said = warnings(with_plugin("cdp") + "  - name: tdm\n")
    assert any(line.startswith("FILE:4:11: cdp: Tonnage does not evict yet") for line in said)
    assert any(line.startswith("FILE:6:11: tdm: Tonnage does not have it yet") for line in said)


def test_volcanos_built_in_default_scores_nodes_with_nodeorder() -> None:
    named = ["priority", "gang", "conformance", "overcommit", "drf", "proportion", "nodeorder"]
    assert names(VOLCANO_BUILT_IN) == [*ALWAYS, *named, "gpupolicy", "topology"]
    assert not any("no plugin scores nodes" in line for line in warnings(VOLCANO_BUILT_IN))


def test_without_a_plugin_that_scores_nodes_that_is_said() -> None:
    (said,) = (line for line in warnings(with_plugin("gpupack")) if "no plugin scores nodes" in line)
    assert said.endswith(f"; these plugins score nodes: {', '.join(NODE_SCORERS)}")
    assert {"nodeorder", "resource-strategy-fit", "nodeplacement"} <= set(NODE_SCORERS)


def test_kais_default_loads_with_warnings_only() -> None:
    settings = load(KAI_DEFAULT)
    assert settings.actions == ["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"]
    assert [plugin.name for plugin in settings.plugins] == [
        *ALWAYS,
        "proportion",
        "priority",
        "elastic",
        "kubeflow",
        "ray",
        "gpusharingorder",
        "gpupack",
        "resourcetype",
        "taskorder",
        "nominatednode",
        "nodeplacement",
        "minruntime",
        "topology",
        "gang",
    ]
    said = [note.message for note in settings.warnings]
    assert not any(text.startswith("the action ") for text in said)
    assert not any(text.startswith("the action stalegangeviction") for text in said)
    assert any(text.startswith("queueDepthPerAction (how many jobs") for text in said)
    assert sum(text.startswith("dynamicresources: ") for text in said) == 1
    for name in (
        "proportion",
        "elastic",
        "kubeflow",
        "ray",
        "taskorder",
        "gpupack",
        "gpusharingorder",
        "resourcetype",
        "nominatednode",
        "nodeplacement",
        "minruntime",
    ):
        assert not any(text.startswith(f"{name}: ") for text in said)
    assert not any("no plugin scores nodes" in text or "both order the cards" in text for text in said)


@pytest.mark.parametrize("name", ["gpupack", "gpuspread"])
def test_kais_order_of_cards_takes_the_place_of_the_gpu_policy(name: str) -> None:
    assert names(with_plugin(name)) == [*ALWAYS, name, "priority", "gang", "topology"]


def test_two_orders_of_cards_are_warned_of() -> None:
    text = with_plugin("nodeplacement") + "  - name: gpupolicy\n  - name: gpupack\n"
    (said,) = warnings(text)
    assert said.startswith("FILE:7:11: gpupolicy and gpupack both order the cards of a node")
    assert names(text) == [*ALWAYS, "nodeplacement", "priority", "gpupolicy", "gpupack", "gang", "topology"]


def test_a_flag_for_the_gpu_policy_counts_more_than_an_order_of_cards_in_the_file() -> None:
    plugins = with_flags(load(with_plugin("gpuspread")).plugins, None, "binpack", None)
    assert [plugin.name for plugin in plugins] == [*ALWAYS, "priority", "gang", "topology", "gpupolicy"]


def test_node_placement_alone_scores_nodes() -> None:
    assert warnings(with_plugin("nodeplacement", "arguments: {gpu: spread}")) == []


def test_warnings_are_in_the_order_of_the_file() -> None:
    positions = [note.position for note in load(KAI_DEFAULT).warnings]
    assert positions == sorted(positions)


# -- the document


def test_actions_may_be_a_list() -> None:
    assert load("actions: [allocate, backfill]\ntiers: []\n").actions == ["allocate", "backfill"]


def test_actions_are_trimmed_and_run_once() -> None:
    settings = load("actions: ' allocate ,backfill,allocate, '\ntiers: []\n")
    assert settings.actions == ["allocate", "backfill"]
    assert any("stands twice" in note.message and note.position == (1, 31) for note in settings.warnings)


def test_without_allocate_pods_are_placed_all_the_same_and_that_is_said() -> None:
    assert any("allocate is not among the actions" in line for line in warnings("actions: enqueue\ntiers: []\n"))


def test_what_the_file_leaves_out_is_the_default() -> None:
    without_tiers, without_actions = (
        load("actions: allocate\n"),
        load("tiers: [plugins: [name: binpack, name: priority]]\n"),
    )
    assert [plugin.name for plugin in without_tiers.plugins] == [plugin.name for plugin in default_plugins()]
    assert [note.message.partition(";")[0] for note in without_tiers.warnings] == ["no tiers given"]
    assert without_actions.actions == ["allocate"]
    assert [note.message.partition(";")[0] for note in without_actions.warnings] == ["no actions given"]


def test_the_default_configuration_is_what_runs_without_one() -> None:
    settings = load(default_text())
    assert settings.warnings == []
    assert settings.actions == ["allocate"]
    assert [(p.name, p.args) for p in settings.plugins] == [(p.name, p.args) for p in default_plugins()]


def test_what_keeps_placements_right_comes_first_and_the_order_of_cards_is_always_there() -> None:
    text = """
        actions: allocate
        tiers:
        - plugins:
          - name: nodepolicy
          - name: devices
        - plugins:
          - name: binpack
    """
    assert names(text) == [*ALWAYS, "nodepolicy", "binpack", "gpupolicy", "gang", "topology"]


def test_arguments_reach_the_plugin() -> None:
    settings = load(with_plugin("gpupolicy", "arguments:", "  policy: binpack,numa", "  numa_order: first"))
    (cards,) = (plugin for plugin in settings.plugins if plugin.name == "gpupolicy")
    assert (cards.args.policy, cards.args.numa_order) == ("binpack,numa", "first")


@pytest.mark.parametrize("arguments", ["arguments:", "arguments: {}", "arguments: null"])
def test_no_arguments_are_the_defaults(arguments: str) -> None:
    assert warnings(with_plugin("binpack", arguments)) == []


def test_the_plugins_own_warnings_stand_at_the_argument() -> None:
    said = warnings(with_plugin("binpack", "arguments:", "  binpack.cpu: -2"))
    assert said == ["FILE:6:7: binpack.cpu: -2 is below 0; 1 is used, as in Volcano"]


def test_anchors_and_merge_keys_work() -> None:
    text = """
        actions: allocate
        tiers:
        - plugins:
          - &pack {name: binpack, arguments: {binpack.weight: 3}}
        - plugins:
          - <<: *pack
            name: nodepolicy
            arguments: {policy: spread}
    """
    binpack, nodes = load(text).plugins[len(ALWAYS) :][:2]
    assert (binpack.args.weight, nodes.args.policy) == (3, "spread")


@pytest.mark.parametrize(
    "key", ["configurations: [{name: allocate, arguments: {a: 1}}]", "metrics: {type: prometheus}", "usageDBConfig: {}"]
)
def test_other_keys_of_the_peers_are_accepted_and_said_to_have_no_effect(key: str) -> None:
    (said,) = warnings(f"actions: allocate\ntiers: [plugins: [name: binpack, name: priority]]\n{key}\n")
    assert said.startswith(f"FILE:3:1: {key.partition(':')[0]} (")
    assert "has no effect here yet" in said


# -- switches


@pytest.mark.parametrize("name", ["binpack", "noderesourcesfit", "nodepolicy"])
def test_a_scoring_plugin_without_node_order_scores_nothing(name: str) -> None:
    assert "batch node order" not in points_of(with_plugin(name, "enableNodeOrder: false"), name)
    assert "batch node order" in points_of(with_plugin(name, "enableNodeOrder: true"), name)


def test_the_other_spelling_of_a_switch_works_and_is_said() -> None:
    text = with_plugin("binpack", "enabledNodeOrder: false")
    assert points_of(text, "binpack") == []
    assert any("enabledNodeOrder is read as enableNodeOrder" in line for line in warnings(text))


def test_a_switch_that_does_nothing_is_said() -> None:
    said = warnings(with_plugin("predicates", "enablePredicate: false"))
    assert "FILE:5:5: enablePredicate: false has no effect on predicates here" in said
    assert warnings(with_plugin("binpack", "enablePredicate: true")) == []


def test_a_switch_keeps_a_plugin_from_its_point_and_from_nothing_else() -> None:
    assert points_of(with_plugin("priority", "enableJobOrder: false"), "priority") == ["task order", "preemptable"]
    assert points_of(with_plugin("priority", "enableTaskOrder: false"), "priority") == ["job order", "preemptable"]
    assert points_of(with_plugin("priority", "enablePreemptable: false"), "priority") == ["job order", "task order"]
    assert "reclaimer" not in points_of(with_plugin("proportion", "enablePreemptive: false"), "proportion")


def test_plugins_know_their_tier() -> None:
    text = "actions: allocate\ntiers:\n- plugins:\n  - name: priority\n- plugins:\n  - name: binpack\n"
    assert {p.name: p.options.tier for p in load(text).plugins if p.name in ("priority", "binpack")} == {
        "priority": 1,
        "binpack": 2,
    }


def test_kais_switches_have_no_effect_there_either() -> None:
    (said,) = warnings(with_plugin("binpack", "disableNodeOrder: true"))
    assert said == "FILE:5:5: disableNodeOrder has no effect: KAI accepts it and does not read it"


# -- a ConfigMap


def test_a_config_map_is_looked_into_and_places_are_those_of_the_file() -> None:
    wrapped = load(VOLCANO_CONFIG_MAP + indented(VOLCANO_HELM))
    alone = load(VOLCANO_HELM)
    assert [plugin.name for plugin in wrapped.plugins] == [plugin.name for plugin in alone.plugins]
    moved = [((note.position or (0, 0))[0] + 7, (note.position or (0, 0))[1] + 4) for note in alone.warnings]
    assert [note.position for note in wrapped.warnings] == moved


def test_kais_config_map_in_quotes_gives_the_place_of_the_text() -> None:
    text = 'apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: "actions: allocate\\ntiers: []\\n"\n'
    assert {note.position for note in load(text).warnings} == {(4, 16)}


# -- flags


def test_a_flag_counts_more_than_the_file() -> None:
    plugins = load(with_plugin("nodepolicy", "arguments: {policy: spread}")).plugins
    changed = {plugin.name: plugin.args for plugin in with_flags(plugins, "binpack", "mutex", None)}
    assert changed["nodepolicy"].policy == "binpack"
    assert (changed["gpupolicy"].policy, changed["gpupolicy"].numa_order) == ("mutex", "tie")
    assert [plugin.name for plugin in with_flags(plugins, None, None, None)] == [plugin.name for plugin in plugins]


def test_a_flag_for_nodes_adds_the_plugin_that_the_file_does_not_name() -> None:
    plugins = with_flags(load(with_plugin("binpack")).plugins, "spread", None, None)
    named = [plugin.name for plugin in plugins]
    assert named == [*ALWAYS, "binpack", "priority", "gpupolicy", "gang", "topology", "nodepolicy"]


# -- the tables


def test_every_built_in_plugin_has_the_name_that_it_is_listed_under() -> None:
    for name in BUILT_IN:
        kind = plugin_class(name)
        assert kind is not None
        assert kind.name == name


def test_a_name_means_one_thing() -> None:
    assert not set(ALWAYS_ON) & set(ABSENT)
    assert not set(BUILT_IN) & {*ALWAYS_ON, *ABSENT}


@pytest.mark.parametrize("name", [*ALWAYS_ON, *ABSENT])
def test_every_plugin_of_the_peers_loads_with_one_sentence(name: str) -> None:
    assert sum(f"{name}: " in line for line in warnings(with_plugin(name, "arguments: {whatever: [1, 2]}"))) == 1


def test_every_action_of_the_peers_loads() -> None:
    assert load(f"actions: [{', '.join(ACTIONS)}]\n").actions == list(ACTIONS)
