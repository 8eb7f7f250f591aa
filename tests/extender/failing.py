"""A plugin that fails."""

from tonnage.framework.plugin import Plugin


class Breaks(Plugin):
    """A plugin of a user that fails about every node."""

    name = "breaks"

    def on_session_open(self, session):
        session.add_node_order(lambda task, node: 1 / 0)
