"""The comparison with HAMi, proven with a copy of our own extender in HAMi's place: it finds every fault in it."""

import json
from itertools import islice, takewhile

import pytest

from peers.hami import known
from peers.hami.comparison import Comparison
from peers.hami.outcomes import Placement, Review
from peers.hami.programs import DEVICES, read_scores
from peers.hami.report import EQUAL, TIE, UNEXPLAINED, Finding, HamiReport
from peers.hami.workload import SCHEDULER, Case, Workload
from tests.paths import ROOT
from tests.peers.faults import FAULTS
from tests.peers.inmemory import Copy, MemoryWorld

SEED = 7
PODS, REVIEWS = 150, 150
ENOUGH = 1000
"""Pods and reviews within which each fault must show; the comparison ends with the first finding."""


def compared(
    pods: int, reviews: int, fault: str = "", scores: dict[str, float] | None = None, *, goes_on: bool = True
) -> HamiReport:
    """The report of a comparison with a copy of ours, up to the first finding unless it goes on.

    Reviews and pods alternate, so that faults of both kinds are found early.
    """
    workload = Workload(SEED)
    ours, theirs = Copy(DEVICES, SCHEDULER), Copy(DEVICES, SCHEDULER, fault)
    theirs.told_scores = scores or {}
    world = MemoryWorld(ours, theirs)
    world.put(*workload.quotas, *workload.nodes)
    names = [node["metadata"]["name"] for node in workload.nodes]
    comparison = Comparison(world, ours, theirs, names)
    odd = workload.reviews(reviews)

    def cases_between_reviews():
        for case in workload.cases(pods):
            comparison.review(islice(odd, 1))
            yield case

    def nothing_found(_: Case) -> bool:
        return goes_on or all(finding.verdict != UNEXPLAINED for finding in comparison.findings[-2:])

    comparison.place(takewhile(nothing_found, cases_between_reviews()))
    return comparison.report()


def test_a_copy_without_a_fault_says_the_same_everywhere():
    report = compared(PODS, REVIEWS)
    assert report.counts == {EQUAL: PODS + REVIEWS}, "\n".join(report.lines())
    assert report.is_accepted


def test_pods_of_every_ware_are_placed_and_turned_down():
    workload = Workload(SEED)
    ours = Copy(DEVICES, SCHEDULER)
    world = MemoryWorld(ours)
    world.put(*workload.quotas, *workload.nodes)
    names = [node["metadata"]["name"] for node in workload.nodes]
    placed, refused, whole = set(), set(), set()
    for case in workload.cases(400):
        if case.templates:
            whole.add(case.ware)
            continue
        answer = ours.post("/filter", {"Pod": world.create(case.pod), "NodeNames": names})
        (placed if answer["NodeNames"] else refused).add(case.ware)
    wares = {ware.name for ware in workload.wares}
    assert placed == wares
    assert len(refused) > len(wares) * 0.7
    assert len(whole) > len(wares) * 0.7


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str):
    report = compared(ENOUGH, ENOUGH, fault, goes_on=False)
    assert report.unexplained, f"{report.counts}"
    assert not report.is_accepted
    shown = "\n".join(report.lines())
    assert "ours: " in shown
    assert report.document()["accepted"] is False


def test_the_same_seed_asks_the_same():
    one, other = Workload(SEED), Workload(SEED)
    assert list(one.cases(50)) == list(other.cases(50))
    assert list(one.reviews(50)) == list(other.reviews(50))
    assert list(one.cases(50)) != list(Workload(SEED + 1).cases(50))


def test_nodes_to_which_hamis_log_gives_the_same_score_are_a_tie():
    names = [node["metadata"]["name"] for node in Workload(SEED).nodes]
    fault = "node ties go to the last name"
    report = compared(200, 0, fault, dict.fromkeys(names, 3.0))
    assert report.counts[TIE] > 5
    assert UNEXPLAINED not in report.counts
    different = compared(200, 0, fault, {name: float(place) for place, name in enumerate(names)})
    assert UNEXPLAINED in different.counts


def test_hamis_log_tells_scores():
    lines = [
        'I1118 04:00:00.000000   1 score.go:295] "NodeFitPod" pod="free/p1" node="nv-a" score=7.5',
        'I1118 04:00:00.000000   1 score.go:295] "NodeFitPod" pod="free/p1" node="nv-b" score=3e-01',
        'I1118 04:00:00.000000   1 score.go:295] "NodeFitPod" pod="free/p2" node="nv-b" score=9',
        "I1118 04:00:00.000000   1 scheduler.go:12] something else",
    ]
    assert read_scores(lines, "free/p1") == {"nv-a": 7.5, "nv-b": 0.3}


def test_nothing_compared_is_not_accepted():
    assert not HamiReport([], {}).is_accepted
    assert not HamiReport([Finding("x", EQUAL), Finding("y", UNEXPLAINED, "why")], {}).is_accepted
    assert HamiReport([Finding("x", EQUAL), Finding("y", TIE)], {}).is_accepted


def test_known_differences_have_a_name_and_a_reason_of_their_own():
    listed = [*known.PLACEMENTS, *known.REVIEWS]
    assert len({one.name for one in listed}) == len(listed)
    page = (ROOT / "docs" / "peers.md").read_text()
    assert all(f"| `{one.name}` | {one.reason} |" in page for one in listed)


def test_a_known_difference_explains_only_what_it_is_about():
    (case,) = [case for case in Workload(SEED).cases(30) if case.ware == "drs"][:1]
    ours, theirs = (
        Placement("drs-a", fitting=frozenset({"drs-a"})),
        Placement(failed={"drs-a": "1/2 CardInsufficientCore"}),
    )
    explaining = [one.name for one in known.PLACEMENTS if one.explains(case, ours, theirs)]
    assert explaining == ["enflame-last-slice"]
    assert not any(one.explains(case, theirs, ours) for one in known.PLACEMENTS)


def test_only_our_limit_on_a_requested_count_is_known_not_one_that_hami_sets_alone():
    count = {"nvidia.com/gpu": "1"}
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": count}}]}}
    limited = {"spec": {"containers": [{"name": "c", "resources": {"requests": count, "limits": count}}]}}
    without, having = (Review(True, 0, json.dumps(one)) for one in (pod, limited))
    assert [one.name for one in known.REVIEWS if one.explains(pod, having, without)] == ["count-without-limit"]
    assert not any(one.explains(pod, without, having) for one in known.REVIEWS)
