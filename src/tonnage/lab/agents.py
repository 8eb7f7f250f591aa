"""A real node of the lab with `tonnage agent` on it, whose cards are invented, and a pod to try it with."""

import json
import sys
from pathlib import Path

from tonnage.devices.nvidia import Nvidia
from tonnage.lab.api import ApiError
from tonnage.lab.control_plane import PATIENCE, ControlPlane
from tonnage.lab.images import WORKLOAD
from tonnage.lab.kubelet_node import KubeletNode
from tonnage.lab.program import HOST, Program, free_ports

POD = "try"
_RESOURCE = Nvidia().count_resource


def start_agent(plane: ControlPlane, node: KubeletNode, gpus: int) -> Program:
    """Start `tonnage agent` with that many invented cards; returns when the node offers them."""
    cards = node.folder / "cards.yaml"
    cards.write_text(f"cards:\n- {{name: NVIDIA A100-SXM4-40GB, memory: 40960, count: {gpus}}}\n")
    (port,) = free_ports(1)
    flags: dict[str, object] = {
        "node-name": node.name,
        "kubeconfig": plane.kubeconfig(),
        "fake": cards,
        "device-plugins-folder": node.plugins,
        "pod-resources-socket": node.pod_resources,
        "host-root": node.host,
        "metrics-bind-address": f"{HOST}:{port}",
    }
    command = [sys.executable, "-m", "tonnage.cli.main", "agent"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    started = plane.start("tonnage agent", command, plane.folder / "tonnage-agent.log")
    started.wait_until(lambda: _offers(node), "its cards are not offered", PATIENCE)
    return started


def _offers(node: KubeletNode) -> bool:
    try:
        return str(node.node()["status"].get("allocatable", {}).get(_RESOURCE, "0")) != "0"
    except (ApiError, OSError):
        return False


def write_pod(folder: Path, node: KubeletNode, scheduler: str) -> Path:
    """A manifest of a pod that shares a card of the node and prints what it was given."""
    limits = {_RESOURCE: 1, "nvidia.com/gpumem": 4000, "nvidia.com/gpucores": 30}
    container = {"name": "main", "image": WORKLOAD, "imagePullPolicy": "Never", "resources": {"limits": limits}}
    spec = {
        "schedulerName": scheduler,
        "nodeSelector": {"kubernetes.io/hostname": node.name},
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    file = folder / "pod.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec}, indent=2))
    return file
