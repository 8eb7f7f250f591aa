"""Plugins that programs register from Python."""

import pytest

from tonnage.config import finder
from tonnage.config.finder import PluginError, PluginFinder, register_plugin
from tonnage.framework.plugin import Plugin


class Mine(Plugin):
    """Does nothing."""

    name = "mine"

    def on_session_open(self, session):
        pass


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch):
    monkeypatch.setattr(finder, "_registered", {})


def test_a_registered_plugin_is_found_by_its_name():
    register_plugin("mine", Mine)
    assert PluginFinder().find("mine") is Mine
    assert "mine" in PluginFinder().names()
    assert PluginFinder().find("yours") is None


def test_registering_the_same_again_is_no_mistake_but_another_of_that_name_is():
    register_plugin("mine", Mine)
    register_plugin("mine", Mine)
    with pytest.raises(PluginError, match="there is a plugin mine already"):
        register_plugin("mine", type("Other", (Mine,), {}))
    with pytest.raises(PluginError, match="there is a plugin binpack already"):
        register_plugin("binpack", Mine)


def test_only_plugins_can_be_registered():
    with pytest.raises(PluginError, match="is not a plugin"):
        register_plugin("text", str)
