"""Messages about decisions: the parts of a sentence that the Events and conditions of both servers share."""

from collections import Counter

from tonnage.framework.decision import Decision
from tonnage.model.excerpt import one_line

LONGEST_MESSAGE = 1024
"""In bytes; the API server refuses a longer message of an Event."""


def rejections(decision: Decision | None) -> Counter[str]:
    """The number of nodes per reason for which a decision rejected them."""
    counts: Counter[str] = Counter()
    for rejected in decision.rejected if decision is not None else ():
        counts[rejected.reason] += rejected.count
    return counts


def shortened(message: str) -> str:
    """The message on one line, cut at the end if it is too long for the API server."""
    # A line break makes one character two; what is cut off need not be looked at.
    message = one_line(message[:LONGEST_MESSAGE]) + ("…" if len(message) > LONGEST_MESSAGE else "")
    text = message.encode()
    if len(text) <= LONGEST_MESSAGE:
        return message
    mark = "…"
    return text[: LONGEST_MESSAGE - len(mark.encode())].decode(errors="ignore") + mark
