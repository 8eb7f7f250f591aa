"""Flag values in the syntax of Go programs: booleans, durations, addresses and labels; ValueError if malformed."""

import re
from typing import NamedTuple

from tonnage.devices.codec import boolean

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_ADDRESS = re.compile(r"(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<plain>[^\[\]:]*)):(?P<port>\d{1,5})", re.ASCII)
_LARGEST_PORT = 65535


class Address(NamedTuple):
    """An address to listen at; an empty host means every interface."""

    host: str
    port: int


def truth(text: str) -> bool:
    """A boolean."""
    found = boolean(text)
    if found is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return found


def duration(text: str) -> float:
    """Seconds from `28s`, `5m`, `1h30m`, `100ms` or `0`."""
    bare = text.removeprefix("+")
    pieces = _PIECE.findall(bare)
    if bare != "0" and (not pieces or "".join(number + unit for number, unit in pieces) != bare):
        raise ValueError(f"{text!r} is no duration; write one such as 28s, 5m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in pieces)


def address(text: str) -> Address:
    """Host and port from `127.0.0.1:8080`, `:9395` or `[::1]:443`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _LARGEST_PORT:
        raise ValueError(f"{text!r} is no address; write host and port, such as 127.0.0.1:8080 or :9395")
    return Address(match["bracketed"] or match["plain"] or "", int(match["port"]))


def labels(text: str) -> dict[str, str]:
    """Labels from comma-separated `key=value` pairs."""
    found = {}
    for pair in text.split(",") if text.strip() else ():
        key, equals, value = (piece.strip() for piece in pair.partition("="))
        if not key or not equals:
            raise ValueError(f"{pair!r} is no label; write key=value pairs with commas between")
        found[key] = value
    return found
