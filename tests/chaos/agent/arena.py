"""A real kubelet with an agent that is put through faults, and the pods on it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from tests.e2e.kubelet.realnode import Agent, GpuNode
from tests.waiting import until
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.kubelet_node import KubeletNode

OFFERED = 80


class NodeArena:
    """One node that is put through faults."""

    def __init__(self, node: GpuNode) -> None:
        self.node = node
        self.agent = node.start_agent()
        self._ended: list[Agent] = []
        self.player = SimpleNamespace(mixed_up=[], started=set())
        """In place of played kubelets: there is a real one."""
        self.measured: list[tuple[float, float]] = []
        self.evicted = 0
        self.kubelet_restarts = 0
        self.until_offered()

    def until_offered(self) -> None:
        self.node.until_offered(OFFERED, self.agent)

    def kill_agent(self) -> None:
        self.agent.kill()
        self._ended.append(self.agent)

    def start_agent(self) -> None:
        self.agent = self.node.start_agent()

    def replace_agent(self) -> None:
        """As a rolling update with a surge does: the new one serves before the old one ends."""
        old, self.agent = self.agent, self.node.start_agent()
        until(lambda: "registered nvidia.com/gpu" in self.agent.log(), "the new one does not register", self.agent.log)
        old.end()
        self._ended.append(old)

    def restart_kubelet(self, pause: float) -> None:
        self.node.kubelet.stop_kubelet()
        time.sleep(pause)
        self.node.kubelet.start_kubelet()
        self.kubelet_restarts += 1

    def restart_api_server(self, pause: float) -> None:
        plane = self.node.plane
        plane.api_server.stop()
        plane.running.remove(plane.api_server)
        time.sleep(pause)
        plane.start_server()

    def tend(self) -> list[str]:
        """What is not as it should be."""
        ended = self.agent.process.poll()
        offered = self.node.offered()
        return [
            *([f"the agent ended with {ended}"] if ended is not None else []),
            *([f"the node offers {offered} devices"] if offered != OFFERED else []),
        ]

    def agents_said(self) -> str:
        """What all agents have logged."""
        return "".join(agent.log() for agent in (*self._ended, self.agent))

    def take_complaints(self) -> list[str]:
        return []

    def logs(self) -> str:
        return self.agents_said()[-20000:]

    def end(self) -> None:
        if self.agent.process.poll() is None:
            self.agent.end()


@contextmanager
def node_arena(_: int = 1) -> Iterator[NodeArena]:
    """A node with an agent; there is one, however many are asked for."""
    with ControlPlane() as plane, KubeletNode(plane) as node:
        made = NodeArena(GpuNode(plane, node))
        try:
            yield made
        finally:
            made.end()
