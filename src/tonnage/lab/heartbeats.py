"""Heartbeats: plays what kubelets and HAMi's device plugins say about nodes: that they are ready, and that they run.

A node without the condition Ready gets it as soon as it is seen. A plugin whose node has a handshake annotation reports
every 30 seconds, whatever a scheduler has asked meanwhile, as HAMi's plugins do.
"""

import threading
from contextlib import suppress
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any

from tonnage.devices.catalog import default_vendors
from tonnage.lab.api import STRATEGIC, Api, ApiError
from tonnage.lab.apiwatch import ApiAccess, ApiWatch
from tonnage.lab.podstatus import timestamp
from tonnage.lab.timers import Timers

REPORTED = "Reported"
REPORT_SECONDS = 30.0
_NODES = "/api/v1/nodes"


class Heartbeats:
    """Speaks for every node until it is stopped."""

    def __init__(self, access: ApiAccess, seconds: float = REPORT_SECONDS) -> None:
        self._api = Api(access.server, access.token, str(access.authority))
        self._seconds = seconds
        self._handshakes = {vendor.handshake_annotation for vendor in default_vendors()} - {""}
        self._asked: dict[str, dict[str, str]] = {}
        """By node, the handshakes that a scheduler has written."""
        self._guard = threading.Lock()
        self._is_stopped = False
        self._timers = Timers()
        self._timers.after(self._seconds, self._report)
        self._watch = ApiWatch(access, _NODES, self._look)
        self._watch.start()

    def stop(self) -> None:
        """Say nothing any more."""
        self._is_stopped = True
        self._timers.stop()
        self._watch.stop()
        self._api.close()

    def _look(self, event: dict[str, Any]) -> None:
        node = event["object"]
        if node.get("kind") != "Node":
            return
        name, notes = node["metadata"]["name"], node["metadata"].get("annotations", {})
        asked = {key: notes[key] for key in self._handshakes & notes.keys() if not notes[key].startswith(REPORTED)}
        with self._guard:
            self._asked.pop(name, None)
            if asked and event["type"] != "DELETED":
                self._asked[name] = asked
        conditions = node["status"].get("conditions", ())
        if event["type"] != "DELETED" and not any(one["type"] == "Ready" for one in conditions):
            self._write(f"{_NODES}/{name}/status", {"status": {"conditions": [ready()]}})

    def _report(self) -> None:
        with self._guard:
            asked = {name: list(keys) for name, keys in self._asked.items()}
        report = f"{REPORTED} {datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        for name, keys in asked.items():
            self._write(f"{_NODES}/{name}", {"metadata": {"annotations": dict.fromkeys(keys, report)}})
        self._timers.after(self._seconds, self._report)

    def _write(self, path: str, body: dict[str, Any]) -> None:
        # What fails is written again: the next watch shows every node, and the next report is due soon.
        with suppress(ApiError, OSError, HTTPException):
            if not self._is_stopped:
                self._api.patch(path, body, STRATEGIC)


def ready() -> dict[str, str]:
    """The condition of a node whose kubelet works."""
    now = timestamp()
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the lab plays a kubelet", **times}
