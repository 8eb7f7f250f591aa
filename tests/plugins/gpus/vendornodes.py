"""Nodes with cards of vendors beside NVIDIA."""

import json

from tests.plugins.gpus.vendor_lives import asking, machine


def registered(*uuids, **facts):
    """A registration in HAMi's JSON."""
    card = {"count": 1, "devmem": 32768, "devcore": 100, "type": "model", "health": True} | facts
    return json.dumps([card | {"id": uuid, "index": index} for index, uuid in enumerate(uuids)])


def sgpus(*zones, name="n"):
    """A node with sGPU cards called by letters, in zones of linked cards; 0 is none."""
    cards = [
        {
            "uuid": f"GPU-{chr(97 + index)}",
            "model": "sgpu",
            "totalDevCount": 16,
            "totalCompute": 100,
            "totalVRam": 32768,
            "healthy": True,
            "qosPolicy": "best-effort",
            "linkZone": zone,
        }
        for index, zone in enumerate(zones)
    ]
    return machine(name, annotations={"metax-tech.com/node-gpu-devices": json.dumps(cards)})


def sgpu(name, count=1, memory=None, core=None, *, qos=None, kind=None):
    asked = {"metax-tech.com/sgpu": count, "metax-tech.com/vmemory": memory, "metax-tech.com/vcore": core}
    notes = {"metax-tech.com/sgpu-qos-policy": qos, "metax-tech.com/sgpu-app-class": kind}
    return asking(
        name,
        {key: value for key, value in asked.items() if value is not None},
        annotations={key: value for key, value in notes.items() if value is not None},
    )


def vxpu_node(cards=8):
    text = registered(*[f"XPU-{index}" for index in range(cards)], count=4, devmem=98304, type="P800")
    return machine(annotations={"hami.io/node-register-xpu": text})
