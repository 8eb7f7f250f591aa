"""Manifests as kubectl prints them, for the tests beside."""

import json

from tonnage.manifests.read import Manifests, read_bytes


def read(text: str | bytes | object, source: str = "FILE") -> Manifests:
    """What is read from a text, or from an object written as JSON the way kubectl does."""
    if not isinstance(text, str | bytes):
        text = json.dumps(text, indent=4)
    manifests = Manifests()
    read_bytes(text if isinstance(text, bytes) else text.encode(), source, manifests)
    return manifests


def names(manifests: Manifests) -> list[str]:
    return [node.name for node in manifests.nodes] + [pod.key for pod in manifests.pods]


def pod(
    name: object = "train-0", namespace: object = "team-a", limits: object = None, **spec: object
) -> dict[str, object]:
    resources = {"limits": limits} if limits is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "labels": {"app": "train"},
            "name": name,
            "namespace": namespace,
            "resourceVersion": "4711",
        },
        "spec": {"containers": [{"image": "train:1", "name": "main", "resources": resources}], **spec},
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


def node(name: str = "gpu-07", **allocatable: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"podCIDR": "10.244.0.0/24"},
        "status": {"allocatable": {"cpu": "96", **allocatable}, "capacity": {"cpu": "96"}},
    }


def listed(*items: object, kind: str = "List") -> dict[str, object]:
    return {"apiVersion": "v1", "items": list(items), "kind": kind, "metadata": {"resourceVersion": ""}}


POD_YAML = """\
apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: 2024-01-01T00:00:00Z
  name: train-0
  namespace: team-a
  labels:
    app: train
spec:
  containers:
  - name: main
    image: train:1
    resources:
      limits:
        nvidia.com/gpu: 1
        nvidia.com/gpumem: "4000"
        cpu: 0.5
  priority: 100
"""

NODE_YAML = """\
apiVersion: v1
kind: Node
metadata:
  name: gpu-07
  annotations:
    hami.io/node-nvidia-register: '[{"id":"GPU-1","count":10,"devmem":81559,"devcore":100,"type":"H100","health":true}]'
spec:
  taints:
  - effect: NoSchedule
    key: dedicated
    value: inference
status:
  allocatable:
    cpu: "96"
    memory: 1000Gi
    pods: 110
"""
