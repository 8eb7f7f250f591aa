"""PodGroups and Queues that are there and cannot be read: the pods that name them are told what is wrong."""

from collections.abc import Callable, Mapping, Sequence

from tonnage.framework.decision import Decision
from tonnage.kube.kinds import WatchedKind, watched_as
from tonnage.kube.resource import Change
from tonnage.model.kinds import Role
from tonnage.model.problem import Problem

_GROUPS = tuple(kind.resource.name for kind in watched_as(Role.POD_GROUP))
_QUEUES = tuple(kind.resource.name for kind in watched_as(Role.QUEUE))


class Unreadable:
    """Finds the problem with what a pod names."""

    def __init__(self, problems: Mapping[str, Problem], look_again: Callable[[], None]) -> None:
        self._problems = problems
        """Objects that cannot be read, by kind and name."""
        self._look_again = look_again
        self._seen: dict[str, Problem] = {}

    def about(self, decision: Decision) -> str:
        """Why a PodGroup or Queue is not known that is missing to a pod; empty if it is not there either."""
        reason = decision.rejected[0].reason if decision.rejected else ""
        if reason == "GroupNotFound":
            names = [f"{kind}/{decision.job.key}" for kind in _GROUPS]
        elif reason == "QueueNotFound":
            names = [f"{kind}/{decision.job.queue}" for kind in _QUEUES]
        else:
            return ""
        return next((str(self._problems[name]) for name in names if name in self._problems), "")

    def seen(self, kind: WatchedKind, changes: Sequence[Change]) -> None:
        """Let pods be told anew when another thing is wrong with what they may have named."""
        if kind.resource.name not in _GROUPS + _QUEUES:
            return
        for change in changes:
            name = f"{kind.resource.name}/{change.key}"
            if change.problem is None:
                self._seen.pop(name, None)
            elif self._seen.get(name) != change.problem:
                self._seen[name] = change.problem
                self._look_again()
