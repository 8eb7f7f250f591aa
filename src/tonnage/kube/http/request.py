"""A request as it is sent."""

import re
from collections.abc import Mapping

_TARGET = re.compile(r"[!-~]+")
_UNSENDABLE = re.compile(r"[^\t -~\x80-\xff]")


def header_lines(headers: Mapping[str, str]) -> str:
    """Headers as they are sent; ValueError for a value that would end its line or cannot be sent."""
    for name, value in headers.items():
        if _UNSENDABLE.search(value):
            raise ValueError(f"the header {name} has characters that cannot be sent")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def encode_request(method: str, target: str, headers: str, body: bytes | None) -> bytes:
    """A request with header lines from `header_lines`; ValueError for a target that is not encoded."""
    if not _TARGET.fullmatch(target):
        raise ValueError(f"{target!r} is not encoded and cannot be sent")
    if method == "GET":
        return f"GET {target} HTTP/1.1\r\n{headers}\r\n".encode("latin-1")
    content = body or b""
    return f"{method} {target} HTTP/1.1\r\n{headers}Content-Length: {len(content)}\r\n\r\n".encode("latin-1") + content
