"""A comparison with a peer: what counts, what is known, and what makes it fail."""

from peers.report import Outcome, PeerReport, Verdict, compare

HOLDS, FAILS = Outcome(True), Outcome(False, "job.go:7: it waits")


def test_a_case_that_holds_on_both_sides_is_equal() -> None:
    report = compare("Peer", {"a": HOLDS}, {"a": HOLDS}, {})
    assert [finding.verdict for finding in report.findings] == [Verdict.EQUAL]
    assert report.is_accepted


def test_a_difference_without_a_reason_fails_the_comparison_and_shows_its_evidence() -> None:
    report = compare("Peer", {"a": HOLDS, "b": HOLDS}, {"a": HOLDS, "b": FAILS}, {})
    assert not report.is_accepted
    assert "\n".join(report.lines()) == (
        "Peer: 1 equal, 1 unexplained difference\n\nunexplained difference:\n  b\n    job.go:7: it waits"
    )


def test_a_known_difference_is_listed_with_its_reason_and_accepted() -> None:
    report = compare("Peer", {"a": HOLDS, "b": HOLDS}, {"a": HOLDS, "b": FAILS}, {"b": "pods are packed"})
    assert report.is_accepted
    assert report.lines()[-1] == "  b\n    pods are packed"


def test_a_reason_for_what_no_longer_differs_is_called_outdated() -> None:
    report = compare("Peer", {"a": HOLDS}, {"a": HOLDS}, {"a": "once it did"})
    assert report.outdated == ["a"]
    assert report.lines()[-1] == "  a"


def test_what_fails_with_the_peer_itself_does_not_count() -> None:
    report = compare("Peer", {"a": HOLDS, "b": FAILS, "c": FAILS}, {"a": HOLDS, "b": FAILS, "c": HOLDS}, {})
    assert [finding.verdict for finding in report.findings[1:]] == [Verdict.UNCOUNTED, Verdict.OURS_ONLY]
    assert report.is_accepted


def test_a_case_that_our_side_did_not_reach_is_a_difference() -> None:
    report = compare("Peer", {"a": HOLDS, "b": HOLDS}, {"a": HOLDS}, {})
    assert [finding.case for finding in report.of(Verdict.UNEXPLAINED)] == ["b"]


def test_a_comparison_of_nothing_is_not_accepted() -> None:
    assert not PeerReport("Peer", []).is_accepted
    assert not compare("Peer", {"a": FAILS}, {"a": FAILS}, {}).is_accepted
