"""HamiReport: how often both sides said the same, and every difference with its evidence."""

from collections import Counter
from typing import Any, NamedTuple

EQUAL, TIE, UNEXPLAINED = "equal", "tie", "unexplained difference"
"""What a comparison finds, besides the names of known differences."""


class Finding(NamedTuple):
    """One case, and how the sides compare."""

    case: str
    verdict: str
    """EQUAL, TIE, UNEXPLAINED or the name of a known difference."""
    detail: str = ""


class HamiReport(NamedTuple):
    """Everything that a comparison found."""

    findings: list[Finding]
    reasons: dict[str, str]
    """Why each known difference is one, by its name."""

    @property
    def unexplained(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == UNEXPLAINED]

    @property
    def is_accepted(self) -> bool:
        """Whether something was compared and every difference has a reason."""
        return any(finding.verdict == EQUAL for finding in self.findings) and not self.unexplained

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(finding.verdict for finding in self.findings).most_common())

    def lines(self) -> list[str]:
        """The report as text."""
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.counts.items())
        shown = [f"HAMi: {counts or 'nothing was compared'}"]
        shown += [f"  {name}: {self.reasons[name]}" for name in self.counts if name in self.reasons]
        for finding in self.unexplained:
            shown += ["", f"{finding.case}: {finding.verdict}", f"  {finding.detail}"]
        return shown

    def document(self) -> dict[str, Any]:
        """The report for machines."""
        found = [finding._asdict() for finding in self.findings if finding.verdict != EQUAL]
        return {"peer": "hami", "accepted": self.is_accepted, "counts": self.counts, "findings": found}
