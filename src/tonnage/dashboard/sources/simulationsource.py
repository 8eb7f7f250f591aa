"""SimulationSource: the invented cluster of `tonnage up`, in its virtual time."""

from collections.abc import Callable, Mapping, Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.dashboard.source import ClusterSource
from tonnage.framework.decision import Decision, QueueFigures
from tonnage.framework.plugin import Plugin
from tonnage.simulator.objects import EPOCH
from tonnage.simulator.replay import Replay

MOST_PLACEMENTS = 2000
"""Decisions that are kept until the dashboard has noted them."""
RENEWED = 50
"""Decisions about waiting pods that are made again at each look, because each costs some of the engine's time."""


class SimulationSource(ClusterSource):
    """A replay that somebody drives."""

    is_fast = True

    def __init__(
        self,
        title: str,
        replay: Replay,
        plugins: Sequence[Plugin],
        actions: Sequence[str],
        policy: str,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        self.title, self.policy = title, policy
        self._replay, self._plugins, self._actions, self._advance = replay, plugins, actions, advance
        self._placements: dict[str, Decision] = {}
        self._about: dict[str, tuple[Task, Decision | None]] = {}
        """Decisions about waiting pods, those that were made longest ago first."""
        replay.placer.on_placed = self._placed

    def _placed(self, decision: Decision) -> None:
        self._placements[decision.task.key] = decision
        while len(self._placements) > MOST_PLACEMENTS:
            del self._placements[next(iter(self._placements))]

    @property
    def cluster(self) -> Cluster:
        return self._replay.cluster

    @property
    def plugins(self) -> Sequence[Plugin]:
        return self._plugins

    @property
    def actions(self) -> Sequence[str]:
        return self._actions

    def advance(self) -> None:
        self._advance()
        for key in list(self._about)[:RENEWED]:
            del self._about[key]

    def now(self) -> float:
        return EPOCH.timestamp() + self._replay.now

    @property
    def seen(self) -> float:
        return self.now()

    def decision_of(self, task: Task) -> Decision | None:
        known = self._about.get(task.key)
        if known is None or known[0] is not task:
            known = self._about[task.key] = task, self._replay.placer.about(task)
        return known[1]

    def placement_of(self, key: str) -> Decision | None:
        return self._placements.get(key)

    def figures(self) -> Mapping[str, Mapping[str, QueueFigures]]:
        return {}
