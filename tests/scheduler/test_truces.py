"""Two queues whose rules let each take from the other: nobody is stopped in turn."""

from tests.groups import add, group, members, queue
from tests.plugins.eviction import Anything
from tests.scenario import node, scenario
from tests.scheduler.evictions.evicting import Stage
from tonnage.framework.plugin import Plugin
from tonnage.plugins.defaults import default_plugins


def plugins() -> list[Plugin]:
    return [*default_plugins(), Anything()]


def test_a_job_that_was_stopped_for_another_one_does_not_have_that_one_stopped() -> None:
    cluster = scenario(node("a", cpu="2"), *members("old", 2, cpu="1", on="a"), *members("new", 2, cpu="1"))
    add(cluster, queue("q"), queue("r"), group("old", 2, queue="q"), group("new", 2, queue="r"))
    stage = Stage(cluster, "allocate", "reclaim", plugins=plugins)
    for cycle in range(10):
        stage.cycle(now=1_800_000_000.0 + cycle)
        for name in [name for name in stage.stopped if f"default/{name}" in cluster.running]:
            if stage.victim(name).state != "spared" and f"default/{name}" in cluster.leaving:
                stage.evict(name)
                stage.leave(name)
                (again,) = [one for one in members(name.partition("-")[0], 2, cpu="1") if one.metadata.name == name]
                cluster.upsert_pod(again)
    assert sorted(stage.stopped) == ["old-0", "old-1"]
    assert set(stage.places) == {"new-0", "new-1"}
