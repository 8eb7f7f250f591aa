"""ClusterSource: what the dashboard looks at, a cluster that somebody else keeps current."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.framework.decision import Decision, QueueFigures
from tonnage.framework.plugin import Plugin


class ClusterSource(ABC):
    """A cluster, the decisions about its pods, and how old the view of it is."""

    title: str
    """What is looked at, in a few words."""
    policy: str = ""
    """The name of what decides; empty if the source does not decide."""
    can_change: bool = True
    """Whether anything may come after the first look."""
    is_fast: bool = False
    """Whether its time runs faster than the clock, so that it is looked at every second even if no page is open."""
    reads_nodes: bool = True
    """Whether nodes may be shown; without the right to list them there are only pods and counts."""

    @property
    @abstractmethod
    def cluster(self) -> Cluster:
        """The cluster; another object if the source had to begin anew."""

    @property
    @abstractmethod
    def plugins(self) -> Sequence[Plugin]:
        """The plugins that decide."""

    @property
    @abstractmethod
    def actions(self) -> Sequence[str]:
        """The names of the actions of a cycle."""

    @abstractmethod
    def advance(self) -> None:
        """Let the cluster become current, in a few milliseconds."""

    @abstractmethod
    def now(self) -> float:
        """The time in the cluster, in seconds since 1970, which ages are relative to."""

    @property
    def trouble(self) -> str:
        """Why the view is not current; empty if it is."""
        return ""

    @property
    @abstractmethod
    def seen(self) -> float:
        """When the view was current last, in seconds since 1970."""

    def decision_of(self, task: Task) -> Decision | None:
        """The latest decision about a waiting pod, if there is one."""
        return None

    def placement_of(self, key: str) -> Decision | None:
        """The decision that placed a pod, if it is still known."""
        return None

    def figures(self) -> Mapping[str, Mapping[str, QueueFigures]]:
        """The shares of queues, if the source keeps any."""
        return {}
