"""Viewer: whose pods a caller may see, and whether it may see nodes; everything else is shown as somebody's."""

from dataclasses import dataclass

OTHERS = "another tenant"


@dataclass(frozen=True, slots=True)
class Viewer:
    """The rights of a caller."""

    namespaces: frozenset[str] | None = None
    """The namespaces whose pods it may see; None for all."""
    sees_nodes: bool = True

    @property
    def sees_all(self) -> bool:
        return self.namespaces is None and self.sees_nodes

    def sees(self, key: str) -> bool:
        """Whether the caller may see a pod or job, by namespace and name."""
        return self.namespaces is None or key.partition("/")[0] in self.namespaces

    @property
    def told(self) -> str:
        """What the caller sees, for the head of pages; empty if it is everything."""
        if self.sees_all:
            return ""
        whose = "all namespaces" if self.namespaces is None else f"namespace {', '.join(sorted(self.namespaces))}"
        return whose if self.sees_nodes else f"{whose}, without nodes"


EVERYTHING = Viewer()
