from contextlib import suppress

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.manifests.texts import NODE_YAML, POD_YAML, listed, names, node, pod, read
from tests.properties.worlds import examples
from tonnage.manifests import yaml_text
from tonnage.manifests.read import ManifestError


@pytest.fixture(params=["C", "Python"], autouse=True)
def loader(request, monkeypatch):
    base = yaml.CSafeLoader if request.param == "C" else yaml.SafeLoader
    monkeypatch.setattr(yaml_text, "Loader", yaml_text.loader_class(base))


def line_of(text: str, part: str) -> int:
    return 1 + next(i for i, line in enumerate(text.splitlines()) if part in line)


def test_a_pod_as_people_write_it():
    (found,) = read(POD_YAML).pods
    assert found.key == "team-a/train-0"
    assert found.metadata.creationTimestamp == "2024-01-01T00:00:00Z"
    assert found.spec.containers[0].resources.limits == {"nvidia.com/gpu": 1, "nvidia.com/gpumem": "4000", "cpu": 0.5}
    assert found.spec.priority == 100


def test_a_node():
    (found,) = read(NODE_YAML).nodes
    assert found.status.allocatable == {"cpu": "96", "memory": "1000Gi", "pods": 110}
    assert found.spec.taints[0].key == "dedicated"
    assert found.annotations["hami.io/node-nvidia-register"].startswith("[{")


def test_several_documents_with_empty_ones_between():
    text = f"# nodes\n---\n{NODE_YAML}---\n---\nnull\n---\n# nothing\n---\n{POD_YAML}...\n"
    assert names(read(text)) == ["gpu-07", "team-a/train-0"]


def test_a_list_as_kubectl_prints_it():
    text = yaml.safe_dump(listed(node(), pod("a"), {"apiVersion": "apps/v1", "kind": "DaemonSet"}))
    manifests = read(text)
    assert names(manifests) == ["gpu-07", "team-a/a"]
    assert manifests.skipped == {"apps/v1 DaemonSet": 1}


def test_a_sequence_of_objects():
    assert names(read(yaml.safe_dump([pod("a"), node()]))) == ["gpu-07", "team-a/a"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30:00", "12:30:00"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("=", "="),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("nan", "nan"),
        ("yes", True),
        ("off", False),
        ("~", None),
        ("", None),
        ("99", 99),
        ("1_000", 1000),
        ("0x10", 16),
        ("010", 8),
        ("08", 8.0),
        ("0b11", 3),
        ("-0x10", -16),
        ("9" * 5000, "9" * 5000),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
    ],
)
def test_scalars_are_read_the_way_kubectl_reads_them(text, value):
    (document,) = yaml_text.read_yaml(f"a: {text}", "FILE")
    assert document.plain() == {"a": value}


def test_a_broken_field_is_resolved_to_its_line():
    text = NODE_YAML + "---\n" + POD_YAML.replace("      limits:\n", "      limits: &all\n").replace("100", "high")
    (problem,) = read(text).problems
    assert problem.object == "Pod/team-a/train-0"
    assert problem.field == "spec.priority"
    assert problem.position == f"FILE line {line_of(text, 'high')}"


def test_a_wrong_entry_of_a_map_is_named_with_its_line():
    text = POD_YAML.replace("app: train", "app: train\n    version: 1.10")
    (problem,) = read(text).problems
    assert problem.field == "metadata.labels[version]"
    assert problem.position == f"FILE line {line_of(text, '1.10')}"
    assert problem.expected == "text, so put it in quotes"
    assert names(read(text)) == []


def test_a_bad_quantity_is_resolved_to_its_line():
    text = POD_YAML.replace('"4000"', "4 GB")
    (problem,) = read(text).problems
    assert problem.field == "spec.containers[0].resources.limits[nvidia.com/gpumem]"
    assert problem.position == f"FILE line {line_of(text, '4 GB')}"


def test_a_missing_field_points_at_what_lacks_it():
    text = NODE_YAML.replace("    key: dedicated\n", "")
    (problem,) = read(text).problems
    assert (problem.field, problem.message) == ("spec.taints[0]", "the field key is missing")
    assert problem.position == f"FILE line {line_of(text, 'effect')}"


def test_a_key_twice_is_a_problem_of_its_object():
    text = POD_YAML.replace("  priority: 100", "  priority: 100\n  priority: 200") + "---\n" + NODE_YAML
    manifests = read(text)
    assert names(manifests) == ["gpu-07"]
    (problem,) = manifests.problems
    assert (problem.object, problem.field) == ("Pod/team-a/train-0", "spec")
    assert problem.message == "the key 'priority' stands twice, on lines 18 and 19"


def test_a_key_twice_at_the_top():
    (problem,) = read(POD_YAML + "kind: Node\n").problems
    assert problem.object == "Pod/team-a/train-0"
    assert "'kind' stands twice" in problem.message


