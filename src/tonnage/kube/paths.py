"""Paths of the API server, built from segments; the only module that puts a name into a path.

Every segment is percent-encoded, dots included where the segment has nothing else, so a name never becomes a
separator, a query or a step up, whoever chose it.
"""

import re
from urllib.parse import quote

_PLAIN = re.compile(r"[-a-z0-9.]*[a-z0-9][-a-z0-9.]*")
"""Names as Kubernetes has them, which need no encoding."""


def api_path(api_version: str, *segments: str) -> str:
    """The path of an API version, `v1` or `group/version`, and then of each segment."""
    root, _, version = api_version.rpartition("/")
    start = f"/apis/{segment(root)}/{segment(version)}" if root else f"/api/{segment(version)}"
    return "/".join((start, *map(segment, segments)))


def below(path: str, *segments: str) -> str:
    """The path of something below another path."""
    return "/".join((path, *map(segment, segments)))


def segment(text: str) -> str:
    """One segment of a path; a segment of dots would mean the path above."""
    if _PLAIN.fullmatch(text):
        return text
    return text.replace(".", "%2E") if text.strip(".") == "" else quote(text, safe="")
