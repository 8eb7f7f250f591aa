"""A plugin that answers as the test says."""

from tonnage.framework.plugin import Plugin, PluginOptions


class Says(Plugin):
    """Registers functions by the names of the methods that take them."""

    name = "says"

    def __init__(self, name="says", tier=1, **functions):
        super().__init__()
        self.name, self.options, self.functions = name, PluginOptions(tier=tier), functions

    def on_session_open(self, session):
        for method, function in self.functions.items():
            getattr(session, method)(function)
