"""Start until allocatable, and pods that are bound at once next to the same pods without GPUs, on a real kubelet."""

import statistics
import time

import psutil

from bench.agent.sizes import CARDS, SPLIT, Sizes, cpu_seconds, waited
from bench.report import Report
from tests.e2e.kubelet.realnode import Agent, GpuNode, container

SLOWED = 0.05
"""Seconds that every answer of Allocate takes longer."""


def starts_and_pods(report: Report, node: GpuNode, sizes: Sizes) -> None:
    """Start until allocatable, and pods that are bound at once next to the same pods without GPUs."""
    starts, used = [], []
    for _ in range(sizes.starts):
        begun = time.monotonic()
        agent = node.start_agent()
        waited(lambda: node.offered() == CARDS * SPLIT, "the node does not offer the cards")
        starts.append(time.monotonic() - begun)
        used.append(cpu_seconds(psutil.Process(agent.process.pid)))
        agent.end()
        waited(lambda: node.offered() == 0, "the node still offers the cards")
    report.at_most("process start until the node's allocatable has the cards, best", min(starts), "s", 2.0)
    report.add("  median", statistics.median(starts), "s")
    report.add("  CPU time of the agent until then, best", min(used), "s")
    plain, shared, answered, own = [], [], [], []
    with node.agent() as agent:
        agent.slow(SLOWED)
        for _ in range(sizes.rounds):
            plain.append(_until_running(node, sizes.at_once, 0))
            before = len(agent.requests())
            shared.append(_until_running(node, sizes.at_once, 1, agent))
            answered.append(agent.answers("given")[-1][0] - agent.answers("asked")[-sizes.at_once][0])
            own.append(_own_seconds(agent, sizes.at_once))
            asked = [line.split(" ")[0] for line in agent.requests()[before:]]
    shown = f"{sizes.at_once} pods bound at once"
    slowed = f"Allocate slowed by {SLOWED * 1000:.0f} ms"
    report.add(f"{shown} without GPUs: until all run", min(plain), "s")
    report.at_most(f"{shown}, {slowed}: until all run", min(shared), "s", 10.0)
    report.at_most("  relative to those without GPUs", min(shared) / min(plain), "", 1.3)
    report.at_most("  first question until the last answer", min(answered), "s", 4.0)
    report.add("  of which the agent's own time, without the slowing", min(own), "s")
    report.at_most("  patches per pod", asked.count("PATCH") / sizes.at_once, "", 1.0)
    report.at_most("  other requests", len(asked) - asked.count("PATCH"), "", 0)


def _own_seconds(agent: Agent, count: int) -> float:
    """The seconds in which the kubelet waited for the agent's last answers, apart from what they were slowed by."""
    waits = 0.0
    for begin, end in (("wanted", "preferred"), ("asked", "given")):
        pairs = zip(agent.answers(begin)[-count:], agent.answers(end)[-count:], strict=True)
        waits += sum(after - before for (before, _), (after, _) in pairs)
    return waits - count * SLOWED


def _until_running(node: GpuNode, count: int, cards: int, agent: Agent | None = None) -> float:
    """The seconds from the first pod's creation until all run and, with an agent, have been told of; then they go."""

    def one(number: int) -> None:
        node.bind(f"p{number}", container("main", [(number % CARDS, 100 + number, 1)] * cards))

    begun = time.monotonic()
    node.bind_at_once([lambda number=number: one(number) for number in range(count)])  # type: ignore[misc]
    waited(lambda: _phases(node) == ["Running"] * count, "not all pods run")
    took = time.monotonic() - begun
    if agent is not None:
        waited(lambda: all(node.turn(f"p{number}") == "success" for number in range(count)), "turns are not closed")
    node.clear()
    return took


def _phases(node: GpuNode) -> list[str]:
    return [str(one["status"]["phase"]) for one in node.pods().values()]
