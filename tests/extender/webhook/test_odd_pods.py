"""Nothing odd in a pod blocks its creation by accident; docs/webhook.md has the same table."""

import pytest

from tests.extender.pods import CORES, GPU, MEMORY, OURS, box, judge, operations, patched, pod
from tonnage.extender.webhook.admission import Verdict


@pytest.mark.parametrize("odd", [None, [], "pod", 7, True])
def test_what_is_no_object_is_a_bad_request(odd):
    verdict = judge(odd)
    assert (verdict.allowed, verdict.code) == (False, 400)


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (pod(box()) | {"spec": []}, "spec is no JSON object"),
        (pod(box()) | {"metadata": "me"}, "metadata is no JSON object"),
        (pod(box()) | {"metadata": {"annotations": [1]}}, "metadata.annotations is no JSON object"),
        (pod(containers={"name": "main"}), "spec.containers is no list"),
        (pod("main"), "spec.containers[0] is no JSON object"),
        (pod(box(), None), "spec.containers[1] is no JSON object"),
        (pod(box(), init="no"), "spec.initContainers is no list"),
        (pod(box(), schedulerName=5), "spec.schedulerName is no text"),
        (pod(box(limits={GPU: "1"}), nodeName=["n1"]), "spec.nodeName is no text"),
        (pod(box(resources=5)), "spec.containers[0].resources is no JSON object"),
        (pod(box(resources={"limits": [GPU]})), "spec.containers[0].resources.limits is no JSON object"),
        (pod(box(limits={GPU: None})), "spec.containers[0].resources.limits[...]"),
        (pod(box(limits={GPU: True})), "spec.containers[0].resources.limits[...]"),
        (pod(box(limits={GPU: {"amount": 1}})), "spec.containers[0].resources.limits[...]"),
        (pod(box(name=7)), "spec.containers[0].name"),
        (pod(box(env={"A": "b"})), "spec.containers[0].env"),
        (pod(box(env=[{"value": "b"}])), "spec.containers[0].env[0]"),
        (pod(box(securityContext="root")), "spec.containers[0].securityContext is no JSON object"),
        (pod(box(securityContext={"privileged": "yes"})), "spec.containers[0].securityContext.privileged"),
        (pod(box(limits={GPU: "1"})) | {"metadata": {"namespace": 5}}, "metadata.namespace is no text"),
    ],
)
def test_a_wrong_type_where_it_matters_lets_the_pod_pass_as_it_is_with_a_warning(odd, told):
    verdict = judge(odd)
    assert (verdict.allowed, verdict.operations) == (True, ())
    (warning,) = verdict.warnings
    assert warning.startswith(f"Tonnage left this pod as it is: {told}")
    assert len(warning) <= 256


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": "everywhere"},
        {"tolerations": {"a": 1}},
        {"overhead": 5},
        {"initContainers": None},
        {"ephemeralContainers": [{"name": "debug", "resources": {"limits": {GPU: "1"}}}]},
        {"somethingOfTheFuture": {"deep": [{"er": 1}]}, "priority": 10**30},
    ],
)
def test_oddities_where_they_do_not_matter_do_not_matter(spec):
    asked = pod(box(limits={GPU: "1", MEMORY: "1"}), **spec)
    assert operations(judge(asked)) == [{"op": "replace", "path": "/spec/schedulerName", "value": OURS}]


def test_quantities_of_other_resources_do_not_matter_whatever_they_are():
    asked = pod(box(limits={GPU: "1", MEMORY: "1", "cpu": ["lots"], "example.com/fpga": None}))
    assert patched(asked)["spec"]["schedulerName"] == OURS
    root = pod(box(limits={"cpu": "1"}, securityContext={"privileged": True}))
    assert judge(root) == Verdict(True)


def test_null_fields_count_as_missing():
    nothing = box(
        resources=None, securityContext=None, env=None, restartPolicy=None, name=None, image=None, volumeMounts=None
    )
    assert judge(pod(nothing, initContainers=None, nodeName=None)) == Verdict(True)
    assert patched(pod(box(resources={"limits": {GPU: "1"}, "requests": None}), nothing, nodeName=None))


def test_a_pod_without_metadata_or_with_only_a_generated_name_is_like_any_other():
    for metadata in ({}, None, {"generateName": "train-"}):
        asked = pod(box(limits={GPU: "1"})) | {"metadata": metadata}
        assert patched(asked)["spec"]["schedulerName"] == OURS


def test_containers_of_one_name_are_told_apart_by_their_place():
    after = patched(pod(box("same", {GPU: "1", MEMORY: "1"}), box("same", {GPU: "1"})))
    assert CORES not in after["spec"]["containers"][0]["resources"]["limits"]
    assert after["spec"]["containers"][1]["resources"]["limits"][CORES] == "100"


def test_paths_are_escaped():
    vendor_limits = {"nvidia.com/gpumem": "1"}
    (count,) = operations(judge(pod(box(limits=vendor_limits), schedulerName=OURS)))
    assert count["path"].endswith("/nvidia.com~1gpu")


def test_a_giant_pod_is_judged_like_a_small_one():
    giant = pod(
        *(box(f"c{i}", {GPU: "1"} if i % 2 else None, env=[{"name": "A", "value": "x" * 100}]) for i in range(5000))
    )
    after = patched(giant)
    assert after["spec"]["containers"][4999]["resources"]["limits"][CORES] == "100"
