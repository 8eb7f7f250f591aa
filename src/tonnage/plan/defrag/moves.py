"""Moves for one waiting job, as a part of its explanation: the greedy search within bounds, and the rules of plans."""

from collections.abc import Sequence
from math import inf

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.task import Task
from tonnage.explain.explain import Explainer
from tonnage.explain.moves import PricedDeparture
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.plan.defrag.goals import Goal, GoalKind
from tonnage.plan.defrag.greedy import Greedy, RoomBounds
from tonnage.plan.defrag.limits import Limits
from tonnage.plan.defrag.prices import Prices
from tonnage.plan.defrag.problem import PlanProblem

MOST_MOVES = 8
_BOUNDS = RoomBounds(nodes=64, pods=MOST_MOVES, tries=64)


class BoundedMoveSearch:
    """Finds few pods to move for one job, as cheaply as possible, whatever they cost."""

    def departures(self, session: Session, job: Job, tasks: Sequence[Task]) -> list[PricedDeparture]:
        """The pods to move; none if the time is not known by which prices go."""
        now = session.cluster.now
        if now is None:
            return []
        goal = Goal(GoalKind.START, jobs=(job.key,))
        problem = PlanProblem(session, goal, Limits(pods=MOST_MOVES), Prices(), now, [(job, tasks)])
        greedy = Greedy(problem, lambda: False, _BOUNDS)
        greedy.start(0, inf)
        charged = set(problem.charged(greedy.moves))
        found: list[PricedDeparture] = []
        for move in greedy.moves:
            pod, pays = problem.pods[move.pod], move.pod in charged
            found.append(PricedDeparture(pod.task.key, pod.loss.gpu_hours if pays else 0.0, pod.gang if pays else ()))
        return found


def make_explainer(cluster: Cluster, plugins: Sequence[Plugin], actions: Sequence[str]) -> Explainer:
    """An explainer that also says which pods to move."""
    return Explainer(cluster, plugins, actions, BoundedMoveSearch())
