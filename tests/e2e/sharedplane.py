"""The control plane that a worker's test files share: it is emptied between them, in a tenth of a new one's time."""

import json
import shutil
import urllib.request
from base64 import b64encode
from typing import Any

from tests.waiting import PATIENCE, until
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import HOST, LabError

_OBJECTS = {"key": b64encode(b"/registry/").decode(), "range_end": b64encode(b"/registry0").decode()}
_OUR_GROUPS = ("volcano.sh", "run.ai", "kai.scheduler", "x-k8s.io")


class SharedPlane:
    """A control plane that is started when it is first needed, and again if a test has left it broken."""

    def __init__(self) -> None:
        self._plane: ControlPlane | None = None

    def get(self) -> ControlPlane:
        """The control plane, as a new one is."""
        if self._plane is None:
            self._plane = ControlPlane()
            self._programs = list(self._plane.running)
            self._files = set(self._plane.folder.iterdir())
            self._revision = int(_etcd(self._plane, "range", {**_OBJECTS, "count_only": True})["header"]["revision"])
        return self._plane

    def empty(self) -> None:
        """Remove all objects and files that were made, whatever keeps them, and stop other programs."""
        plane = self.get()
        try:
            for program in self._programs:
                program.check()
        except LabError:
            self.stop()
            return
        for program in [one for one in plane.running if one not in self._programs]:
            program.stop()
            plane.running.remove(program)
        since = {"keys_only": True, "min_create_revision": self._revision + 1}
        for made in _etcd(plane, "range", {**_OBJECTS, **since}).get("kvs", ()):
            _etcd(plane, "deleterange", {"key": made["key"]})
        until(lambda: not _left(plane), "objects stay", lambda: _left(plane))
        for file in set(plane.folder.iterdir()) - self._files:
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    def stop(self) -> None:
        if self._plane is not None:
            self._plane.stop()
            self._plane = None


def _etcd(plane: ControlPlane, what: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Ask etcd itself: no controllers run here that would let namespaces and objects with finalizers go."""
    request = urllib.request.Request(f"http://{HOST}:{plane.database}/v3/kv/{what}", json.dumps(asked).encode())
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found


def _left(plane: ControlPlane) -> list[str]:
    """What the API server has not noticed yet, of the kinds that tests depend on most."""
    lists = [plane.api.get(f"/api/v1/{kind}")["items"] for kind in ("pods", "nodes")]
    groups = [group["name"] for group in plane.api.get("/apis")["groups"]]
    names = [one["metadata"]["name"] for found in lists for one in found]
    return [*names, *(name for name in groups if name.endswith(_OUR_GROUPS))]
