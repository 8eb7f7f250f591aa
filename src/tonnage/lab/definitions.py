"""Definitions of custom objects: PodGroups, Queues, HyperNodes and Topologies; installing and removing them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tonnage.lab.api import Api, ApiError
from tonnage.lab.program import LabError

VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
KAI_GROUPS = "/apis/scheduling.run.ai/v2alpha2"
KAI_QUEUES = "/apis/scheduling.run.ai/v2"
TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"

_PATIENCE = 300.0
_PAUSE = 0.05
_NOT_FOUND = 404
_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALL: dict[str, dict[str, Any]] = {
    definition["metadata"]["name"]: definition
    for definition in yaml.safe_load_all((Path(__file__).parent / "definitions.yaml").read_text())
}
"""Every definition by its name, such as `podgroups.scheduling.volcano.sh`."""


def install(api: Api, *names: str) -> None:
    """Install definitions, all by default; returns when their objects can be created."""
    for name in names or ALL:
        api.create(_PATH, ALL[name])
    for name in names or ALL:
        _wait_until(lambda name=name: _is_listed(api, ALL[name]), f"{name} is not served")  # type: ignore[misc]


def remove(api: Api, *names: str) -> None:
    """Remove definitions, all by default, with their objects; returns when they are gone."""
    for name in names or ALL:
        api.delete(f"{_PATH}/{name}")
    for name in names or ALL:
        _wait_until(lambda name=name: not _is_there(api, f"{_PATH}/{name}"), f"{name} stays")  # type: ignore[misc]


def _is_listed(api: Api, definition: dict[str, Any]) -> bool:
    spec = definition["spec"]
    return _is_there(api, f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")


def _is_there(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return False
        raise
    return True


def _wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise LabError(f"{otherwise} after {_PATIENCE:.0f} s")
        time.sleep(_PAUSE)
