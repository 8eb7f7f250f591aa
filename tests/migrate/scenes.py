"""Clusters of other schedulers as their objects: Deployments, ConfigMaps, nodes and pods as those write them."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.scenario import gpu

DEVICES = "nvidia:\n  resourceCountName: nvidia.com/gpu\n  resourceMemoryName: nvidia.com/gpumem\n"
FLAGS = ("--http_bind=0.0.0.0:443", "--scheduler-name=hami-scheduler", "--node-scheduler-policy=spread", "-v=4")


def deployment(namespace: str, name: str, container: dict[str, Any], config_map: str) -> dict[str, Any]:
    volumes = [{"name": "config", "configMap": {"name": config_map}}]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], "volumes": volumes}}
    metadata = {"namespace": namespace, "name": name}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def hami(*flags: str, devices: str = DEVICES) -> list[dict[str, Any]]:
    """HAMi's scheduler as its chart installs it."""
    words = ["scheduler", *FLAGS, "--device-config-file=/device-config.yaml", *flags]
    container = {"name": "vgpu-scheduler-extender", "image": "docker.io/projecthami/hami:v2.10.0", "command": words}
    made = deployment("kube-system", "hami-scheduler", container, "hami-scheduler-device")
    return [made, config_map("kube-system", "hami-scheduler-device", **{"device-config.yaml": devices})]


def volcano(config: str, *flags: str) -> list[dict[str, Any]]:
    conf = "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf"
    container = {"name": "volcano-scheduler", "image": "volcanosh/vc-scheduler:v1.15.1", "args": [conf, *flags]}
    made = deployment("volcano-system", "volcano-scheduler", container, "volcano-scheduler-configmap")
    data = {"volcano-scheduler.conf": config}
    return [made, config_map("volcano-system", "volcano-scheduler-configmap", **data)]


def gpu_node(name: str, cards: int = 2) -> dict[str, Any]:
    """A node that HAMi's device plugin has registered."""
    registered = json.dumps([gpu(f"{name}/{index}", index=index) for index in range(cards)])
    annotations = {"hami.io/node-nvidia-register": registered, "hami.io/node-handshake": "Reported 2026-11-18 12:00:00"}
    offered = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(10 * cards)}
    status = {"allocatable": offered, "capacity": offered}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        "status": status,
    }


def hami_pod(
    name: str, node: str = "", card: str = "", at: int = 1, scheduler: str = "hami-scheduler"
) -> dict[str, Any]:
    """A pod that asks for 1000 MiB of a card; with a node, as HAMi's scheduler and plugin leave it."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "containers": [{"name": "main", "image": "work", "resources": {"limits": limits}}],
    }
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if node:
        metadata["labels"] = {"hami.io/vgpu-node": node}
        metadata["annotations"] = {
            "hami.io/vgpu-node": node,
            "hami.io/vgpu-time": str(1_700_000_000 + at),
            "hami.io/vgpu-devices-to-allocate": ";",
            "hami.io/vgpu-devices-allocated": f"{card},NVIDIA,1000,0:;",
            "hami.io/bind-phase": "success",
            "hami.io/bind-time": str(1_700_000_000 + at),
        }
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def written(folder: Path, *objects: dict[str, Any]) -> str:
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return str(file)
