"""Whether pods may be placed one at a time, with the same result as the actions of a configuration would have."""

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
    """Whether nothing but pods that stand alone comes, and nothing but their own order counts.

    Then allocating goes through them by priority, age and name. Gangs, queues, pods that ask for nothing, and plugins
    with an opinion about any of these are for the actions.
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
    """Whether pods that stand alone and ask for something are allocated by priority, age and name, and that is all."""
    if not may_stay_open(session, plugins) or not {_ALLOCATE} <= set(actions) <= _SIMPLE:
        return False
    return not has_priorities or any(plugin.name == _PRIORITY for plugin in plugins)