def test_aliases_and_merge_keys():
    text = """\
apiVersion: v1
kind: List
items:
- &first
  apiVersion: v1
  kind: Node
  metadata: {name: a, labels: &labels {pool: h100, zone: x}}
  status: &status
    allocatable: {cpu: 1}
- <<: *first
  metadata: {name: b, labels: {<<: [*labels, {zone: z, rack: r}], pool: a100}}
- {apiVersion: v1, kind: Node, metadata: {name: c}, status: *status}
"""
    manifests = read(text)
    assert manifests.problems == []
    assert names(manifests) == ["a", "b", "c"]
    assert manifests.nodes[1].labels == {"pool": "a100", "zone": "x", "rack": "r"}
    assert manifests.nodes[2].status.allocatable == {"cpu": 1}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("just text", "found text"),
        ("5", "found a whole number"),
        ("- a", "found text"),
        ("apiVersion: v1\nkind: [Pod]", "found a list"),
        ("apiVersion: v1\nkind: List\nitems: 5", "found a whole number"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {[a]: b}}", "a key is a list"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: !secret b}}", "the tag !secret"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: !!int b}}", "the tag int does not fit"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {<<: 5}}", "merge key"),
    ],
)
def test_documents_that_are_no_objects(document, words):
    manifests = read(f"{document}\n---\n{NODE_YAML}")
    assert names(manifests) == ["gpu-07"]
    (problem,) = manifests.problems
    assert words in problem.message
    assert problem.position.startswith("FILE line ")


def test_null_stands_for_an_absent_field():
    manifests = read("apiVersion: v1\nkind: Node\nmetadata:\n  name: a\n  labels:\nspec:\nstatus:\n")
    assert manifests.problems == []
    assert names(manifests) == ["a"]


def test_aliases_that_multiply_are_refused():
    levels = "".join(f"  a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
    text = f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  a0: &a0 [lol]\n{levels}"
    with pytest.raises(ManifestError, match=r"FILE line \d+: an alias expands to over 500000 more values"):
        read(text)


def test_merge_keys_that_multiply_are_refused():
    levels = "".join(f"  a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 20))
    text = f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\nspec:\n  a0: &a0 {{lol: lol}}\n{levels}"
    with pytest.raises(ManifestError, match=r"FILE line \d+: an alias expands to over 500000 more values"):
        read(text)


@pytest.mark.parametrize("spec", ["&spec {again: [*spec]}", "&spec {<<: *spec}", "&spec {<<: [{a: b}, *spec]}"])
def test_an_alias_to_itself_is_refused(spec):
    with pytest.raises(ManifestError, match=r"FILE line \d+: an alias refers to itself"):
        read(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\nspec: {spec}\n")


@pytest.mark.parametrize("text", ["- " * 50_000 + "a", "a: " + "[" * 50_000, "a: " + "{a: " * 300 + "}" * 300])
def test_nesting_without_end_is_refused(text):
    with pytest.raises(ManifestError, match="FILE line 1: nested more than 200 levels deep"):
        read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\nmetadata:\n\tname: x\n", "FILE line 3 column 1: bad YAML: .*; indent with spaces, not tabs"),
        ("kind: Pod\n  name: x: y\n", r"FILE line 2 column \d+: bad YAML"),
        ("kind: 'Pod\n", r"FILE line \d column \d: bad YAML"),
        ("a: *nowhere\n", "FILE line 1 column 4: bad YAML: found undefined alias"),
        ("kind: Pod\nname: \x07\n", "FILE line 2: .*not text"),
    ],
)
def test_bad_yaml_says_where_and_what_to_do(text, words):
    with pytest.raises(ManifestError, match=words):
        read(text)


PIECES = ["a: ", "- ", "&x ", "*x ", "{", "}", "[", "]", "\n", "  ", "'", "<<: ", "--- ", "!t ", "1"]
PIECES += ["kind: Pod\n", "kind: List\n", "apiVersion: v1\n", "items: ", "metadata: ", "name: x\n"]


@settings(max_examples=examples(150))
@given(st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_text_is_read_or_a_manifest_error(text):
    with suppress(ManifestError):
        read(text)


def test_a_problem_names_the_namespace_that_came_through_a_merge_key():
    text = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: &shared {name: one, namespace: research}
  spec: &wrong
    priority: high
- apiVersion: v1
  kind: Pod
  metadata: {<<: *shared, name: two}
  spec:
    <<: [*wrong]
"""
    problems = read(text).problems
    assert [(problem.object, problem.field, problem.position) for problem in problems] == [
        ("Pod/research/one", "spec.priority", "FILE line 8"),
        ("Pod/research/two", "spec.priority", "FILE line 8"),
    ]
