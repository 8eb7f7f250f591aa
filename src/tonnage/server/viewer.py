"""Viewer: what a caller of a server may see; everything else is shown as somebody's, or not at all."""

from dataclasses import dataclass

OTHERS = "another tenant"


@dataclass(frozen=True, slots=True)
class Viewer:
    """The rights of a caller."""

    namespaces: frozenset[str] | None = None
    """The namespaces whose pods it may see; None for all."""
    sees_nodes: bool = True
    sees_queues: bool = True

    @property
    def sees_all(self) -> bool:
        return self.namespaces is None and self.sees_nodes and self.sees_queues

    @property
    def sees_words(self) -> bool:
        """Whether the caller may read sentences of plugins, which may name anybody's pods and nodes."""
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
        unseen = [name for name, is_seen in (("nodes", self.sees_nodes), ("queues", self.sees_queues)) if not is_seen]
        return f"{whose}, without {' and '.join(unseen)}" if unseen else whose


EVERYTHING = Viewer()
