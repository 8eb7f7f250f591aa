"""Tonnage's own servers in the lab: `tonnage scheduler`, or `tonnage extender` with the kube-scheduler that asks it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tonnage.devices.catalog import default_vendors
from tonnage.lab.control_plane import PATIENCE, ControlPlane
from tonnage.lab.program import HOST, Program, answers, free_ports
from tonnage.model.pod import DEFAULT_SCHEDULER

HAMI_SCHEDULER = "hami-scheduler"
BATCH_SCHEDULER = "tonnage"


class StartedServer(NamedTuple):
    """A server that answers."""

    program: Program
    address: str


def start_scheduler(plane: ControlPlane, config: Path | None = None) -> StartedServer:
    """Start `tonnage scheduler`, with a configuration if one is given; returns when it is ready."""
    (port,) = free_ports(1)
    flags = ["--http-bind", f"{HOST}:{port}", *(["--config", str(config)] if config else [])]
    return _start(plane, "scheduler", flags, port)


def start_extender(plane: ControlPlane) -> StartedServer:
    """Start `tonnage extender`, and kube-scheduler so that it asks the extender; returns when both are ready."""
    (port,) = free_ports(1)
    started = _start(plane, "extender", ["--http-bind", f"{HOST}:{port}", "--metrics-bind-address", f"{HOST}:0"], port)
    plane.run_scheduler(extender_configuration(port, names=(DEFAULT_SCHEDULER, HAMI_SCHEDULER)))
    return started


def _start(plane: ControlPlane, command: str, flags: Sequence[str], port: int) -> StartedServer:
    name = f"tonnage {command}"
    words = [sys.executable, "-m", "tonnage.cli.main", command, "--kubeconfig", str(plane.kubeconfig()), *flags]
    program = plane.start(name, words, plane.folder / f"tonnage-{command}.log")
    program.wait_until(lambda: answers(port, "/readyz"), "not ready", PATIENCE)
    return StartedServer(program, f"http://{HOST}:{port}")


def extender_configuration(
    port: int, verbs: Sequence[str] = (), host: str = HOST, names: Sequence[str] = (HAMI_SCHEDULER,)
) -> dict[str, Any]:
    """The configuration of a kube-scheduler of these names that leaves devices to the extender on that port."""
    vendors = default_vendors()
    managed = dict.fromkeys(name for vendor in vendors for name in (vendor.count_resource, *vendor.side_resources))
    extender = {
        "urlPrefix": f"http://{host}:{port}",
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "weight": 1,
        "httpTimeout": "30s",
        "managedResources": [{"name": name, "ignoredByScheduler": True} for name in managed],
        **{f"{verb}Verb": verb for verb in verbs},
    }
    return {
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": name} for name in names],
        "extenders": [extender],
    }
