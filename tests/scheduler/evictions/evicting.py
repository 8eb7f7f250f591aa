"""Words for scenarios in which pods are stopped on a cluster that goes on: cycles, and the fate of their victims."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tests.config.texts import KAI_DEFAULT, load
from tonnage.actions.catalog import make_actions
from tonnage.cluster.cluster import Cluster
from tonnage.framework.decision import Eviction
from tonnage.framework.plugin import Plugin
from tonnage.scheduler.cyclerunner import CycleOutcome, CycleRunner
from tonnage.scheduler.evictions.plans import LEAVES, EvictionPlan, Victim

ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")


class Stage:
    """A cluster with KAI's plugins, or others. Nothing is written unless a test says so."""

    def __init__(self, cluster: Cluster, *actions: str, plugins: Callable[[], Sequence[Plugin]] | None = None) -> None:
        self.cluster = cluster
        self._plugins = plugins or (lambda: load(KAI_DEFAULT).plugins)
        self.actions = actions or ACTIONS
        self.evictions: list[Eviction] = []
        """All that were ever decided, also before a restart."""
        self.plans: list[EvictionPlan] = []
        self.restart()

    def restart(self) -> None:
        """A new process knows only what the API server knows."""
        for key in [*self.cluster.reserved]:
            self.cluster.release(key)
        for key in [*self.cluster.leaving]:
            if not self.cluster.running[key].pod.is_leaving:
                self.cluster.restore(key)
        self.cycle_runner = CycleRunner(self.cluster, self._plugins(), make_actions(self.actions))

    def cycle(self, *passed_over: str, now: float = 0.0) -> CycleOutcome:
        """A cycle; who got a place runs from then on."""
        done = self.cycle_runner.run({f"default/{name}" for name in passed_over}, now)
        self.plans += done.plans
        self.evictions += [victim.eviction for plan in done.plans for victim in plan.victims]
        for decision in done.placed:
            pod = decision.task.pod
            self.cluster.upsert_pod(replace(pod, spec=replace(pod.spec, nodeName=decision.node)))
        self.cluster.now = None
        return done

    @property
    def stopped(self) -> list[str]:
        """All pods that had to go, in the order of decisions."""
        return [eviction.pod.partition("/")[2] for eviction in self.evictions]

    @property
    def promised(self) -> dict[str, str | None]:
        """The places that are kept."""
        return {d.task.name: d.node for _, d in self.cycle_runner.nominations.nominated()}

    @property
    def places(self) -> dict[str, str]:
        """The nodes of pods that run."""
        return {task.name: self.cluster.holders[key] for key, task in self.cluster.running.items()}

    def victim(self, name: str) -> Victim:
        return next(v for plan in self.plans for v in plan.victims if v.task.name == name)

    def evict(self, *names: str) -> None:
        """The API server has let victims go; they are still there, for as long as they need to end."""
        for name in names:
            self.victim(name).state = LEAVES
            self.end(name)

    def end(self, name: str) -> None:
        """A pod is being deleted."""
        pod = self.cluster.running[f"default/{name}"].pod
        leaving = replace(pod.metadata, deletionTimestamp="2026-01-01T00:00:00Z")
        self.cluster.upsert_pod(replace(pod, metadata=leaving))

    def nominate(self) -> None:
        """Pods say which node is made free for them."""
        for _, decision in self.cycle_runner.nominations.nominated():
            pod = decision.task.pod
            self.cluster.upsert_pod(replace(pod, status=replace(pod.status, nominatedNodeName=decision.node)))

    def leave(self, *names: str) -> None:
        for name in names:
            self.cluster.remove_pod(f"default/{name}")


def names(cycle: CycleOutcome) -> dict[str, str | None]:
    """The nodes of pods that a cycle placed."""
    return {decision.task.name: decision.node for decision in cycle.placed}
