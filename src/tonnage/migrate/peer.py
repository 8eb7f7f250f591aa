"""PeerScheduler: a scheduler that clusters move over from, and what was found out about its installation."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tonnage.devices.base import Vendor
from tonnage.framework.plugin import Plugin
from tonnage.migrate.peerobjects import PeerContainer, PeerDeployment, PeerObjects


class Installation(NamedTuple):
    """What runs, what Tonnage makes of its settings, and the commands that replace it."""

    found: str
    schedulers: tuple[str, ...]
    """The schedulerName of the pods that it serves."""
    vendors: Sequence[Vendor]
    plugins: Sequence[Plugin]
    actions: Sequence[str]
    same: list[str]
    unsupported: list[str]
    move: list[str]
    back: list[str]


class PeerScheduler(NamedTuple):
    """One scheduler that is known."""

    name: str
    is_peer: Callable[[PeerContainer], bool]
    """Whether a container is its scheduler."""
    examine: Callable[[PeerObjects], Installation]


def values_of(words: Sequence[str], flag: str) -> list[str]:
    """The values of a flag on a command line, given as `--flag=value` or in two words."""
    found = [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")]
    return found + [after for word, after in pairwise(words) if word == flag]


def ignored_flags(words: Sequence[str], known: Mapping[str, str], used: Sequence[str]) -> list[str]:
    """What becomes of the flags that Tonnage does not take over: the reason that is known, or that there is none."""
    found = []
    for word in words:
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag not in used:
            found.append(f"{flag}: {known.get(flag, 'Tonnage has no such flag')}")
    return found


def named(deployment: PeerDeployment, container: PeerContainer, what: str) -> str:
    """Who runs, in a few words."""
    return f"{what} {container.tag}, Deployment {deployment.namespace}/{deployment.name}"


def stopped(deployment: PeerDeployment) -> str:
    """The command that ends a scheduler; its pods run on."""
    return f"kubectl -n {deployment.namespace} scale deployment {deployment.name} --replicas=0"


def started(deployment: PeerDeployment) -> str:
    """The command that starts it again as it was."""
    replicas = deployment.spec.replicas or 1
    return f"kubectl -n {deployment.namespace} scale deployment {deployment.name} --replicas={replicas}"


CHART = "helm install tonnage deploy/chart -n tonnage --create-namespace"
UNINSTALL = "helm uninstall tonnage -n tonnage"
