"""PeerReport: which cases went the same way with a peer's program and with ours, and which did not.

A case counts if it holds with the peer's own program. One that holds there and not here must have a name in the list of
known differences, with a reason that a user of the peer accepts; otherwise the comparison fails.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Outcome(NamedTuple):
    """How a case went on one side, and what it said if it did not hold."""

    holds: bool
    detail: str = ""


class Verdict(StrEnum):
    """What the two outcomes of a case say together."""

    EQUAL = "equal"
    KNOWN = "known difference"
    UNEXPLAINED = "unexplained difference"
    OURS_ONLY = "holds only with ours"
    UNCOUNTED = "does not hold with the peer's own program"


class Finding(NamedTuple):
    """One case, and the reason or the evidence if it does not hold on both sides."""

    case: str
    verdict: Verdict
    detail: str = ""


class PeerReport(NamedTuple):
    """Everything that a comparison with one peer found."""

    peer: str
    findings: Sequence[Finding]
    outdated: Sequence[str] = ()
    """Known differences that no longer differ."""

    def of(self, verdict: Verdict) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict is verdict]

    @property
    def is_accepted(self) -> bool:
        """Whether something was compared and every difference has a reason."""
        return bool(self.of(Verdict.EQUAL)) and not self.of(Verdict.UNEXPLAINED)

    def lines(self) -> list[str]:
        """The report as text."""
        counts = [f"{len(found)} {verdict}" for verdict in Verdict if (found := self.of(verdict))]
        shown = [f"{self.peer}: {', '.join(counts) or 'nothing was compared'}"]
        for verdict in Verdict:
            if verdict is not Verdict.EQUAL and (found := self.of(verdict)):
                shown += ["", f"{verdict}:", *(_line(finding) for finding in found)]
        if self.outdated:
            shown += ["", "listed as known, but equal now:", *(f"  {name}" for name in self.outdated)]
        return shown


def _line(finding: Finding) -> str:
    return f"  {finding.case}" + (f"\n    {finding.detail}" if finding.detail else "")


def compare(
    peer: str, theirs: Mapping[str, Outcome], ours: Mapping[str, Outcome], known: Mapping[str, str]
) -> PeerReport:
    """Put the outcomes of the same cases side by side; a case that only one side has did not hold on the other."""
    findings = [_finding(case, theirs.get(case), ours.get(case), known) for case in dict.fromkeys((*theirs, *ours))]
    equal = {finding.case for finding in findings if finding.verdict is Verdict.EQUAL}
    return PeerReport(peer, findings, [name for name in known if name in equal])


_ABSENT = Outcome(False, "was not run")


def _finding(case: str, theirs: Outcome | None, ours: Outcome | None, known: Mapping[str, str]) -> Finding:
    theirs, ours = theirs or _ABSENT, ours or _ABSENT
    if theirs.holds and ours.holds:
        return Finding(case, Verdict.EQUAL)
    if theirs.holds:
        if case in known:
            return Finding(case, Verdict.KNOWN, known[case])
        return Finding(case, Verdict.UNEXPLAINED, ours.detail)
    return Finding(case, Verdict.OURS_ONLY if ours.holds else Verdict.UNCOUNTED, theirs.detail)
