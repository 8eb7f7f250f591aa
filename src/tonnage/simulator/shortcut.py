"""The shortcut for single pods: placing them one at a time, if the actions would have the same result."""

from collections.abc import Collection, Sequence

from tonnage.actions.catalog import make_actions
from tonnage.config.load import SchedulerConfig
from tonnage.framework.action import Action
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.framework.sessioncache import may_stay_open
from tonnage.simulator.scene import Scene

_SIMPLE = {"enqueue", "allocate", "backfill"}
_ALLOCATE, _PRIORITY = "allocate", "priority"


def actions_of(settings: SchedulerConfig) -> list[Action]:
    """The actions of a cycle."""
    return make_actions(settings.actions)


def acts_on_single_pods(scene: Scene, settings: SchedulerConfig, session: Session) -> bool:
    """Whether only single pods arrive and only their own order counts.

    Then allocate goes through them by priority, age and name. Gangs, queues, pods without requests, and plugins that
    affect any of these need the actions.
    """
    if scene.has_gangs or scene.queues or scene.start.groups or any(pod.node is None for pod in scene.start.pods):
        return False
    if not all(shape.asks_for_something for shape, _ in scene.popular):
        return False
    has_priorities = any(shape.spec.priority for shape, _ in scene.popular)
    return goes_by_pods_alone(settings.plugins, settings.actions, session, has_priorities)


def goes_by_pods_alone(
    plugins: Sequence[Plugin], actions: Collection[str], session: Session, has_priorities: bool
) -> bool:
    """Whether single pods with requests are allocated by priority, age and name, and nothing else happens."""
    if not may_stay_open(session, plugins) or not {_ALLOCATE} <= set(actions) <= _SIMPLE:
        return False
    return not has_priorities or any(plugin.name == _PRIORITY for plugin in plugins)
