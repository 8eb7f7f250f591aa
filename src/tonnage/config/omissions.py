"""Omissions in a configuration: rules about jobs that most authors expect, and that it leaves out."""

from collections.abc import Collection, Sequence

from tonnage.config.notes import Notes, Position
from tonnage.framework.plugin import Plugin
from tonnage.framework.points import JOB_READY
from tonnage.plugins.catalog import BUILT_IN

_PRIORITY, _GANG = "priority", "gang"
_STOPPING = ("preempt", "reclaim")


def warn_of_unordered_jobs(orders: Collection[str], tiers: Position, notes: Notes) -> None:
    """Warn if none of the plugins that order jobs does so by priority; a third party's may."""
    if not any(name == _PRIORITY or name not in BUILT_IN for name in orders):
        notes.warn(
            tiers,
            "no plugin orders jobs by priority, so that an older pod is placed before a more important one; name "
            "priority too (except for the extender, where kube-scheduler orders pods)",
        )


def warn_of_broken_gangs(
    plugins: Sequence[tuple[Plugin, Position]], actions: Collection[str], tiers: Position, notes: Notes
) -> None:
    """Warn if gangs may start in parts, or be stopped by an action."""
    gang = next(((plugin, position) for plugin, position in plugins if plugin.name == _GANG), None)
    stopping = [action for action in _STOPPING if action in actions]
    if gang is not None and JOB_READY.name in gang[0].options.switched_off:
        notes.warn(gang[1], "gangs are not kept whole: with enableJobReady: false their pods start one by one")
    elif gang is None and stopping:
        notes.warn(
            tiers,
            f"gang is not named: gangs start whole all the same, but {' and '.join(stopping)} may stop a running one, "
            "as in KAI; name gang if gangs are to keep their minimum",
        )
