"""PodGroups and Queues that are there and cannot be read: the pods that name them are told what is wrong."""

from collections.abc import Callable, Mapping, Sequence

from tonnage.framework.decision import Decision
from tonnage.kube.informer import ClusterInformer
from tonnage.kube.kinds import POD_GROUPS, QUEUES, WatchedKind
from tonnage.kube.resource import Change
from tonnage.model.problem import Problem


class Unreadable:
    """Finds the problem with what a pod names."""

    def __init__(self, problems: Mapping[str, Problem], look_again: Callable[[], None]) -> None:
        self._problems = problems
        """Objects that cannot be read, by kind and name."""
        self._look_again = look_again
        self._seen: dict[str, Problem] = {}

    def listen(self, informer: ClusterInformer) -> None:
        """See every change of PodGroups and Queues."""
        informer.add_listener((*POD_GROUPS, *QUEUES), self.seen)

    def about(self, decision: Decision) -> str:
        """Why a PodGroup or Queue is not known that is missing to a pod; empty if it is not there either."""
        reason = decision.rejected[0].reason if decision.rejected else ""
        if reason == "GroupNotFound":
            names = [f"{kind.resource.name}/{decision.job.key}" for kind in POD_GROUPS]
        elif reason == "QueueNotFound":
            names = [f"{kind.resource.name}/{decision.job.queue}" for kind in QUEUES]
        else:
            return ""
        return next((str(self._problems[name]) for name in names if name in self._problems), "")

    def seen(self, kind: WatchedKind, changes: Sequence[Change]) -> None:
        """Let pods be told anew when another thing is wrong with what they may have named."""
        for change in changes:
            name = f"{kind.resource.name}/{change.key}"
            if change.problem is None:
                self._seen.pop(name, None)
            elif self._seen.get(name) != change.problem:
                self._seen[name] = change.problem
                self._look_again()
