"""DevicePlugins: the nodes whose device plugins keep pods waiting, so that they get no new pods with devices."""

from collections.abc import Set as AbstractSet

from tonnage.cluster.rows import Rows


class DevicePlugins:
    """Which nodes get no new pods with devices for the time being; the cluster's user says so."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.silent: frozenset[str] = frozenset()
        """Nodes whose plugin has not answered for too long."""
        self.busy: frozenset[str] = frozenset()
        """Nodes whose plugin answers, but which have kept a pod waiting for too long."""
        self.are_closed = False
        """Whether there are any such nodes."""

    def update(self, silent: AbstractSet[str], busy: AbstractSet[str] = frozenset()) -> bool:
        """Set these nodes; whether that is news."""
        changed = (silent ^ self.silent) | (busy ^ self.busy)
        if not changed:
            return False
        self.silent, self.busy = frozenset(silent), frozenset(busy)
        self.are_closed = bool(silent or busy)
        for name in changed:
            state = self._rows.nodes.get(name)
            if state is not None:
                self._rows.columns.touch(state.row)
        return True
