"""KAI's resource type: pods without cards prefer nodes without cards."""

from collections.abc import Hashable

import numpy as np

from tonnage.cluster.columns import UNLIMITED, Array, Nodes
from tonnage.cluster.task import Task
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import UNCONCERNED, Reads
from tonnage.framework.session import Session
from tonnage.plugins.helpers.cardcounts import MIG_RESOURCES, wants_cards

BONUS = 10.0


class ResourceType(Plugin, trusted=True):
    """Prefers nodes without registered cards or card resources, for pods that ask for none."""

    name = "resourcetype"

    def on_session_open(self, session: Session) -> None:
        self._counts = {vendor.count_resource for vendor in session.cluster.vendors}
        session.add_batch_node_order(self._score, key=self._key, reads=Reads.NODE)

    @staticmethod
    def _key(task: Task) -> Hashable:
        return UNCONCERNED if wants_cards(task) else ()

    def _score(self, task: Task, nodes: Nodes) -> Array:
        has_cards = nodes.pick(nodes.columns.vendor_cards).any(axis=0)
        for name, position in nodes.columns.resources.items():
            if name in self._counts or name.startswith(MIG_RESOURCES):
                offered = nodes.allocatable[position]
                has_cards |= (offered > 0) & (offered < UNLIMITED)
        return np.where(has_cards, 0.0, BONUS)
