"""HAMi's scheduler binary as a process: started for a comparison, and asked until it answers or its time is up."""

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import msgspec

from bench.control_planes import NAMESPACE
from bench.report import BenchmarkError
from bench.workload import bench_pod, of_scheduler
from tonnage.lab.api import pod_manifest, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports

READY_WITHIN = 120.0
"""Seconds; HAMi reads the nodes' devices in rounds of 15 s."""
_ANSWER_WITHIN = 10.0
_PROBE = "probe"
_SCHEDULER = "hami-scheduler"
_TAIL = 20


class HamiScheduler:
    """A running HAMi scheduler with its log, or another program that takes HAMi's flags."""

    def __init__(
        self, plane: ControlPlane, start: Sequence[str], name: str = "hami", flags: Sequence[str] = ()
    ) -> None:
        self.port, metrics = free_ports(2)
        self._binary = start[0]
        self._log = plane.folder / f"{name}.log"
        command: Sequence[str] = [
            *(*start, f"--http_bind=127.0.0.1:{self.port}", f"--metrics-bind-address=127.0.0.1:{metrics}"),
            *(f"--scheduler-name={_SCHEDULER}", "--kube-qps=1000", "--kube-burst=1000", *flags),
        ]
        environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            except OSError as error:
                raise BenchmarkError(f"{self._binary} cannot be started: {error.strerror}") from error

    def wait_until_ready(self, plane: ControlPlane, nodes: Sequence[str], within: float) -> None:
        """Ask /filter about a pod until it names a node; BenchmarkError if the program ends or takes too long."""
        made = plane.api.create(
            pods_path(NAMESPACE), pod_manifest(of_scheduler(bench_pod(_PROBE, 1, 1024, 5), _SCHEDULER))
        )
        body = msgspec.json.encode({"Pod": made, "NodeNames": nodes})
        deadline = time.monotonic() + within
        while not _names_a_node(answer := self._filter(body, deadline)):
            if (status := self._process.poll()) is not None:
                raise BenchmarkError(f"{self._binary} ended with status {status}{self._tail()}")
            if time.monotonic() > deadline:
                said = f"names no node for a pod after {within:g} s; /filter gave: {answer[:300]}"
                raise BenchmarkError(f"{self._binary} {said}{self._tail()}")
            time.sleep(0.2)
        plane.api.delete(f"{pods_path(NAMESPACE)}/{_PROBE}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _filter(self, body: bytes, deadline: float) -> str:
        left = max(deadline - time.monotonic(), 0.1)
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/filter", body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=min(left, _ANSWER_WITHIN)) as answer:
                return str(answer.read().decode(errors="replace"))
        except (OSError, HTTPException) as error:
            return str(error)

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-_TAIL:]
        return "\n".join(["; the end of its log:", *lines]) if lines else "; its log is empty"


def _names_a_node(answer: str) -> bool:
    try:
        found = msgspec.json.decode(answer)
    except msgspec.DecodeError:
        return False
    return isinstance(found, dict) and bool({name.lower(): found[name] for name in found}.get("nodenames"))


@contextmanager
def hami_scheduler(
    plane: ControlPlane, binary: Path, nodes: Sequence[str], within: float = READY_WITHIN
) -> Iterator[HamiScheduler]:
    """HAMi's scheduler, ready to place pods on these nodes."""
    hami = HamiScheduler(plane, [str(binary)])
    try:
        hami.wait_until_ready(plane, nodes, within)
        yield hami
    finally:
        hami.stop()
