"""Whenever a scheduler is killed while it stops pods: nobody is stopped in vain, and nobody beyond need."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.actions.eviction.making_room import crowd, job, node
from tests.plugins.queues.teams import team
from tests.properties.worlds import examples, phases
from tests.scheduler.evictions.evicting import Stage
from tonnage.cluster.cluster import Cluster
from tonnage.model.pod import Pod
from tonnage.scheduler.evictions.plans import STAYS, Victim

CYCLE, EVICT, LEAVE, RESTART = "cycle", "evict", "leave", "restart"


class Drama(Stage):
    """A cluster on which one write follows the other, with what was really evicted."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.evicted: dict[str, str] = {}
        """The pods that were evicted, and for which job."""
        self.moved: set[str] = set()
        self.ran: set[str] = set()
        """Jobs that got a place."""

    def due(self) -> list[Victim]:
        """Those whose eviction would be written next."""
        nominations = self.cycle_runner.nominations
        plans = [plan for plan in nominations.plans if nominations.stands(plan)]
        return [
            victim
            for plan in plans
            for victim in plan.victims
            if victim.state == STAYS and nominations.is_running(victim)
        ]

    def step(self, what: str) -> bool:
        """Do one thing; whether there was anything to do."""
        if what == RESTART:
            self.restart()
        elif what == CYCLE:
            placed = self.cycle().placed
            self.ran |= {decision.job.key for decision in placed}
            return bool(placed)
        elif what == EVICT:
            # It is written for whom before anybody is evicted.
            self.nominate()
            for victim in self.due()[:1]:
                self.evicted[victim.task.name] = victim.eviction.for_
                if victim.eviction.to:
                    self.moved.add(victim.task.name)
                self.evict(victim.task.name)
                return True
        else:
            for key in sorted(self.cluster.leaving):
                pod = self.cluster.running[key].pod
                if pod.is_leaving:
                    self.cluster.remove_pod(key)
                    if pod.metadata.name in self.moved:
                        # Somebody makes another one in its place.
                        fresh = replace(pod.metadata, deletionTimestamp=None, uid="another")
                        self.cluster.upsert_pod(Pod(fresh, replace(pod.spec, nodeName=None)))
                    return True
        return False

    def finish(self) -> None:
        """Until nothing is left to do."""
        while any([self.step(CYCLE), self.step(EVICT), self.step(LEAVE)]):
            pass


def scene(cards: list[int], running: list[tuple[int, int, int]], waiting: list[tuple[int, int, int]]) -> Drama:
    """Nodes by their cards; pods that run, as far as they fit, by cards, queue and priority; jobs that wait."""
    left = list(cards)
    jobs = []
    for number, (size, queue, priority) in enumerate(running):
        place = next((n for n, free in enumerate(left) if free >= size), None)
        if place is not None:
            left[place] -= size
            jobs.append(job(f"run{number}", f"q{queue}", size, priority=10 * priority, on=f"n{place}"))
    for number, (size, queue, pods) in enumerate(waiting):
        jobs.append(job(f"wait{number}", f"q{queue}", size, pods=pods, priority=90 - number))
    nodes = [node(f"n{number}", count) for number, count in enumerate(cards)]
    return Drama(crowd(*nodes, team("q0", sum(cards) / 2), team("q1", sum(cards) / 2), *jobs))


TRIPLES = st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(1, 3))


@settings(max_examples=examples(25), deadline=None, phases=phases())
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(TRIPLES, min_size=1, max_size=6),
    st.lists(TRIPLES, min_size=1, max_size=3),
    st.lists(st.sampled_from((CYCLE, EVICT, EVICT, LEAVE, RESTART)), max_size=16),
)
def test_kills_at_any_time_stop_nobody_beyond_need(cards, running, waiting, steps):
    calm, drama = scene(cards, running, waiting), scene(cards, running, waiting)
    for step in steps:
        drama.step(step)
        if step != RESTART:
            calm.step(step)
    calm.finish()
    drama.finish()
    assert set(drama.evicted.values()) <= drama.ran, "somebody was stopped in vain"
    assert len(drama.evicted) <= len(calm.evicted), "more were stopped than without kills"
    assert not drama.cluster.reserved
    assert not drama.cluster.leaving
