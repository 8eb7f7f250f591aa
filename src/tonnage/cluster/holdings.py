"""The holdings of all pods, counted in the rows of their nodes and in the quotas of their namespaces.

A pod holds something from its reservation until it is gone. Holdings on a node that is not known yet are orphans: only
quotas count them until the node comes. While the cluster looks ahead, holdings of leaving pods count nowhere.
"""

from collections.abc import Iterator, Mapping, Sequence

from tonnage.cluster.holding import Holding, VendorUse
from tonnage.cluster.implicitdevices import assign, displace, drop_stale, drop_unneeded, release, resolved_uses
from tonnage.cluster.nodestate import NodeState
from tonnage.cluster.quotas import Quotas
from tonnage.cluster.rows import Rows
from tonnage.cluster.volumereservations import VolumeReservations
from tonnage.model.problem import Problem, annotation_field


class Holdings:
    """What each pod holds, by its namespace and name."""

    def __init__(self, rows: Rows, quotas: Quotas) -> None:
        self._rows = rows
        self._nodes = rows.nodes
        self._columns = rows.columns
        self._quotas = quotas
        self.holders: dict[str, str] = {}
        """The node of each pod that holds something."""
        self.since: dict[str, int] = {}
        """The order in which it became known of the pods that they hold their cards: later ones have larger numbers."""
        self._last = 0
        """The largest of these numbers so far."""
        self.leaving: set[str] = set()
        """Pods that are being deleted or evicted: they hold what they held until they are gone."""
        self.is_ahead = False
        """Whether the columns show the cluster as it will be once the leaving pods are gone."""
        self._orphans: dict[str, dict[str, Holding]] = {}
        """Holdings on nodes that are not known, by node and pod."""
        self.volumes = VolumeReservations()

    def get(self, key: str) -> Holding | None:
        """What a pod holds, on a known node or not."""
        node = self.holders.get(key)
        if node is None:
            return None
        state = self._nodes.get(node)
        return (state.holdings if state is not None else self._orphans[node]).get(key)

    def counts(self, key: str) -> bool:
        """Whether the columns and quotas count what a pod holds."""
        return not (self.is_ahead and key in self.leaving)

    # -- pods

    def reserve(self, key: str, holding: Holding) -> None:
        """Hold a decided placement, which names all its cards, for a pod that holds nothing."""
        self.holders[key] = holding.node
        self.since[key] = self._next()
        if holding.volumes:
            self.volumes.put(key, holding)
        counts = not (self.is_ahead and key in self.leaving)
        if counts:
            self._quotas.hold(key, holding.vendors)
        state = self._nodes.get(holding.node)
        if state is None:
            self._orphans.setdefault(holding.node, {})[key] = holding
            return
        state.holdings[key] = holding
        if counts:
            self._rows.apply(state, holding, holding.vendors, 1)

    def replace(self, key: str, holding: Holding) -> None:
        """Read what a running pod holds now; it keeps a card that it has without naming it."""
        held = self.get(key)
        if held == holding:
            return
        before: list[str] = []
        stays = held is not None and held.node == holding.node and holding.cards <= held.cards
        since = self.since[key] if stays else self._next()
        if held is not None and held.node == holding.node:
            state = self._nodes.get(held.node)
            if state is None:
                self._orphans[held.node][key] = holding
                self.since[key] = since
                self.volumes.put(key, holding)
                self._count_quota(key, holding.vendors)
                return
            before = [card.uuid for use in state.uses(key) for card in use.cards]
        left = self.drop(key, fill_up=False)
        self.holders[key], self.since[key] = holding.node, since
        self.volumes.put(key, holding)
        state = self._nodes.get(holding.node)
        if state is None:
            self._orphans.setdefault(holding.node, {})[key] = holding
            self._count_quota(key, holding.vendors)
        else:
            state.holdings[key] = holding
            self._admit(state, key, before)
        if left is not None and left.implicit_uses:
            self._fill_up(left)

    def drop(self, key: str, fill_up: bool = True) -> NodeState | None:
        """Free what a pod holds; the node it was on, if that is known."""
        node = self.holders.pop(key, None)
        if node is None:
            return None
        del self.since[key]
        self._quotas.hold(key, ())
        if self.volumes:
            self.volumes.drop(key)
        state = self._nodes.get(node)
        if state is None:
            orphans = self._orphans[node]
            del orphans[key]
            if not orphans:
                del self._orphans[node]
            return None
        if not (self.is_ahead and key in self.leaving):
            self._rows.apply(state, state.holdings[key], state.uses(key), -1)
        holding = state.holdings.pop(key)
        if state.implicit_uses:
            if state.implicit_uses.pop(key, None) is not None:
                release(state, key, holding)
            if fill_up:
                self._fill_up(state)
        return state

    def _next(self) -> int:
        self._last += 1
        return self._last

    def count_leaving(self, key: str, sign: int) -> None:
        """Count what a leaving pod holds (sign 1), or no longer (sign -1), if the columns look ahead."""
        node = self.holders[key]
        state = self._nodes.get(node)
        if not self.is_ahead:
            if state is not None:
                self._columns.touch(state.row)
            return
        uses = self._orphans[node][key].vendors if state is None else state.uses(key)
        if state is not None:
            self._rows.apply(state, state.holdings[key], uses, sign)
        self._quotas.hold(key, uses if sign > 0 else ())

    def _count_quota(self, key: str, uses: Sequence[VendorUse]) -> None:
        if self.counts(key):
            self._quotas.hold(key, uses)

    # -- nodes

    def add_resources(self, positions: Sequence[int]) -> None:
        """Count resources that no node offered before for the pods that hold some of them already."""
        for position in positions:
            for state in self._nodes.values():
                for key, holding in state.holdings.items():
                    if self.counts(key):
                        change = self._rows.change_by(holding)[:, position]
                        self._columns.amounts[:, position, state.row] += change

    def add_node(self, state: NodeState) -> None:
        """Admit the pods that came before their node, in the order in which they came."""
        state.holdings = self._orphans.pop(state.name, {})
        for key in state.holdings:
            self._admit(state, key)

    def recount(self, state: NodeState) -> None:
        """Count the pods of a node whose row was rewritten."""
        drop_stale(state)
        for key, holding in state.holdings.items():
            if self.counts(key):
                self._rows.apply(state, holding, () if key in state.implicit_uses else holding.vendors, 1)
        for key in state.implicit_uses:
            self._assign(state, key)

    def remove_node(self, state: NodeState) -> None:
        """Keep the holdings of a node's pods as orphans until the pods go or the node comes back."""
        for key in state.implicit_uses:
            self._count_quota(key, state.holdings[key].vendors)
        if state.holdings:
            self._orphans[state.name] = state.holdings

    # -- implicit devices

    def _admit(self, state: NodeState, key: str, before: Sequence[str] = ()) -> None:
        """Count a pod that has come to a node, and assign cards where it names none."""
        holding = state.holdings[key]
        moving = displace(state, holding) if state.assigned else []
        for other in moving:
            self._apply_implicit(state, other, -1)
        if holding.has_implicit_devices:
            assign(state, self._columns, key, holding, before)
            state.implicit_uses[key] = resolved_uses(state, key, holding)
        uses = state.uses(key)
        if self.counts(key):
            self._rows.apply(state, holding, uses, 1)
            self._quotas.hold(key, uses)
        for other in moving:
            self._assign(state, other)
        if holding.names_group_cards:
            self._fill_up(state)

    def _assign(self, state: NodeState, key: str) -> None:
        """Assign cards to a pod that does not name them, where it has none yet, and count them."""
        holding = state.holdings[key]
        assign(state, self._columns, key, holding)
        state.implicit_uses[key] = resolved_uses(state, key, holding)
        self._apply_implicit(state, key, 1)
        self._count_quota(key, state.implicit_uses[key])

    def _apply_implicit(self, state: NodeState, key: str, sign: int) -> None:
        if self.counts(key):
            self._rows.apply_cards(state, state.implicit_uses[key], sign)

    def _fill_up(self, state: NodeState) -> None:
        """Assign free cards to pods of a node that hold some for which there was no room.

        Not while looking ahead: cards that look free then may belong to pods that have not left yet.
        """
        for key, uses in state.implicit_uses.items():
            if not self.is_ahead and any(use.unknown for use in uses):
                self._apply_implicit(state, key, -1)
                self._assign(state, key)

    def copy_assignments(self, other: "Holdings") -> None:
        """Assign to pods that do not name their cards the ones that another state of the same cluster assigned."""
        for name in self._nodes.keys() & other._nodes.keys():
            state = self._nodes[name]
            for key in state.implicit_uses:
                self._apply_implicit(state, key, -1)
            state.assigned = dict(other._nodes[name].assigned)
            drop_stale(state)
            for key in state.implicit_uses:
                self._assign(state, key)

    # -- all at once

    def all(self) -> dict[str, Holding]:
        """What every pod holds, on a known node or not."""
        parts = [*self._orphans.values(), *(state.holdings for state in self._nodes.values())]
        return {key: holding for part in parts for key, holding in part.items()}

    def rebuild(self, held: Mapping[str, Holding]) -> None:
        """Count what every pod holds in rows without pods; whoever has a card without naming it keeps it."""
        known, self.since = self.since, {}
        self.holders.clear()
        self._orphans.clear()
        self.volumes.clear()
        self._quotas.forget_usage()
        for state in self._nodes.values():
            state.holdings, state.implicit_uses = {}, {}
        for key, holding in held.items():
            self.holders[key] = holding.node
            self.since[key] = known.get(key) or self._next()
            there = self._nodes.get(holding.node)
            holdings = there.holdings if there is not None else self._orphans.setdefault(holding.node, {})
            holdings[key] = holding
            self.volumes.put(key, holding)
            if there is not None and holding.has_implicit_devices:
                there.implicit_uses[key] = ()
            else:
                self._count_quota(key, holding.vendors)
        for state in self._nodes.values():
            drop_unneeded(state)
            for holding in state.holdings.values():
                displace(state, holding)
            self.recount(state)

    # -- problems

    def problems(self, key: str, *, is_readable: bool) -> Iterator[Problem]:
        """What is wrong with what a pod holds; cards it does not name are no problem if nobody could read which."""
        name, node = f"Pod/{key}", self.holders[key]
        state = self._nodes.get(node)
        if state is None:
            message = f"node {node} is not known; the pod counts nowhere"
            yield Problem(name, "spec.nodeName", "", "a known node", message)
            return
        for use in state.uses(key):
            vendor = self._rows.vendors[use.vendor]
            if use.unknown and is_readable:
                message = (
                    f"holds {use.unknown} {vendor.count_resource} on {node} without saying which cards; "
                    f"they count against the node's slots, and none of its cards is given out whole"
                )
                yield Problem(name, annotation_field(vendor.allocated), "", "the cards the pod was given", message)
            for card in use.cards:
                if state.position(card.uuid, use.vendor) is None:
                    message = f"node {node} has no {vendor.name} card {card.uuid}; counted against the node's slots"
                    yield Problem(name, annotation_field(vendor.allocated), card.uuid, f"a card of {node}", message)
