import json

import pytest

from tests.manifests.texts import listed, names, node, pod, read
from tonnage.manifests.read import ManifestError


def test_a_list_as_kubectl_prints_it():
    manifests = read(listed(node("gpu-01"), node("gpu-02"), pod("a"), pod("b", namespace="team-b")))
    assert names(manifests) == ["gpu-01", "gpu-02", "team-a/a", "team-b/b"]
    assert manifests.problems == []
    assert manifests.skipped == {}


def test_a_single_object():
    assert names(read(pod())) == ["team-a/train-0"]


def test_lists_of_one_kind_and_lists_in_lists():
    inner = listed(pod("a"), kind="PodList")
    assert names(read(listed(inner, listed(node(), kind="NodeList")))) == ["gpu-07", "team-a/a"]


def test_items_of_the_raw_api_that_do_not_say_their_kind():
    bare = {key: value for key, value in pod().items() if key not in ("kind", "apiVersion")}
    assert names(read(listed(bare, kind="PodList"))) == ["team-a/train-0"]


def test_a_bare_array_as_jq_prints_it():
    assert names(read([pod("a"), node()])) == ["gpu-07", "team-a/a"]


def test_several_objects_one_after_another():
    stream = json.dumps(pod("a")) + "\n" + json.dumps(pod("b"), indent=2) + json.dumps(listed(node()))
    assert names(read(stream)) == ["gpu-07", "team-a/a", "team-a/b"]


def test_an_empty_list_is_read_as_nothing():
    assert names(read(listed())) == []
    assert names(read({"apiVersion": "v1", "kind": "List", "items": None})) == []


def test_other_kinds_are_counted():
    deployment = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}}
    manifests = read(listed(deployment, deployment, pod(), {"apiVersion": "v1", "kind": "Service"}))
    assert manifests.skipped == {"apps/v1 DaemonSet": 2, "v1 Service": 1}
    assert manifests.problems == []


def test_a_broken_object_is_one_problem_and_hides_nothing():
    manifests = read(listed(pod("a"), pod("b", priority="high"), pod("c")))
    assert names(manifests) == ["team-a/a", "team-a/c"]
    (problem,) = manifests.problems
    assert problem.object == "Pod/team-a/b"
    assert problem.field == "spec.priority"
    assert problem.expected == "a whole number"
    assert problem.message == "found text"
    lines = json.dumps(listed(pod("a"), pod("b", priority="high"), pod("c")), indent=4).splitlines()
    assert problem.position == f"FILE line {1 + next(i for i, line in enumerate(lines) if 'high' in line)}"


def test_a_wrong_entry_of_a_map_is_named():
    broken = pod()
    broken["metadata"]["labels"] = {"app": "train", "version": 1.1}
    (problem,) = read(broken).problems
    assert (problem.field, problem.message) == ("metadata.labels[version]", "found a number")
    assert problem.expected == "text, so put it in quotes"
    assert problem.position == "FILE line 8"


def test_the_line_of_an_object_that_yaml_would_not_read():
    text = json.dumps(listed(pod("a"), pod("b", priority="high")), indent=1).replace(
        "train:1", "train\\/1 \\ud83d\\ude00"
    )
    (problem,) = read(text).problems
    first_line = 1 + [i for i, line in enumerate(text.splitlines()) if line == "  {"][1]
    assert problem.position == f"FILE line {first_line}"


def test_equal_items_are_told_apart():
    text = json.dumps(listed({}, {}, pod()), indent=1)
    assert [(p.object, p.position) for p in read(text).problems] == [
        ("Object #1", "FILE line 4"),
        ("Object #2", "FILE line 5"),
    ]


@pytest.mark.parametrize(
    ("thing", "object_", "field", "words"),
    [
        ({"apiVersion": "v1", "metadata": {"name": "x"}}, "Object #1", "kind", "kind is missing"),
        ({"kind": "Pod", "metadata": {"name": "x"}}, "Pod/default/x", "apiVersion", "version is missing"),
        ({"apiVersion": "v1", "kind": 5}, "Object #1", "kind", "found a whole number"),
        ({"apiVersion": "v1", "kind": "Pod"}, "Pod #1", "", "field metadata is missing"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {}}, "Pod #1", "metadata.name", "has no name"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": ""}}, "Node #1", "metadata.name", "has no name"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": 7}}, "Node #1", "metadata.name", "whole number"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": "x"}, "Node #1", "metadata", "found text"),
        ({"apiVersion": "v1", "kind": "List", "items": {}}, "List #1", "items", "found a mapping"),
        (pod(namespace=5), "Pod/default/train-0", "metadata.namespace", "found a whole number"),
        (pod(limits={"cpu": True}), "Pod/team-a/train-0", "spec.containers[0].resources.limits[cpu]", "true or false"),
    ],
)  # fmt: skip
def test_objects_that_are_not_what_they_should_be(thing, object_, field, words):
    manifests = read(listed(thing, pod("good")) if thing.get("kind") != "List" else [thing, pod("good")])
    assert names(manifests) == ["team-a/good"]
    (problem,) = manifests.problems
    assert (problem.object, problem.field) == (object_, field)
    assert words in problem.message


@pytest.mark.parametrize("item", [5, "text", None, True])
def test_items_that_are_no_objects(item):
    manifests = read(listed(pod("a"), item, pod("b")))
    assert names(manifests) == ["team-a/a", "team-a/b"]
    (problem,) = manifests.problems
    assert problem.object == "Object #2"
    assert problem.expected == "a mapping"


