"""The kinds of faults of an agent on a real kubelet: each a function that does harm while pods come and go."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from tests.chaos.agent.run import NodeGround
from tests.chaos.faults import enlisting
from tests.e2e.kubelet.realnode import RESOURCE
from tests.e2e.kubelet.rival import rival

KINDS: dict[str, Callable[[NodeGround], str]] = {}
kind = enlisting(KINDS)

_OPEN = 30.0
"""Seconds to wait for a question of the kubelet."""


def _asked(ground: NodeGround) -> bool:
    """Wait until a question of the kubelet is open, which then stays so for a while."""
    agent = ground.arena.agent
    agent.slow(1.0)
    before, deadline = len(agent.answers("asked")), time.monotonic() + _OPEN
    while len(agent.answers("asked")) == before:
        if time.monotonic() > deadline:
            agent.slow(0.0)
            return False
        time.sleep(0.02)
    return True


@kind("agent killed while Allocate is open")
def killed_while_asked(ground: NodeGround) -> str:
    if not _asked(ground):
        return ""
    ground.arena.kill_agent()
    time.sleep(ground.rng.uniform(0.0, 0.5))
    ground.arena.start_agent()
    return "killed and started again"


@kind("agent killed, started again and killed again")
def killed(ground: NodeGround) -> str:
    for _ in range(2):
        ground.arena.kill_agent()
        time.sleep(ground.rng.uniform(0.0, 1.0))
        ground.arena.start_agent()
        time.sleep(ground.rng.uniform(0.0, 2.0))
    return "killed twice"


@kind("agent replaced by a new one that serves first")
def replaced(ground: NodeGround) -> str:
    ground.arena.replace_agent()
    return "replaced"


@kind("agent paused")
def paused(ground: NodeGround) -> str:
    seconds, process = ground.rng.uniform(0.5, 2.0), ground.arena.agent.process
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGCONT)
    return f"for {seconds:.1f} s"


@kind("kubelet killed and started again")
def kubelet_restarted(ground: NodeGround) -> str:
    ground.arena.restart_kubelet(ground.rng.uniform(0.0, 1.0))
    return "restarted"


@kind("kubelet killed while Allocate is open")
def kubelet_killed_while_asking(ground: NodeGround) -> str:
    if not _asked(ground):
        return ""
    ground.arena.restart_kubelet(0.0)
    ground.arena.agent.slow(0.0)
    return "restarted"


@kind("kubelet and agent killed and started again")
def both_restarted(ground: NodeGround) -> str:
    ground.arena.kill_agent()
    ground.arena.restart_kubelet(0.0)
    ground.arena.start_agent()
    return "restarted"


@kind("the agent's socket removed")
def socket_removed(ground: NodeGround) -> str:
    removed = 0
    for path in ground.arena.node.kubelet.plugins.glob("tonnage-*.sock"):
        with suppress(FileNotFoundError):
            path.unlink()
            removed += 1
    return "removed" if removed else ""


@kind("API server killed and started again")
def api_server_away(ground: NodeGround) -> str:
    seconds = ground.rng.uniform(0.5, 4.0)
    ground.arena.restart_api_server(seconds)
    return f"away for {seconds:.1f} s and its start"


@kind("API server killed while Allocate is open")
def api_server_away_while_asked(ground: NodeGround) -> str:
    if not _asked(ground):
        return ""
    ground.arena.restart_api_server(1.0)
    ground.arena.agent.slow(0.0)
    return "away"


@kind("the agent's clock jumps")
def clock_jumps(ground: NodeGround) -> str:
    seconds = ground.rng.choice((-86400.0, -3600.0, 3600.0, 400 * 86400.0))
    ground.arena.agent.shift_clock(seconds)
    time.sleep(1.0)
    ground.arena.agent.shift_clock(ground.rng.choice((0.0, seconds)))
    return f"by {seconds:.0f} s"


@kind("patches of pods refused or applied and their answers lost")
def patches_fail(ground: NodeGround) -> str:
    kinds = ("409", "500", "429", "503", "504", "lost")
    ground.arena.agent.fail_patches(*(ground.rng.choice(kinds) for _ in range(8)))
    time.sleep(2.0)
    return "eight of them"


@kind("another plugin takes the resource and leaves")
def rivalled(ground: NodeGround) -> str:
    with rival(ground.arena.node.kubelet.plugins, RESOURCE, 3):
        ground.arena.node.until_offered(3)
        time.sleep(ground.rng.uniform(0.0, 1.0))
    return "came and left"
