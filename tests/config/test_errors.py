"""Configurations that do not load: every error at once, with its place and the nearest valid name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.texts import VOLCANO_CONFIG_MAP, VOLCANO_HELM, errors, indented, with_plugin
from tonnage.config.load import load_bytes, load_file
from tonnage.config.notes import ConfigError

OK = "actions: allocate\ntiers: []\n"


def test_all_errors_are_shown_together_in_the_order_of_the_file() -> None:
    text = """\
        actons: x
        actions: "enqueue, alocate"
        tiers:
        - plugins:
          - name: binpak
          - name: binpack
            enableNodOrder: false
            enablePredicate: nope
            arguments:
              binpack.wieght: 3
              binpack.cpu: "5"
              binpack.memory: 1
              binpack.memory: 2
          - name: gpupolicy
            arguments: {policy: spred, numa_order: frist}
          - name: binpack
        - plugin: []
    """
    found = errors(text)
    assert [line.split(": ")[0] for line in found] == [
        "FILE:1:1",
        "FILE:2:20",
        "FILE:5:11",
        "FILE:7:5",
        "FILE:8:22",
        "FILE:10:7",
        "FILE:11:20",
        "FILE:13:7",
        "FILE:15:25",
        "FILE:15:44",
        "FILE:16:11",
        "FILE:17:3",
    ]
    for line, words in zip(
        found,
        (
            "did you mean actions?",
            "there is no action alocate; did you mean allocate?",
            "there is no plugin binpak; did you mean binpack?",
            "did you mean enableNodeOrder?",
            "expected true or false, got text",
            "did you mean binpack.weight?",
            "expects an integer, not '5'",
            "the key binpack.memory stands twice; the first is on line 12",
            "'spred' is none of binpack, spread",
            "'frist' is none of tie, first; did you mean first?",
            "the plugin binpack is named twice; the first is on line 6",
            "did you mean plugins?",
        ),
        strict=True,
    ):
        assert words in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "FILE:1:1: no configuration; the file is empty or holds only comments"),
        ("# nothing\n", "FILE:1:1: no configuration"),
        ("{}\n", "FILE:1:1: expected a map with actions and tiers, got an empty map"),
        ("- a\n", "FILE:1:1: expected a map with actions and tiers, got a list"),
        ("allocate\n", "FILE:1:1: expected a map with actions and tiers, got text"),
        ("actions: [allocate\n", "FILE:2:1: bad YAML"),
        ("actions: allocate\n\ttiers: []\n", "FILE:2:1: bad YAML"),
        ("actions: \x07\n", "FILE:1:1: "),
        (OK + "---\n" + OK, "FILE:4:1: a second document"),
        ("kind: Node\n---\nkind: Pod\n", "FILE:1:1: these are Kubernetes objects (Node and 1 more), not a scheduler"),
        ("actions: ''\n", "FILE:1:10: no actions; write at least allocate"),
        ("actions: []\n", "FILE:1:10: no actions"),
        ("actions: 5\n", "FILE:1:10: expected names of actions with commas between, or a list of them, got a whole"),
        ("actions: [allocate, [a]]\n", "FILE:1:21: expected the name of an action, got a list"),
        ("tiers: {}\n", "FILE:1:8: expected a list of tiers, got a map"),
        ("tiers: [x]\n", "FILE:1:9: expected a map with plugins, got text"),
        ("tiers: [{plugins: x}]\n", "FILE:1:19: expected a list of plugins, got text"),
        ("tiers: [{plugins: [x]}]\n", "FILE:1:20: expected a map with a plugin's name, got text"),
        ("tiers: [{plugins: [{}]}]\n", "FILE:1:20: a plugin without a name"),
        ("tiers: [{plugins: [{arguments: {}}]}]\n", "FILE:1:20: a plugin without a name"),
        ("tiers: [{plugins: [{name: 5}]}]\n", "FILE:1:27: expected the name of a plugin, got a whole number"),
        ("tiers: [{plugins: [{name: ''}]}]\n", "FILE:1:27: expected the name of a plugin"),
        (
            "tiers: [{plugins: [{name: binpack, arguments: 5}]}]\n",
            "FILE:1:47: expected a map of arguments, got a whole",
        ),
        (OK + "metrics: 5\n", "FILE:3:10: metrics: expected a map, got a whole number"),
        (OK + "configurations: {}\n", "FILE:3:17: configurations: expected a list, got a map"),
        (OK + "configurations: [{name: alocate}]\n", "FILE:3:25: there is no action alocate; did you mean allocate?"),
        (OK + "configurations: [{}]\n", "FILE:3:18: expected a map with the name of an action"),
        (OK + "queueDepthPerAction: {preempt: many}\n", "FILE:3:32: preempt: expected a whole number, got text"),
        (OK + "queueDepthPerAction: {prempt: 5}\n", "FILE:3:23: there is no action prempt; did you mean preempt?"),
        (OK + "metrics: {a: !!int x}\n", "FILE:3:14: the tag int does not fit 'x'"),
        (OK + "metrics: {[a]: b}\n", "FILE:3:11: a key is a list or a map, not text"),
        (OK + "metrics: {<<: 5}\n", "FILE:3:11: the merge key `<<` needs a map"),
        (OK + "metrics: &a {b: *a}\n", "FILE:3:10: an alias refers to itself"),
        (OK + "actions: allocate\n", "FILE:3:1: the key actions stands twice; the first is on line 1"),
    ],
)
def test_one_thing_wrong(text: str, expected: str) -> None:
    (found,) = errors(text)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("plugin", "lines", "expected"),
    [
        ("BinPack", [], "FILE:4:11: there is no plugin BinPack; did you mean binpack?"),
        ("devices", ["arguments: {a: 1}"], "FILE:5:17: devices has no argument a; it takes none"),
        (
            "nodepolicy",
            ["arguments:", "  polcy: x"],
            "FILE:6:7: nodepolicy has no argument polcy; did you mean policy?",
        ),
        ("nodepolicy", ["arguments: {policy: 5}"], "FILE:5:25: policy: "),
        ("noderesourcesfit", ["arguments: {weight: x}"], "FILE:5:25: weight: expected int, got str"),
        (
            "binpack",
            ["arguments: {binpack.resources.a/b: 5}"],
            "FILE:5:40: binpack.resources.a/b: 'a/b' is not listed in binpack.resources",
        ),
    ],
)
def test_one_thing_wrong_with_a_plugin(plugin: str, lines: list[str], expected: str) -> None:
    (found,) = errors(with_plugin(plugin, *lines))
    assert found.startswith(expected)


def test_errors_below_one_argument_are_all_found_and_what_they_bring_about_is_not_repeated() -> None:
    strategy = ["arguments:", "  scoringStrategy:", "    type: MostAlocated", "    resources:", "    - nam: cpu"]
    assert errors(with_plugin("noderesourcesfit", *strategy)) == [
        "FILE:7:15: scoringStrategy.type: 'MostAlocated' is none of LeastAllocated, MostAllocated, "
        "RequestedToCapacityRatio, ResourceBinPacking; did you mean MostAllocated?",
        "FILE:9:11: noderesourcesfit has no argument scoringStrategy.resources[0].nam; did you mean name?",
    ]
    resources = ["arguments:", "  binpack.resources: [a/b]", "  binpack.resources.a/b: 5"]
    assert errors(with_plugin("binpack", *resources)) == [
        "FILE:6:26: binpack.resources expects a comma-separated string; write 'a/b'"
    ]


def test_an_argument_of_aliases_that_grow_without_end_is_refused() -> None:
    text = "metrics:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"  a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 8))
    text += "tiers: [{plugins: [{name: binpack, arguments: {a: *a7}}]}]\n"
    (found,) = errors(text)
    assert "an alias expands to over 500000 more values" in found


# -- files of other tools


def test_a_kubernetes_object_is_no_configuration() -> None:
    (found,) = errors("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")
    assert found.startswith("FILE:2:1: this is a Kubernetes object (Pod), not a scheduler configuration")


def test_a_config_map_without_a_configuration() -> None:
    expected = "a ConfigMap's data must hold one of volcano-scheduler.conf and config.yaml"
    assert errors("kind: ConfigMap\ndata:\n  x: y\n") == [f"FILE:2:1: {expected}"]
    assert errors("kind: ConfigMap\n") == [f"FILE:1:1: {expected}"]
    assert len(errors("kind: ConfigMap\ndata: {config.yaml: a, volcano-scheduler.conf: b}\n")) == 1
    (found,) = errors("kind: ConfigMap\ndata: {config.yaml: {a: b}}\n")
    assert found == "FILE:2:21: expected the text of a configuration, got a map"


def test_errors_in_a_config_map_have_the_place_in_the_file() -> None:
    wrong = VOLCANO_HELM.replace("binpack", "binpak")
    assert errors(VOLCANO_CONFIG_MAP + indented(wrong)) == [
        "FILE:22:15: there is no plugin binpak; did you mean binpack?"
    ]
    (found,) = errors(VOLCANO_CONFIG_MAP + "\n" + indented("actions: [\n"))
    assert found.startswith("FILE:10:")


# -- files that cannot be read


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"^/nowhere.yaml: there is no such file"):
        load_file("/nowhere.yaml")
    with pytest.raises(ConfigError, match=r"^/tmp: is a folder; a file is needed here"):
        load_file("/tmp")


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ConfigError, match=r"^FILE:2:3: not UTF-8 text"):
        load_bytes(b"a: 1\nb:\xff\n", "FILE")
    assert load_bytes(OK.encode("utf-16"), "FILE").actions == ["allocate"]


@given(st.text())
def test_any_text_loads_or_is_told_what_is_wrong(text: str) -> None:
    errors(text)


_SCALARS = st.sampled_from(["binpack", "allocate", "x", 5, -1, 2.5, True, None, "", "a,b"])
_KEYS = st.sampled_from(
    ["name", "arguments", "plugins", "tiers", "actions", "binpack.weight", "policy", "kind", "metrics"]
)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3))


@given(st.dictionaries(st.sampled_from(["actions", "tiers", "metrics", "configurations"]), _VALUES, min_size=1))
def test_any_document_loads_or_is_told_what_is_wrong(document: dict[str, object]) -> None:
    errors(json.dumps(document))