def test_null_stands_for_an_absent_field():
    thing = pod("a", initContainers=None, tolerations=None, nodeSelector={"a": None, "b": "c"})
    thing["spec"]["containers"][0]["resources"] = None
    thing["status"] = None
    manifests = read(thing)
    assert manifests.problems == []
    assert manifests.pods[0].spec.nodeSelector == {"b": "c"}


def test_a_null_does_not_hide_what_is_wrong_elsewhere():
    thing = pod("a", priority="high")
    thing["status"] = None
    (problem,) = read(thing).problems
    assert problem.field == "spec.priority"


@pytest.mark.parametrize("part", ["requests", "limits"])
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
@pytest.mark.parametrize(("quantity", "words"), [("12x", "'12x' is not a quantity"), ("-1", "-1 is below zero")])
def test_a_pod_with_a_bad_quantity_is_kept_with_a_problem(part, containers, quantity, words):
    good = {"name": "good", "resources": {"requests": {"cpu": "1"}}}
    bad = {"name": "bad", "resources": {part: {"cpu": "1", "nvidia.com/gpumem": quantity}}}
    manifests = read(listed(pod("a", **{containers: [good, bad]}), pod("b")))
    assert names(manifests) == ["team-a/a", "team-a/b"]
    (problem,) = manifests.problems
    assert problem.field == f"spec.{containers}[1].resources.{part}[nvidia.com/gpumem]"
    assert problem.message == words
    assert problem.expected


def test_a_bad_overhead_and_a_priority_out_of_range_are_problems_of_the_pod():
    manifests = read(pod(overhead={"memory": "1 Gi"}, priority=2**31))
    assert names(manifests) == ["team-a/train-0"]
    assert [problem.field for problem in manifests.problems] == ["spec.overhead[memory]", "spec.priority"]


def test_a_node_has_none_of_a_resource_with_a_bad_quantity():
    manifests = read(node("gpu-07", memory="much", pods=-1, storage="1Ti"))
    assert manifests.nodes[0].status.allocatable == {"cpu": "96", "memory": 0, "pods": 0, "storage": "1Ti"}
    assert manifests.nodes[0].status.capacity == {"cpu": "96"}
    assert [p.field for p in manifests.problems] == ["status.allocatable[memory]", "status.allocatable[pods]"]


def test_the_later_of_two_equal_objects_is_used():
    first, second = pod("a", priority=1), pod("a", priority=2)
    manifests = read(listed(first, pod("b"), second, pod("a", namespace="team-b"), node(cpu="1"), node(cpu="2")))
    assert names(manifests) == ["gpu-07", "team-a/a", "team-a/b", "team-b/a"]
    assert manifests.pods[0].spec.priority == 2
    assert manifests.nodes[0].status.allocatable["cpu"] == "2"
    assert [p.object for p in manifests.problems] == ["Pod/team-a/a", "Node/gpu-07"]
    assert "more than once" in manifests.problems[0].message


def test_no_namespace_is_the_default_namespace():
    manifests = read([pod("a", namespace=None), pod("a", namespace="default")])
    assert names(manifests) == ["default/a"]
    assert len(manifests.problems) == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "kind": "Pod",\n  "metadata": {"name": "a" 5}\n}', "FILE line 3 column 28: bad JSON"),
        ('{"kind": "Pod"}\n{"kind": "Pöd" 5}', "FILE line 2 column 16: bad JSON"),
        ('{"a": [1, 2', "FILE line 1 column 12: bad JSON: the text ends too early"),
        ("[" * 100_000, "FILE line 1 column"),
    ],
)
def test_bad_json_says_where(text, place):
    with pytest.raises(ManifestError) as caught:
        read(text)
    assert str(caught.value).startswith(place)


def test_text_that_starts_like_json_may_be_yaml():
    assert names(read("{apiVersion: v1, kind: Node, metadata: {name: a}}")) == ["a"]
    assert names(read(json.dumps(pod("a")) + "\n---\n" + json.dumps(pod("b")))) == ["team-a/a", "team-a/b"]


def test_bytes_that_are_no_text_spoil_only_their_object():
    text = json.dumps(listed(pod("a"), pod("b"))).encode().replace(b'"b"', b'"b\xff"')
    manifests = read(text)
    assert names(manifests) == ["team-a/a"]
    assert manifests.problems[0].object == "Pod #2"


def test_many_broken_objects_are_all_told():
    manifests = read(listed(*(pod(f"p-{i}", priority="high") for i in range(300))))
    assert [p.object for p in manifests.problems] == [f"Pod/team-a/p-{i}" for i in range(300)]
    assert len({p.position for p in manifests.problems}) == 300


def test_lists_nested_without_end_are_a_problem():
    thing = listed(pod())
    for _ in range(50):
        thing = listed(thing)
    manifests = read(thing)
    assert names(manifests) == []
    assert [p.message for p in manifests.problems] == ["lists are nested more than 10 deep"]


def test_the_note_of_a_snapshot_is_no_unknown_kind():
    def note(name: str) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"now": "..."}}

    assert read(listed(note("tonnage-snapshot"), node())).skipped == {}
    assert read(listed(note("other"), node())).skipped == {"v1 ConfigMap": 1}
