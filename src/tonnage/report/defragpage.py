"""The page of a plan for defragmentation: the cluster before and after, each move, price and gain, who is affected."""

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.columns import MEMORY
from tonnage.cluster.nodestate import NodeState
from tonnage.model.resources import CPU
from tonnage.plan.defrag.record import DefragPlan, PlannedMove
from tonnage.plugins.helpers.podneeds import cpu_of
from tonnage.report.maps import model_maps
from tonnage.report.pages import text
from tonnage.report.render import templates
from tonnage.simulator.studies.results import NodeFrame

_HOUR = 3600.0


def render_plan(plan: DefragPlan, cluster: Cluster) -> str:
    """The page; the cluster is the one that the plan was made for."""
    before = _Frames(cluster)
    maps = [("Before", model_maps("before", before.frames()))]
    for move in plan.moves:
        before.move(move)
    maps.append(("After", model_maps("after", before.frames())))
    return (
        templates()
        .get_template("defrag.html")
        .render(plan=plan, maps=[one for one in maps if one[1]], facts=_facts(plan), lead=_lead(plan), rows=_rows(plan))
    )


class _Frames:
    """The used part of every card and CPU, while pods move."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        columns = cluster.columns
        self._used: dict[str, list[float]] = {}
        self._cpu: dict[str, float] = {}
        for state in cluster.states:
            parts: list[float] = []
            for position in range(len(state.devices)):
                total = columns.card_total[:, position, state.row]
                free = columns.card_free[:, position, state.row]
                kinds = [kind for kind in range(len(total)) if kind and total[kind] > 0] or [0]
                parts.append(max(1.0 - float(free[kind]) / max(float(total[kind]), 1.0) for kind in kinds))
            self._used[state.name] = parts
            offered = float(columns.allocatable[columns.resources[CPU], state.row])
            left = float(columns.free[columns.resources[CPU], state.row])
            self._cpu[state.name] = 1.0 - left / offered if offered else 0.0

    def move(self, move: PlannedMove) -> None:
        """Take a pod from its cards to others."""
        task = self._cluster.running[move.pod]
        for name, devices, sign in ((move.node, move.devices, -1.0), (move.to, move.to_devices, 1.0)):
            state = self._cluster.nodes[name]
            for uuid in devices:
                position = state.positions.get(uuid)
                if position is not None:
                    self._used[name][position] += sign * self._part(move, state, position)
            offered = float(self._cluster.columns.allocatable[self._cluster.columns.resources[CPU], state.row])
            if offered:
                self._cpu[name] += sign * cpu_of(task) / offered

    def _part(self, move: PlannedMove, state: NodeState, position: int) -> float:
        held = self._cluster.held(move.pod)
        memory = max((card.memory for use in held.vendors for card in use.cards), default=0) if held is not None else 0
        total = float(self._cluster.columns.card_total[MEMORY, position, state.row])
        return min(1.0, memory / total) if memory and total else move.gpus / max(len(move.devices), 1)

    def frames(self) -> list[NodeFrame]:
        """The nodes with cards."""
        return [
            NodeFrame(
                state.name,
                state.devices[0].type,
                [min(max(part, 0.0), 1.0) for part in self._used[state.name]],
                min(max(self._cpu[state.name], 0.0), 1.0),
            )
            for state in self._cluster.states
            if state.devices
        ]


def _facts(plan: DefragPlan) -> str:
    return " · ".join(
        (
            f"made at {plan.made_at}",
            f"{text.counted(plan.before.nodes, 'node')} with {text.counted(plan.before.gpus, 'GPU')}",
            f"decided by {plan.decided_by}",
            f"goal {plan.goal}",
        )
    )


def _lead(plan: DefragPlan) -> list[str]:
    horizon = text.duration(plan.horizon_hours * _HOUR)
    if not plan.moves and not plan.starts:
        return [f"No plan pays: no moves within the limits gain more over {horizon} than they cost."]
    one = len(plan.moves) == 1
    said = [
        f"{text.counted(len(plan.moves), 'move')} {'gains' if one else 'gain'} {text.number(plan.gain, 2)} {plan.unit} "
        f"and {'loses' if one else 'lose'} "
        f"{text.number(plan.gpu_hours_lost, 1)} GPU-hours of work.",
        f"That is worth {text.number(plan.value, 1)} over {horizon}, at a price of {text.number(plan.price, 1)}.",
    ]
    if plan.not_before is not None:
        said.append(f"It is not to be carried out before {plan.not_before}; prices are those of that time.")
    if plan.bound is not None and plan.gap is not None:
        said.append(
            "No plan is worth more."
            if plan.gap <= 1e-6
            else f"No plan is worth more than {text.number(plan.bound, 1)}, value minus price; this one is worth "
            f"{text.number(plan.net, 1)}."
        )
    return said


def _rows(plan: DefragPlan) -> list[tuple[str, str, str, str]]:
    before, after = plan.before, plan.after
    return [
        (name, text.number(one, 2), text.number(other, 2), text.signed(other - one, 2))
        for name, one, other in (
            ("free GPUs", before.gpus_free, after.gpus_free),
            ("usable by typical pods", before.gpus_usable, after.gpus_usable),
            ("whole GPUs free", before.gpus_whole, after.gpus_whole),
            ("nodes free", before.nodes_free, after.nodes_free),
        )
    ]
