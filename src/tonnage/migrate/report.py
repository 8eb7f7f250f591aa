"""MigrationReport: what moving a cluster over would change, as data that is printed as text or JSON."""

import msgspec


class ExpectedDifference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that will be different, with an example of a pod or node."""

    what: str
    example: str = ""
    count: int = 0
    """How many pods or nodes it concerns; 0 if it is about none of them."""


class ReplayCounts(msgspec.Struct, frozen=True, rename="camel"):
    """How the last placed pods would have been placed by Tonnage."""

    pods: int = 0
    same_place: int = 0
    same_node: int = 0
    """On the same node with other cards."""
    other_node: int = 0
    waiting: int = 0


class MigrationReport(msgspec.Struct, frozen=True, rename="camel"):
    """What will be the same, what will differ, what is not supported, and the commands of the move."""

    peer: str
    cluster: str
    """The API server, or the names of files."""
    found: str
    """What runs there."""
    replay: ReplayCounts
    same: list[str]
    differs: list[ExpectedDifference]
    unsupported: list[str]
    problems: list[str]
    """What could not be read."""
    move: list[str]
    """Commands, and comments that begin with #."""
    back: list[str]


_FAULTS = "Could not be read"


def as_text(report: MigrationReport) -> str:
    """The report for people."""
    replay = report.replay
    lines = [f"{report.found} ({report.cluster})", ""]
    if replay.pods:
        lines += [
            f"Of the last {replay.pods} pods with a node, Tonnage would have put {replay.same_place} on the same node "
            f"and cards, {replay.same_node} on the same node with other cards, {replay.other_node} on another node; "
            f"{replay.waiting} would wait.",
            "",
        ]
    different = [f"{one.what}{_example(one)}" for one in report.differs]
    parts = {
        _FAULTS: report.problems,
        "The same": report.same,
        "Different": different,
        "Not supported": report.unsupported,
    }
    for title, items in parts.items():
        lines += (
            [f"{title}:", *(f"  * {item}" for item in items or ["nothing"]), ""] if items or title != _FAULTS else []
        )
    for title, commands in (("The move", report.move), ("The way back", report.back)):
        lines += [f"{title}:", *(f"  {command}" for command in commands), ""]
    return "\n".join(lines)


def _example(one: ExpectedDifference) -> str:
    if not one.example:
        return ""
    others = f", and {one.count - 1} more" if one.count > 1 else ""
    return f" (such as {one.example}{others})"
