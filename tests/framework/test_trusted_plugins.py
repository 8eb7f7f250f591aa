"""Which plugins' answers are used unchecked, and whose session may stay open between cycles."""

import pytest

from tests.scenario import node, scenario
from tonnage.framework.plugin import Plugin
from tonnage.framework.sessioncache import SessionCache
from tonnage.plugins.catalog import BUILT_IN, plugin_class
from tonnage.plugins.scoring.nodepolicy import NodePolicy


class OfSomebody(Plugin):
    """A plugin that says nothing about itself."""

    name = "of-somebody"

    def on_session_open(self, session):
        session.add_node_order(lambda task, node: 0.0)


class Derived(NodePolicy):
    """A built-in plugin as somebody changed it."""

    name = "derived"


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_plugins_are_trusted(name):
    kind = plugin_class(name)
    assert kind is not None
    assert kind.trusted


@pytest.mark.parametrize("kind", [OfSomebody, Derived])
def test_plugins_of_others_are_not_unless_they_say_so(kind):
    assert not kind.trusted


@pytest.mark.parametrize(("plugins", "stays"), [([NodePolicy()], True), ([NodePolicy(), OfSomebody()], False)])
def test_a_session_stays_open_if_all_of_its_plugins_are_trusted(plugins, stays):
    cluster = scenario(node("a"))
    sessions = SessionCache(cluster, plugins)
    first = sessions.open()
    sessions.done(first)
    second = sessions.open()
    assert (first is second) is stays
    sessions.done(second)
    sessions.close()
