"""Faults of the agent: waiting until the node has come to rest, and judging what containers were given."""

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.agent.nvml.fakelibrary import uuid
from tests.chaos.agent.arena import NodeArena
from tests.chaos.agent.traffic import NodeTraffic, PlacedPod, over_committed
from tests.chaos.arena import FAILURES
from tests.chaos.rest import Judge
from tests.chaos.run import Run

REJECTED = "UnexpectedAdmissionError"
_TURNS = {"Running": ("success",), "Failed": ("failed",), "Succeeded": ("success", "failed")}
"""How turns are closed. A pod that a restarted kubelet ends may be Failed for a moment before it is Succeeded."""


class NodeGround(NamedTuple):
    """What a fault works on."""

    arena: NodeArena
    traffic: NodeTraffic
    rng: random.Random


class NodeRest(Judge):
    """Of an agent's node."""

    patience = 120.0

    def __init__(self, arena: NodeArena, traffic: NodeTraffic) -> None:
        super().__init__()
        self._arena, self._traffic = arena, traffic
        self._right: set[tuple[str, str]] = set()
        """UIDs and names of containers that have been looked at."""
        self.missed: set[str] = set()
        """Pods that the kubelet failed while it could not ask the agent."""

    def _unrest(self) -> list[str]:
        try:
            unrest = self._arena.tend()
            pods = self._arena.node.pods()
        except FAILURES as error:
            return [f"the API server does not answer: {error}"]
        said = self._arena.agents_said()
        for name, pod in pods.items():
            phase, notes = pod["status"]["phase"], pod["metadata"]["annotations"]
            turn = notes.get("hami.io/bind-phase")
            if "deletionTimestamp" in pod["metadata"]:
                unrest.append(f"{name} has not gone")
            elif phase not in ("Running", "Failed", "Succeeded"):
                unrest.append(f"{name} is {phase}: {pod['status']}")
            elif turn not in _TURNS[phase]:
                unrest.append(f"{name} is {phase} and its turn is {turn}")
            elif phase == "Failed" and f"default/{name}" not in said:
                unrest.append(f"no agent has named {name}, which the kubelet has failed: {pod['status']}")
        return unrest

    def _wrong(self) -> list[str]:
        wrong: list[str] = []
        running: list[PlacedPod] = []
        for name, pod in self._arena.node.pods().items():
            placed = self._traffic.placed.get(name)
            if placed is None:
                continue
            if pod["status"]["phase"] == "Running":
                running.append(placed)
                self._arena.player.started |= {name}
                wrong += [f"{name} was forged and runs"] if placed.is_forged else self._given(name, pod, placed)
            elif not placed.is_forged:
                wrong += self._failed(name, pod)
        return [*wrong, *(f"card {index} has more than it can have" for index in over_committed(running))]

    def _given(self, name: str, pod: dict[str, Any], placed: PlacedPod) -> list[str]:
        """Containers that have not what was decided for them."""
        wrong = []
        for container, cards in placed.containers.items():
            key = (pod["metadata"]["uid"], container)
            if key in self._right:
                continue
            env = self._arena.node.said(name, container)["env"]
            given = [env.get(f"CUDA_DEVICE_MEMORY_LIMIT_{place}") for place in range(len(cards) + 1)]
            wanted = [*(f"{mib}m" for _, mib, _ in cards), None]
            visible = env.get("NVIDIA_VISIBLE_DEVICES")
            if given != wanted or visible != (",".join(uuid(index) for index, _, _ in cards) or None):
                wrong.append(f"{name} ({container}) has {given} of {visible}, decided was {cards}")
            self._right.add(key)
        return wrong

    def _failed(self, name: str, pod: dict[str, Any]) -> list[str]:
        """An honest pod may end only because the kubelet could not ask."""
        status = pod["status"]
        self.missed.add(name)
        is_missed = f"the kubelet failed default/{name} " in self._arena.agents_said()
        if status["phase"] == "Failed" and status.get("reason") == REJECTED and is_missed:
            return []
        if self._arena.kubelet_restarts and self._traffic.placed[name].containers["prepare"]:
            # A kubelet that starts asks for the devices of init containers that have ended, and ends their pods if the
            # plugin has not registered yet; the phase is Succeeded then, as the containers end in order.
            return []
        return [f"{name} is honest and {status['phase']}: {status}"]


def node_run(
    arena: NodeArena, kinds: Mapping[str, Callable[[Any], str]], seed: int, tell: Callable[[str], None]
) -> Run:
    """On a node, with pods that share its cards."""
    rng = random.Random(seed)
    traffic = NodeTraffic(arena, rng)
    return Run(NodeGround(arena, traffic, rng), NodeRest(arena, traffic), kinds, tell)  # type: ignore[arg-type]
