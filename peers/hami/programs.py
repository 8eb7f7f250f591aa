"""The two programs on a real API server, and that server as the world that both watch."""

import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.hami import READY_WITHIN, HamiScheduler
from bench.report import BenchmarkError
from peers.hami.outcomes import lowered
from peers.hami.workload import FREE, TIGHT, Workload, started
from tonnage.lab.api import ApiError, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import LabError

DEVICES = Path(__file__).with_name("device-config.yaml").read_text()
"""The device configuration of both sides."""
_ANSWER_WITHIN = 30.0
_LOCKS = ("hami.io/mutex.lock", "cambricon.com/dsmlu.lock")
_SCORE = re.compile(r'pod="([^"]+)".*? node="([^"]+)".*? score=([-+.\de]+)')
"""HAMi's line about a node that fits, at verbosity 4."""


def read_scores(lines: Sequence[str], pod: str) -> dict[str, float]:
    """The last score of each node for a pod in HAMi's log."""
    found = [match for line in lines if (match := _SCORE.search(line)) is not None and match[1] == pod]
    return {match[2]: float(match[3]) for match in found}


class SchedulerProgram(HamiScheduler):
    """A scheduler that answers over HTTP; HAMi's flags start both."""

    def post(self, path: str, document: object) -> Any:
        """The answer to a request; LabError if there is none."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(document).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_WITHIN) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError) as error:
            raise LabError(f"{self._binary} does not answer {path}: {error}{self._tail()}") from error

    def scores(self, pod: str) -> dict[str, float]:
        """The node scores of a pod as the log tells them."""
        return read_scores(self._log.read_text(errors="replace").splitlines()[-20000:], pod)

    def wait_until_named(self, probe: dict[str, Any], nodes: Sequence[str], within: float = READY_WITHIN) -> None:
        """Ask about a pod until a node is named; LabError if the program ends or takes too long."""
        deadline = time.monotonic() + within
        said = "nothing"
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                answer = lowered(self.post("/filter", {"Pod": probe, "NodeNames": list(nodes)}))
                if answer.get("nodenames"):
                    return
                said = str(answer)[:300]
            except LabError as error:
                said = str(error)[:300]
            time.sleep(0.2)
        raise LabError(f"{self._binary} names no node after {within:g} s, or has ended: {said}{self._tail()}")


class ApiWorld:
    """A real API server; kubelets and device plugins are played."""

    def __init__(self, plane: ControlPlane, pause: float) -> None:
        self._api = plane.api
        self._pause = pause

    def prepare(self, workload: Workload) -> None:
        """Create namespaces, quotas and nodes."""
        for name in (FREE, TIGHT):
            self._api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for quota in workload.quotas:
            self._api.create(f"/api/v1/namespaces/{quota['metadata']['namespace']}/resourcequotas", quota)
        for node in workload.nodes:
            self._api.create("/api/v1/nodes", node)

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = self._api.create(pods_path(pod["metadata"]["namespace"]), pod)
        return made

    def read(self, pod: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._api.get(_path(pod))
        return found

    def run(self, pod: dict[str, Any], init_ends: bool) -> None:
        self._api.patch(_path(pod), {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}})
        self._api.patch(f"{_path(pod)}/status", {"status": started(pod, init_ends)})
        self._unlock(pod)

    def delete(self, pod: dict[str, Any]) -> None:
        self._unlock(pod)
        try:
            self._api.delete(_path(pod))
        except ApiError as error:
            if error.status != 404:
                raise

    def settle(self, again: bool = False) -> None:
        time.sleep(self._pause * (20 if again else 1))

    def _unlock(self, pod: dict[str, Any]) -> None:
        """Remove the locks of the pod's node, as device plugins do once they have answered."""
        node = self.read(pod)["spec"].get("nodeName")
        if node:
            self._api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": dict.fromkeys(_LOCKS)}})


def _path(pod: dict[str, Any]) -> str:
    return f"{pods_path(pod['metadata']['namespace'])}/{pod['metadata']['name']}"


@contextmanager
def both(
    plane: ControlPlane, world: ApiWorld, workload: Workload, hami: Sequence[str]
) -> Iterator[tuple[SchedulerProgram, SchedulerProgram]]:
    """Our extender and HAMi's scheduler, both ready; `hami` is the command that starts the latter."""
    devices = plane.folder / "device-config.yaml"
    devices.write_text(DEVICES)
    tonnage = [sys.executable, "-m", "tonnage.cli.main", "extender", "--kubeconfig", str(plane.kubeconfig())]
    running: list[SchedulerProgram] = []
    try:
        flags = [f"--device-config-file={devices}"]
        running.append(SchedulerProgram(plane, tonnage, "tonnage", [*flags, "--privileged-pods=deny"]))
        running.append(SchedulerProgram(plane, hami, "hami", [*flags, "-v=4"]))
        names = [node["metadata"]["name"] for node in workload.nodes]
        probes = [next(case.pod for case in workload.cases(len(workload.wares) * 9) if case.ware == "gcu")]
        for number, program in enumerate(running):
            probe = world.create({**probes[0], "metadata": {"name": f"probe-{number}", "namespace": FREE}})
            program.wait_until_named(probe, names)
            # The wait may have outlasted the connections that the API server keeps open.
            plane.api.close()
            world.delete(probe)
        world.settle(again=True)
        yield running[0], running[1]
    except BenchmarkError as error:
        raise LabError(str(error)) from error
    finally:
        for program in running:
            program.stop()
