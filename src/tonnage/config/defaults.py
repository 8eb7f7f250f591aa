"""The default configuration, and the policy flags that override any configuration."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tonnage.config.compat import ALLOCATE
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import GPU_ORDER
from tonnage.plugins.catalog import CARD_ORDERS, NODE_SCORERS
from tonnage.plugins.defaults import default_plugins
from tonnage.plugins.gpus.gpupolicy import GpuPolicy
from tonnage.plugins.scoring.nodepolicy import NodePolicy

DEFAULT_ACTIONS = (ALLOCATE,)
_COMMENT = "# What Tonnage uses when no configuration is given: HAMi's rules and policies.\n"


def written_document(plugins: Sequence[Plugin], actions: Sequence[str]) -> dict[str, Any]:
    """Plugins and actions as the document that one would write."""
    written = []
    for plugin in plugins:
        arguments = plugin.written_arguments()
        written.append({"name": plugin.name} | ({"arguments": arguments} if arguments else {}))
    return {"actions": ", ".join(actions), "tiers": [{"plugins": written}]}


def written_text(plugins: Sequence[Plugin], actions: Sequence[str]) -> str:
    """The same as YAML."""
    # Imported here: who schedules by the defaults seldom asks for them in writing.
    import yaml

    return yaml.safe_dump(written_document(plugins, actions), sort_keys=False)


def default_document() -> dict[str, Any]:
    """The default configuration as a document."""
    return written_document(default_plugins(), DEFAULT_ACTIONS)


def default_text() -> str:
    """The default configuration as YAML."""
    return _COMMENT + written_text(default_plugins(), DEFAULT_ACTIONS)


def with_flags(
    plugins: Sequence[Plugin], node_policy: str | None, gpu_policy: str | None, numa_order: str | None
) -> list[Plugin]:
    """The plugins with the policies that flags give; a flag overrides the file."""
    flags = {NodePolicy: {"policy": node_policy}, GpuPolicy: {"policy": gpu_policy, "numa_order": numa_order}}
    result = list(plugins)
    for kind, given in flags.items():
        changes = {name: value for name, value in given.items() if value is not None}
        if not changes:
            continue
        place = next((i for i, plugin in enumerate(result) if isinstance(plugin, kind)), None)
        now = kind.Arguments() if place is None else result[place].args
        changed = kind(msgspec.structs.replace(now, **changes))
        if place is None:
            if kind.name in CARD_ORDERS:
                result = _without_card_orders(result)
            result.append(changed)
        else:
            result[place] = changed
    return result


def _without_card_orders(plugins: Sequence[Plugin]) -> list[Plugin]:
    """The plugins without any order of cards; a plugin that scores nodes too keeps doing that."""
    kept = [plugin for plugin in plugins if plugin.name not in CARD_ORDERS or plugin.name in NODE_SCORERS]
    return [
        plugin.with_options(switched_off=plugin.options.switched_off | {GPU_ORDER.name})
        if plugin.name in CARD_ORDERS
        else plugin
        for plugin in kept
    ]
