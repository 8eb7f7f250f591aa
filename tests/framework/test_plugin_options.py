"""How a configuration uses a plugin: its tier and the extension points it is kept from."""

from tests.scenario import node, scenario
from tonnage.framework.points import BATCH_NODE_ORDER
from tonnage.framework.session import Session
from tonnage.plugins.scoring.nodepolicy import NodePolicy


def points_of(plugin):
    with Session(scenario(node("a")), [plugin]) as session:
        return {point for _, point in session.registered}


def test_a_plugin_with_other_options_leaves_the_first_as_it_was():
    plugin = NodePolicy()
    off = plugin.with_options(switched_off=frozenset((BATCH_NODE_ORDER.name,)))
    assert off.args is plugin.args
    assert BATCH_NODE_ORDER.name in points_of(plugin)
    assert BATCH_NODE_ORDER.name not in points_of(off)


def test_options_that_are_not_changed_stay():
    plugin = NodePolicy().with_options(tier=3).with_options(is_named=True)
    assert (plugin.options.tier, plugin.options.is_named) == (3, True)
