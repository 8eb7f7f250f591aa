"""When pods are bound, as a watch of the API server shows it; nothing is asked again and again meanwhile."""

import http.client
import json
import ssl
import threading
import time
from urllib.parse import urlencode, urlsplit

from tonnage.lab.control_plane import ControlPlane

_SILENCE = 300.0


class BindWatch:
    """Notes when each pod gets its node, from its beginning on; a context manager that ends the watch."""

    def __init__(self, plane: ControlPlane) -> None:
        self.times: list[float] = []
        """By the monotonic clock, in order."""
        listed = plane.api.get("/api/v1/pods", limit=1)
        place = urlsplit(plane.server)
        assert place.hostname
        context = ssl.create_default_context(cafile=str(plane.authority))
        self._connection = http.client.HTTPSConnection(place.hostname, place.port, timeout=_SILENCE, context=context)
        query = {
            "watch": "true",
            "fieldSelector": "spec.nodeName!=",
            "resourceVersion": listed["metadata"]["resourceVersion"],
        }
        self._connection.request(
            "GET", f"/api/v1/pods?{urlencode(query)}", headers={"Authorization": f"Bearer {plane.token}"}
        )
        self._answer = self._connection.getresponse()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> "BindWatch":
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(2)
        self._thread.join()
        self._connection.close()

    def wait(self, count: int, deadline: float) -> int:
        """Wait until so many pods are bound or the time has come; how many are."""
        while len(self.times) < count and time.monotonic() < deadline and self._thread.is_alive():
            time.sleep(0.02)
        return len(self.times)

    def _read(self) -> None:
        try:
            while line := self._answer.readline():
                now = time.monotonic()
                # A pod that gets a node comes into the selection; what changes about it later is another type.
                if json.loads(line)["type"] == "ADDED":
                    self.times.append(now)
        except (OSError, ValueError, http.client.HTTPException):
            return
