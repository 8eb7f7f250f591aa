"""What the tests of searches for victims share."""

import pytest

from tonnage.cluster.cluster import Cluster


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods that searches removed for a while, each time."""
    found: list[str] = []
    evict = Cluster.evict

    def counted(cluster: Cluster, key: str) -> bool:
        found.append(key)
        return evict(cluster, key)

    monkeypatch.setattr(Cluster, "evict", counted)
    return found
