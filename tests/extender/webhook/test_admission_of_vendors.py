"""What the webhook makes of a pod of each vendor that came after HAMi 2.4."""

import pytest

from tests.extender.pods import OURS, box, judge, patched, pod

SGPU, VMEMORY = "metax-tech.com/sgpu", "metax-tech.com/vmemory"
LIMITS = {SGPU: "1", VMEMORY: "4"}
QOS, CLASS = "metax-tech.com/sgpu-qos-policy", "metax-tech.com/sgpu-app-class"


def annotated(annotations, *containers):
    result = pod(*containers)
    result["metadata"]["annotations"] = annotations
    return result


@pytest.mark.parametrize(
    ("limits", "after"),
    [
        ({"metax-tech.com/gpu": "1"}, {}),
        ({"enflame.com/gcu": "1"}, {}),
        ({"enflame.com/drs-gcu": "3"}, {}),
        ({"enflame.com/gcu-memory": "6", "enflame.com/gcu-core": "10"}, {}),
        ({"mthreads.com/vgpu": "1"}, {"mthreads.com/sgpu-core": "16", "mthreads.com/sgpu-memory": "96"}),
        ({"mthreads.com/vgpu": "2"}, {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}),
        ({"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "32"}, {}),
        ({"kunlunxin.com/xpu": "4"}, {}),
        ({"kunlunxin.com/vxpu": "1"}, {}),
        ({"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "30000"}, {"kunlunxin.com/vxpu-memory": "49152"}),
        ({"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "0"}, {"kunlunxin.com/vxpu-memory": "24576"}),
        ({"aws.amazon.com/neuron": "1"}, {}),
        ({"aws.amazon.com/neuroncore": "1"}, {}),
        ({"amd.com/gpu": "1", "amd.com/gpucores": "50"}, {}),
        ({"vastaitech.com/va": "1"}, {}),
        ({"birentech.com/gpu": "1"}, {}),
    ],
)
def test_a_pod_gets_our_scheduler_and_what_its_vendor_adds(limits, after):
    result = patched(pod(box(limits=limits)))
    assert result["spec"]["schedulerName"] == OURS
    assert result["spec"]["containers"][0]["resources"]["limits"] == limits | after


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "3"}, "3 is none of 2, 4, 8, 16, 32, 64, 96"),
        ({"kunlunxin.com/xpu": "3"}, "3 is none of 1, 2, 4, 8"),
        ({"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "98305"}, "more than a card's 98304 MiB"),
        ({"aws.amazon.com/neuroncore": "3"}, "3 is neither 1 nor a multiple of 2"),
        ({"amd.com/gpu": "1", "amd.com/gpucores": "0"}, "0 is not from 1 to 100"),
        ({"amd.com/gpu": "1", "amd.com/gpucores": "101"}, "101 is not from 1 to 100"),
        ({"enflame.com/gcu-core": "101"}, "101 is not a whole number from 0 to 100"),
        ({"enflame.com/gcu-memory": "0"}, "0 is no memory to run with"),
        ({SGPU: "1", VMEMORY: "1k"}, "1k is not from 1Mi"),
    ],
)
def test_what_makes_no_sense_is_refused(limits, message):
    verdict = judge(pod(box(limits=limits)))
    assert not verdict.allowed
    assert message in verdict.message


def test_several_cards_of_moore_threads_are_noted_on_the_pod():
    result = patched(pod(box(limits={"mthreads.com/vgpu": "2"})))
    assert result["metadata"]["annotations"] == {"mthreads.com/request-gpu-num": "2"}
    requests = result["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"mthreads.com/vgpu": "2"}


def test_what_is_only_requested_of_enflame_becomes_a_limit():
    asked = box(resources={"requests": {"enflame.com/drs-gcu": "3"}})
    assert patched(pod(asked))["spec"]["containers"][0]["resources"]["limits"] == {"enflame.com/drs-gcu": "3"}


class TestMetaxShared:
    def test_the_usual_policy_is_written_down(self):
        result = patched(pod(box(limits=LIMITS)))
        assert result["metadata"]["annotations"] == {QOS: "best-effort"}

    @pytest.mark.parametrize(
        "annotations", [{QOS: "fixed-share"}, {CLASS: "online"}, {CLASS: "offline", QOS: "burst-share"}]
    )
    def test_what_a_pod_says_stays(self, annotations):
        assert patched(annotated(annotations, box(limits=LIMITS)))["metadata"]["annotations"] == annotations

    @pytest.mark.parametrize(
        ("annotations", "limits", "message"),
        [
            ({QOS: "best"}, LIMITS, "'best' is none of best-effort, fixed-share, burst-share"),
            ({CLASS: "weekend"}, LIMITS, "'weekend' is neither online nor offline"),
            ({CLASS: "online"}, LIMITS | {SGPU: "2"}, "a pod with metax-tech.com/sgpu-app-class gets one card"),
        ],
    )
    def test_what_no_card_could_do_is_refused(self, annotations, limits, message):
        verdict = judge(annotated(annotations, box(limits=limits)))
        assert not verdict.allowed
        assert message in verdict.message

    def test_other_pods_may_say_what_they_like(self):
        assert judge(annotated({QOS: "best"}, box(limits={"nvidia.com/gpu": "1"}))).allowed
