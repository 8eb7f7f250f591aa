"""The run of both tenants on one server: the honest one alone, then the same beside the adversary, and the verdict."""

import sys
from collections.abc import Callable
from typing import NamedTuple

from tests.e2e.extending import Command
from tests.tenants.adversary import Adversary, Plan, Tally
from tests.tenants.ground import Ground, Scene, cleared, ground
from tests.tenants.honest import PATIENCE, Honest, sequence
from tests.tenants.ledger import HONEST, HOSTILE
from tonnage.lab.api import Api, pods_path

MARGIN = 1.0
"""Seconds that an honest pod may wait longer beside the adversary than the slowest did alone."""
MEMORY = 300.0
"""MB of resident memory that a server may take."""


class Settings(NamedTuple):
    """What a run is to be like."""

    server: str
    operations: int = 2000
    seed: int = 1
    nodes: int = 6
    jobs: int = 40
    """How many jobs the honest tenant's sequence has."""
    margin: float = MARGIN


class Side(NamedTuple):
    """What was seen of one of the two runs."""

    waits: dict[str, float]
    memory: float
    health: float
    plugins: float
    """How long the simulated device plugins took on the average, which is none of the server's doing."""
    wrong: list[str]
    limits: list[str]

    @property
    def slowest(self) -> float:
        return max(self.waits.values(), default=0.0)


class Outcome(NamedTuple):
    """What a run came to."""

    settings: Settings
    alone: Side
    beside: Side
    tally: Tally
    wrong: list[str]


def run(settings: Settings, tell: Callable[[str], None]) -> Outcome:
    """Both runs on one ground."""
    with ground(settings.server, settings.nodes) as (made, command):
        honest = Api(*made.tenant(HONEST))
        access = made.tenant(HOSTILE)
        made.restrict(HOSTILE)
        tell(f"{settings.server}: the honest tenant alone")
        alone, _ = _play(settings, made, command, honest, None, tell)
        cleared(made, HONEST)
        tell(f"{settings.server}: the same beside the adversary")
        plan = Plan(
            access, settings.seed, settings.operations, made.scheduler_name, made.names, [*made.queues, "missing"]
        )
        beside, tally = _play(settings, made, command, honest, plan, tell)
        assert tally is not None
        honest.close()
    return Outcome(settings, alone, beside, tally, verdict(settings, alone, beside, tally))


def _play(
    settings: Settings,
    made: Ground,
    command: Command,
    api: Api,
    plan: Plan | None,
    tell: Callable[[str], None],
) -> tuple[Side, Tally | None]:
    errors = 0
    scene = Scene(made, command)
    adversary = Adversary(plan) if plan else None
    tally = None
    try:
        errors = len(scene.vigil.internal_errors())
        jobs = sequence(settings.seed, settings.jobs, has_gangs=bool(made.queues))
        honest = Honest(api, scene.ledger, made.scheduler_name, jobs)
        honest.play()
        while adversary is not None and not adversary.has_done_its_part:
            tell(f"{settings.server}: the adversary is not through; the sequence is played again")
            honest.play()
        honest.started()
        if adversary is not None:
            tally = adversary.stop()
            tell(f"{settings.server}: {tally.done.total()} operations in {tally.seconds:.0f} s")
        wrong = [f"{name} has no node after {PATIENCE:.0f} s: {_said(made, name)}" for name in scene.ledger.unbound()]
        honest.leave()
    finally:
        if adversary is not None:
            adversary.kill()
        scene.stop()
    raised = scene.vigil.internal_errors()[errors:]
    wrong += [*scene.ledger.wrong, *scene.vigil.failures, *(f"internal error: {one}" for one in raised)]
    if wrong:
        print(f"the end of the server's log:\n{command.log.read_text(errors='replace')[-20000:]}", file=sys.stderr)
    answered = scene.kubelets.answered
    plugins = sum(answered) / max(1, len(answered))
    side = Side(scene.ledger.waits(), scene.vigil.memory, scene.vigil.slowest, plugins, wrong, scene.ledger.limits)
    return side, tally


def _said(made: Ground, name: str) -> str:
    """Why a pod waits."""
    conditions = made.api.get(f"{pods_path(HONEST)}/{name}")["status"].get("conditions", ())
    return " ".join(f"{one.get('reason')}: {one.get('message')}" for one in conditions)


def verdict(settings: Settings, alone: Side, beside: Side, tally: Tally) -> list[str]:
    """Everything that must not be."""
    wrong = [*(f"alone: {one}" for one in alone.wrong), *beside.wrong]
    late = {name: wait for name, wait in beside.waits.items() if wait > alone.slowest + settings.margin}
    if late:
        slowest = max(late, key=lambda name: late[name])
        wrong.append(
            f"{len(late)} honest pods waited more than {settings.margin:g} s longer than the slowest without the "
            f"adversary ({alone.slowest:.2f} s); {slowest} waited {late[slowest]:.2f} s"
        )
    if beside.memory > MEMORY:
        wrong.append(f"the server took {beside.memory:.0f} MB of memory; {MEMORY:.0f} are allowed")
    if tally.done.total() < settings.operations:
        wrong.append(f"only {tally.done.total()} of {settings.operations} operations were done")
    return wrong


def table(outcome: Outcome) -> str:
    """What was done and what came of it."""
    tally, alone, beside = outcome.tally, outcome.alone, outcome.beside
    lines = [f"{outcome.settings.server}", "  times refused  operation"]
    lines += [f"{count:7} {tally.refused[kind]:7}  {kind}" for kind, count in sorted(tally.done.items())]
    lines.append(f"{tally.done.total():7} {tally.refused.total():7}  together, in {tally.seconds:.0f} s")
    lines.append("                        without  with the adversary")
    for title, one, other in (
        ("honest pods bound", len(alone.waits), len(beside.waits)),
        ("slowest wait, s", alone.slowest, beside.slowest),
        ("median wait, s", _median(alone), _median(beside)),
        ("mean Allocate, s", alone.plugins, beside.plugins),
        ("slowest /healthz, s", alone.health, beside.health),
        ("most memory, MB", alone.memory, beside.memory),
    ):
        shown = (f"{one:9}", f"{other:9}") if isinstance(one, int) else (f"{one:9.2f}", f"{other:9.2f}")
        lines.append(f"  {title:20} {shown[0]} {shown[1]}")
    lines.append(f"  {len(beside.limits)} times a pod that its tenant put on a node took another's turn at a plugin")
    lines.append(f"  {len(outcome.wrong)} findings")
    return "\n".join(lines)


def _median(side: Side) -> float:
    waits = sorted(side.waits.values())
    return waits[len(waits) // 2] if waits else 0.0
