"""AdmissionReviews that were made to cost time or to speak in our name: each answer is quick, short and on one line."""

import json
import time

import pytest

from tests.extender.pods import CORES, GPU, MEMORY, OURS, box, pod
from tests.extender.webhook.reviews import review
from tonnage.devices.catalog import default_vendors
from tonnage.extender.webhook.admission import AdmissionRules, PodAdmission
from tonnage.extender.webhook.review import ReviewError, answer, decide, read_review

LONG, FORGED = "x" * 100_000, 'x\n{"level":"error"}\r\u2028\u202eevil\x1b[31m'
LONGEST_ANSWER = 5000


def ask(body):
    """The response, as the API server reads it."""
    admission = PodAdmission(default_vendors(), AdmissionRules(OURS))
    asked = read_review(body)
    text = answer(asked, decide(asked.request, admission.judge)).decode()
    return json.loads(text)["response"]


def processor_time(body):
    """The least of three tries, in seconds; a millisecond at least."""

    def once():
        begun = time.process_time()
        ask(body)
        return time.process_time() - begun

    return max(0.001, min(once() for _ in range(3)))


def texts(response):
    return [response.get("status", {}).get("message", ""), *response.get("warnings", ())]


def assert_harmless(response):
    for text in texts(response):
        assert len(text) <= 1100
        assert not set(text) & set("\n\r\x1b\u2028\u202e"), text


PRIVILEGED = {"securityContext": {"privileged": True}}


@pytest.mark.parametrize("text", [LONG, FORGED])
@pytest.mark.parametrize(
    "made",
    [
        lambda text: review(pod(box(limits={GPU: text}))),
        lambda text: review(pod(box(text, {GPU: "half"}))),
        lambda text: review(pod(box(text, {GPU: "1"}, **PRIVILEGED))),
        lambda text: review(pod(box(limits={GPU: "1"}), schedulerName=text)),
        lambda text: review(pod(box(limits={GPU: "1"}), nodeName=text)),
        lambda text: review(pod(box(text, restartPolicy=5))),
        lambda text: review(pod(box()), operation=text),
        lambda text: review(pod(box()), kind={"group": "", "kind": text}),
        lambda text: review(pod(box()), subResource=text),
        lambda text: review(pod(box()), namespace=text),
        lambda text: review(pod(box()) | {text: text}),
    ],
)
def test_what_somebody_wrote_comes_back_short_and_on_one_line(made, text):
    response = ask(made(text))
    assert_harmless(response)
    assert len(json.dumps({**response, "patch": None})) < LONGEST_ANSWER


@pytest.mark.parametrize("text", [LONG, FORGED, ""])
def test_a_review_with_another_kind_of_uid_is_none(text):
    with pytest.raises(ReviewError, match=r"request\.uid") as caught:
        read_review(review(pod(box()), uid=text))
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_a_review_of_a_long_kind_is_refused_in_few_words():
    with pytest.raises(ReviewError) as caught:
        read_review(json.dumps({"kind": LONG, "apiVersion": FORGED, "request": {"uid": "u"}}).encode())
    assert len(str(caught.value)) < 600
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "made",
    [
        lambda size: pod(box(limits={GPU: "1", MEMORY: "9" * 50 * size})),
        lambda size: pod(*(box(f"c{number}", {GPU: "1", CORES: "x"}) for number in range(size))),
        lambda size: pod(*(box(f"c{number}", {GPU: "1"}, **PRIVILEGED) for number in range(size))),
        lambda size: pod(box(env=[{"name": f"v{number}", "value": "x" * 100} for number in range(5 * size)])),
    ],
    ids=["text", "containers", "privileged containers", "variables"],
)
def test_the_cost_of_a_large_pod_grows_with_its_size_and_no_faster(made):
    small, large = (review(made(size)) for size in (500, 4000))
    assert_harmless(ask(large))
    # A cost that grows with the square would be 64 times as high.
    assert processor_time(large) < 24 * processor_time(small)


def said(body):
    """The texts of the response, or why there is none."""
    try:
        return texts(ask(body))
    except ReviewError as error:
        return [str(error)]


@pytest.mark.parametrize("depth", [100, 5_000, 1_000_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_nesting_is_answered(opening, closing, depth):
    deep = f"{opening * depth}1{closing * depth}".encode()
    answers = said(review({"spec": "HERE"}).replace(b'"HERE"', deep))
    assert answers
    assert all(len(text) < 500 for text in answers)
