"""Plugins that know a workload: typical pods from their arguments or a file, or learned from the cluster's pods."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tonnage.cluster.cluster import Cluster
from tonnage.framework.plugin import ArgumentError, Plugin, PluginArguments
from tonnage.plugins.fragmentation._learnedpods import HALF_LIFE_DAYS, LearnedPods
from tonnage.plugins.fragmentation.typicalpods import COVERED, TypicalPods, WrittenPod, workload_of, written_in_file

_FILE = "workload_file"


class WorkloadPlugin(Plugin):
    """A plugin whose arguments are the typical pods."""

    class Arguments(PluginArguments):
        """The typical pods, or how they are learned from the cluster's pods if none are given."""

        workload: tuple[WrittenPod, ...] = ()
        half_life_days: float = HALF_LIFE_DAYS

        def __post_init__(self) -> None:
            if not 0 < self.half_life_days < float("inf"):
                raise ValueError(f"half_life_days: {self.half_life_days} is not a number of days above 0")

    file_arguments = frozenset((_FILE,))
    covered: ClassVar[float] = COVERED
    """The part of all pods that typical pods cover when they are learned, or read from a trace."""

    @classmethod
    def read_arguments(cls, given: Mapping[str, Any], warn: Callable[[str, str], None]) -> PluginArguments:
        """The arguments; typical pods from a file replace the list."""
        content = given.get(_FILE)
        if content is None:
            return super().read_arguments(given, warn)
        if "workload" in given:
            raise ArgumentError(_FILE, "is given beside workload; keep one of them")
        others = {name: value for name, value in given.items() if name != _FILE}
        return super().read_arguments(others | {"workload": written_in_file(_FILE, content, cls.covered)}, warn)

    def workload_in(self, cluster: Cluster) -> Callable[[], TypicalPods]:
        """A function that returns the typical pods of a cluster as known at the time of the call."""
        learned = self.learned_in(cluster)
        if learned is not None:
            return learned.current
        given = workload_of(self.args.workload)
        return lambda: given

    def learned_in(self, cluster: Cluster) -> LearnedPods | None:
        """The learner of a cluster's typical pods; nothing if they are given."""
        return None if self.args.workload else LearnedPods(cluster, self.args.half_life_days, self.covered)
