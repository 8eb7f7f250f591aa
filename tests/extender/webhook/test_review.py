"""Reviews as the API server sends them, in both versions."""

import base64
import json

import pytest

from tests.extender.pods import GPU, MEMORY, OURS, box, pod
from tests.extender.webhook.json_patch import apply
from tests.extender.webhook.reviews import V1, V1BETA1, review
from tonnage.devices.catalog import default_vendors
from tonnage.extender.webhook.admission import AdmissionRules, PodAdmission, Verdict
from tonnage.extender.webhook.review import ReviewError, answer, decide, read_review

PRIVILEGED = {"securityContext": {"privileged": True}}


def ask(body, judge=None):
    asked = read_review(body)
    admission = PodAdmission(default_vendors(), AdmissionRules(OURS))
    return json.loads(answer(asked, decide(asked.request, judge or admission.judge)))


GPU_POD = pod(box(limits={GPU: "1", MEMORY: "1"}))


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_the_answer_comes_in_the_version_of_the_question_with_its_uid_and_a_patch(version):
    answered = ask(review(GPU_POD, version))
    assert (answered["kind"], answered["apiVersion"]) == ("AdmissionReview", version)
    response = answered["response"]
    assert response.keys() == {"uid", "allowed", "patch", "patchType"}
    assert response["uid"] == "705ab4f5-6393-11e8-b7cc-42010a800002"
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    steps = json.loads(base64.b64decode(response["patch"]))
    assert apply(GPU_POD, steps)["spec"]["schedulerName"] == OURS


def test_a_pod_that_needs_no_change_gets_no_patch():
    assert ask(review(pod(box())))["response"] == {"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "allowed": True}


def test_a_denial_has_status_code_reason_and_message():
    response = ask(review(pod(box(limits={GPU: "1"}), nodeName="n1")))["response"]
    assert response["allowed"] is False
    assert response["status"] == {"code": 403, "message": "pod has node assigned", "reason": "Forbidden"}
    assert "patch" not in response
    assert ask(review(pod(box(limits={GPU: "half"}))))["response"]["status"]["reason"] == "Invalid"
    assert ask(review("no pod"))["response"]["status"]["reason"] == "BadRequest"


def test_warnings_reach_the_user():
    response = ask(review(pod(box(limits={GPU: "1"}, **PRIVILEGED))))["response"]
    assert response["allowed"] is True
    assert response["warnings"][0].startswith("container main is privileged")


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"operation": "CONNECT"},
        {"subResource": "eviction"},
        {"subResource": "ephemeralcontainers"},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
        {"kind": {"group": "example.com", "version": "v1", "kind": "Pod"}},
        {"kind": {"group": "", "version": "v1", "kind": "Service"}},
    ],
)
def test_everything_but_the_creation_of_a_pod_is_let_pass(request_):
    response = ask(review(**({"thing": GPU_POD} | request_ if "object" not in request_ else request_)))["response"]
    assert response["allowed"] is True
    assert "patch" not in response
    assert "warnings" not in response


def test_a_question_without_operation_kind_and_namespace_is_about_a_new_pod():
    body = json.dumps({"kind": "AdmissionReview", "apiVersion": V1, "request": {"uid": "u", "object": GPU_POD}})
    assert "patch" in ask(body.encode())["response"]


def test_a_dry_run_gets_the_same_answer():
    assert ask(review(GPU_POD, dryRun=True)) == ask(review(GPU_POD))


def test_a_question_without_an_object_is_a_bad_request():
    assert ask(review(None))["response"]["status"]["code"] == 400


def test_a_mistake_of_ours_does_not_block_the_pod():
    def broken(pod, namespace):
        raise KeyError("oops")

    response = ask(review(GPU_POD), broken)["response"]
    assert response["allowed"] is True
    assert response["warnings"] == ["Tonnage left this pod as it is: internal error: KeyError: 'oops'"]


def test_the_namespace_is_handed_on():
    seen = []

    def judge(pod, namespace):
        seen.append(namespace)
        return Verdict(True)

    ask(review(GPU_POD, namespace="from-request"), judge)
    assert seen == ["from-request"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}',
        b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": null}',
        b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"object": {}}}',
        b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v2", "request": {"uid": "u"}}',
        b'{"kind": "Pod", "apiVersion": "v1", "request": {"uid": "u"}}',
        review(GPU_POD)[:-20],
        b"[" * 100_000,
    ],
)
def test_what_is_no_review_is_refused_with_a_sentence(body):
    with pytest.raises(ReviewError) as caught:
        read_review(body)
    assert str(caught.value).startswith("this is ")


def test_an_object_nested_beyond_reason_is_a_bad_request():
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    body = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","object":' + deep + b"}}"
    try:
        asked = read_review(body)
    except ReviewError:
        return
    verdict = decide(asked.request, lambda pod, namespace: Verdict(True))
    assert verdict.code == 400
