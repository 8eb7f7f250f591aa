"""The container that the kubelet asks about: it names only ids, but it can be asked which pods it has.

The kubelet enters a pod into its list directly before it admits it, one pod after another. So the container that asks
is the first one of a listed pod that requests as many devices as were asked about and that neither the kubelet's
checkpoint nor the agent has given any. Nothing is guessed: with no or several such containers there is no answer.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from tonnage.agent.core.nodepod import NodeContainer, NodePod

Served = tuple[str, str]
"""UID of a pod and name of a container."""


class Asker(NamedTuple):
    """A container that may be the one that asks."""

    pod: NodePod
    container: NodeContainer


class KubeletPods(NamedTuple):
    """What the kubelet says about itself while it waits for an answer."""

    listed: frozenset[str]
    """Namespace and name of the pods in its list."""
    given: frozenset[Served]
    """Containers with devices in its checkpoint."""


def askers(
    pods: Mapping[str, NodePod], kubelet: KubeletPods, served: Collection[Served], count: int, refused: Collection[str]
) -> list[Asker]:
    """The containers that may ask for so many devices.

    A container that the agent has served and the kubelet has forgotten is one only if there is no other: the kubelet
    lost its checkpoint.
    """
    waiting = [pod for pod in pods.values() if pod.key in kubelet.listed and not pod.is_over and pod.uid not in refused]
    fresh = _next_of(waiting, {*kubelet.given, *served}, count)
    return fresh or _next_of(waiting, kubelet.given, count)


def is_alone(pods: Mapping[str, NodePod], kubelet: KubeletPods, asker: Asker) -> bool:
    """Whether no other listed pod lacks devices in the checkpoint, so that nobody else can ask before this one has."""
    lacking = {
        pod.uid
        for pod in pods.values()
        if pod.key in kubelet.listed
        and not pod.is_over
        and any(one.count and (pod.uid, one.name) not in kubelet.given for one in pod.containers)
    }
    return lacking == {asker.pod.uid}


def _next_of(pods: Iterable[NodePod], done: Collection[Served], count: int) -> list[Asker]:
    found = []
    for pod in pods:
        container = next((one for one in pod.containers if one.count and (pod.uid, one.name) not in done), None)
        if container is not None and container.count == count:
            found.append(Asker(pod, container))
    return found


def unseen(pods: Mapping[str, NodePod], kubelet: KubeletPods) -> list[str]:
    """Pods in the kubelet's list that the watch has not shown yet."""
    return sorted(kubelet.listed - {pod.key for pod in pods.values()})
