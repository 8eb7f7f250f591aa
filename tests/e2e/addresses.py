"""The addresses of this machine, for callers that are not on its loopback interface."""

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from tests.waiting import PATIENCE


def own_address() -> str:
    """An address of this machine that is not on its loopback interface; empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        # Nothing is sent.
        probe.connect(("192.0.2.1", 9))
        found = str(probe.getsockname()[0])
        return "" if found.startswith("127.") else found
    return ""


ADDRESS = own_address()
ELSEWHERE = pytest.mark.skipif(not ADDRESS, reason="this machine has no address but loopback ones")


def status_of(url: str, tls: ssl.SSLContext, body: bytes | None = None, headers: Mapping[str, str] = {}) -> Any:
    """Status and text of an answer."""
    request = urllib.request.Request(url, body, dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE, context=tls) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
