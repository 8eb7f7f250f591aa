"""Fragmented states of the openb trace: filled by best-fit to 95 %, then a third of the pods gone at random, seeded."""

import random

import msgspec

from tonnage.cluster.cluster import Cluster
from tonnage.devices.catalog import default_vendors
from tonnage.framework.session import Session
from tonnage.model.meta import OwnerReference
from tonnage.model.pod import Pod
from tonnage.model.timestamp import rfc3339
from tonnage.simulator.policies import policy_named
from tonnage.simulator.scene import Scene, Tasks

NOW = 1_800_000_000.0
FILLED, GONE = 0.95, 3
POLICY = "best-fit"
_MEDIAN_HOURS, _SPREAD = 6.0, 1.0
"""Of the time that a pod has run since its last checkpoint, which the trace does not tell: drawn lognormally."""


def fragmented(scene: Scene, seed: int) -> Cluster:
    """A cluster that was filled up to 95 % of its GPUs and then lost a third of its pods."""
    cluster = scene.cluster(default_vendors())
    cluster.now = NOW
    draw = random.Random(f"defrag {seed}")
    cards = int((cluster.columns.model > 0).sum())
    tasks, arrived = Tasks(cluster.vendors), 0.0
    with Session(cluster, policy_named(POLICY).settings(scene, seed).plugins, brief=True) as session:
        for number, entry in enumerate(scene.fill(draw)):
            if arrived >= FILLED * cards:
                break
            task = tasks.of(entry, f".{number}")
            task = msgspec.structs.replace(task, pod=_running(task.pod, draw))
            if session.place(task).node is not None:
                cluster.confirm(task.key)
            arrived += entry.gpus
    for key in draw.sample(sorted(cluster.running), len(cluster.running) // GONE):
        cluster.remove_pod(key)
    return cluster


def _running(pod: Pod, draw: random.Random) -> Pod:
    """A pod that a controller makes again, with the time since when it runs."""
    hours = min(_MEDIAN_HOURS * draw.lognormvariate(0.0, _SPREAD), 240.0)
    owner = [OwnerReference(pod.metadata.name, controller=True, kind="ReplicaSet")]
    started = rfc3339(NOW - hours * 3600.0)
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, ownerReferences=owner, creationTimestamp=started),
        status=msgspec.structs.replace(pod.status, phase="Running", startTime=started),
    )
