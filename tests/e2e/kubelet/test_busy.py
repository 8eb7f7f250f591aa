"""`tonnage agent` on a real kubelet whose pods come while something goes wrong; only `make e2e` runs these."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agent.nvml.fakelibrary import library, needs_cc
from tests.e2e.kubelet.realnode import Agent, Card, GpuNode, container
from tests.waiting import until

pytestmark = [pytest.mark.kubelet, pytest.mark.long, needs_cc]


def bind_numbered(node: GpuNode, numbers: range) -> None:
    """Pods that are bound at once, each with an amount that no other has."""
    node.bind_at_once(
        [lambda n=n: node.bind(f"p{n}", container("main", [(n % 8, 100 + n, 1)])) for n in numbers]  # type: ignore[misc]
    )


def until_serving(node: GpuNode, agent: Agent) -> None:
    """The kubelet has taken this agent, and the node offers its cards, not only those of the one before."""
    until(lambda: "registered nvidia.com/gpu" in agent.log(), "it is not registered", agent.log)
    node.until_offered(80, agent)


def until_settled(node: GpuNode, agents: Sequence[Agent], count: int) -> tuple[set[str], set[str]]:
    """The pods that run with their own amounts, and those that the kubelet failed, which an agent has named."""

    def is_settled() -> bool:
        pods = node.pods()
        over = [one["status"]["phase"] in ("Running", "Failed") for one in pods.values()]
        turns = [node.turn(name) in ("success", "failed") for name in pods]
        return len(over) == count and all(over) and all(turns)

    until(is_settled, "pods neither run nor fail", lambda: [agent.log() for agent in agents])
    pods = node.pods()
    running = {name for name, one in pods.items() if one["status"]["phase"] == "Running"}
    assert {name: node.limit(name) for name in running} == {name: f"{100 + int(name[1:])}m" for name in running}
    failed = pods.keys() - running
    assert {pods[name]["status"].get("reason") for name in failed} <= {"UnexpectedAdmissionError"}
    said = "".join(agent.log() for agent in agents)
    assert [name for name in failed if f"the kubelet failed default/{name} " not in said] == []
    return running, failed


def test_agents_that_are_killed_again_and_again_mix_nothing_up(node: GpuNode) -> None:
    agents = [node.start_agent()]
    for turn in range(3):
        agent = agents[-1]
        until_serving(node, agent)
        agent.slow(0.05)
        bind_numbered(node, range(14 * turn, 14 * turn + 14))
        until(lambda agent=agent: len(agent.answers("given")) >= 3, "nothing is answered", agent.log)
        agent.kill()
        # What the kubelet was told is in its checkpoint; what it was not told it fails.
        agents.append(node.start_agent())
    until_serving(node, agents[-1])
    bind_numbered(node, range(42, 46))
    running, _ = until_settled(node, agents, 46)
    assert len(running) >= 3 * 3 + 4 - 3, "an answer that was on its way when the agent was killed may be lost"
    agents[-1].end()
    node.until_offered(0)


def test_a_kubelet_that_restarts_while_forty_pods_come_mixes_nothing_up(node: GpuNode) -> None:
    with node.agent() as agent:
        agent.slow(0.05)
        bind_numbered(node, range(40))
        until(lambda: len(agent.answers("given")) >= 10, "nothing is answered", agent.log)
        node.kubelet.stop_kubelet()
        node.kubelet.start_kubelet()
        until(lambda: agent.log().count("registered nvidia.com/gpu") >= 2, "it is not registered again", agent.log)
        node.until_offered(80, agent)
        running, _ = until_settled(node, [agent], 40)
        assert running
        node.bind("p40", container("main", [(0, 140, 1)]))
        node.until_running("p40")


def test_an_update_while_pods_come_and_run_is_noticed_by_none_that_runs(node: GpuNode) -> None:
    old = node.start_agent()
    node.until_offered(80, old)
    bind_numbered(node, range(5))
    before, _ = until_settled(node, [old], 5)
    assert len(before) == 5
    new = node.start_agent()
    until(lambda: "registered nvidia.com/gpu" in new.log(), "the new one does not register", new.log)
    bind_numbered(node, range(5, 15))
    old.end()
    bind_numbered(node, range(15, 20))
    running, _ = until_settled(node, [old, new], 20)
    assert before <= running
    restarts = [one["restartCount"] for name in before for one in node.pod(name)["status"]["containerStatuses"]]
    assert restarts == [0] * 5
    node.until_offered(80, new)
    new.end()
    node.until_offered(0)


def test_a_library_that_comes_later_is_found(node: GpuNode, tmp_path: Path) -> None:
    later = tmp_path / library().name
    agent = node.start_agent("--nvml-library", str(later))
    try:
        until(lambda: "NVML cannot be opened" in agent.log(), "the log does not say what is missing", agent.log)
        made = later.with_name("copied")
        made.write_bytes(library().read_bytes())
        made.rename(later)
        node.until_offered(80, agent)
    finally:
        agent.end()
    node.until_offered(0)


class Shapes:
    """Containers of all shapes that together fit the cards of the node."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._free = dict.fromkeys(range(8), 10)

    def made(self, name: str, most: int, *words: str, **more: str) -> dict[str, Any]:
        """A container with up to so many cards."""
        free = [index for index, slots in self._free.items() if slots]
        chosen = sorted(self.rng.sample(free, min(len(free), self.rng.randint(0, most))))
        for index in chosen:
            self._free[index] -= 1
        cards: list[Card] = [(index, self.rng.randint(1, 900), self.rng.randint(0, 3)) for index in chosen]
        return container(name, cards, *words, **more)


@pytest.mark.parametrize("seed", range(8))
def test_pods_of_all_shapes_get_what_was_decided_container_by_container(node: GpuNode, seed: int) -> None:
    """25 of 200 pods: none to two init containers, some a sidecar, one to three containers, some without devices."""
    shapes = Shapes(seed)
    rng = shapes.rng
    wanted: dict[tuple[str, str], list[Card]] = {}
    with node.agent():
        for number in range(25):
            first = [shapes.made(f"i{n}", 2, "-seconds", "0") for n in range(rng.randint(0, 2))]
            if rng.random() < 0.3:
                first.append(shapes.made("side", 1, restartPolicy="Always"))
            rest = [shapes.made(f"c{n}", 2) for n in range(rng.randint(1, 3))]
            wanted |= {(f"p{number}", str(one["name"])): one["cards"] for one in (*first, *rest)}
            node.bind(f"p{number}", *rest, init=first)
        node.until_running(*(f"p{number}" for number in range(25)))
        for (pod, name), cards in wanted.items():
            env = node.said(pod, name)["env"]
            limits = [env.get(f"CUDA_DEVICE_MEMORY_LIMIT_{place}") for place in range(3)]
            assert limits == [*(f"{mib}m" for _, mib, _ in cards), *[None] * (3 - len(cards))], (pod, name)
            if cards:
                assert env["CUDA_DEVICE_SM_LIMIT"] == str(cards[0][2])
