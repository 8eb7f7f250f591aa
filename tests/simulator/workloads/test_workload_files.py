"""Workload files: what may stand in them, and a message with the place for everything that is wrong."""

import random
import statistics
from itertools import pairwise

import pytest

from tonnage.config.notes import ConfigError
from tonnage.simulator.source import SceneSource, Setting, SettingError
from tonnage.simulator.workloads.drawn import scene_of
from tonnage.simulator.workloads.example import EXAMPLE
from tonnage.simulator.workloads.workload import Span, read_workload

GOOD = """\
nodes:
- {name: a, count: 2, gpus: 4, model: T4, cpu: 8, memory: 16Gi}
arrivals: {mean: 10}
pods:
- {name: p, share: 1, gpus: 1, cpu: 1, memory: 1Gi, duration: {mean: 30}}
"""


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_workload(text, "w.yaml")
    return str(caught.value)


def test_the_example_is_a_workload_of_which_all_parts_are_used():
    scene = scene_of(read_workload(EXAMPLE, "example.yaml"))
    assert scene.replay is not None
    entries = list(scene.replay(random.Random(1)))
    assert {entry.name.rpartition("-")[0] for entry in entries} == {
        "notebook",
        "inference",
        "training",
        "pretraining",
        "batch",
    }
    assert len(scene.nodes) == 24
    assert [queue.metadata.name for queue in scene.queues] == ["research", "products"]
    assert scene.has_gangs
    assert all(one.time <= other.time for one, other in pairwise(entries))
    assert entries[-1].time <= scene.horizon == 86400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("count: 2", "count: many"), "w.yaml:2:20: count: expected a whole number"),
        (("count: 2", "cuont: 2"), "w.yaml:2:13: nodes has no key cuont; did you mean count?"),
        (("memory: 16Gi", "memory: lots"), "memory: "),
        (("name: a, ", ""), "w.yaml:2:3: nodes needs name"),
        (("share: 1, ", ""), "w.yaml:5:3: pods needs share"),
        (("arrivals: {mean: 10}\n", ""), "w.yaml:1:1: a workload needs arrivals"),
        (("{mean: 10}", "{distribution: uniform, low: 5}"), "w.yaml:3:11: a duration that is uniform needs high"),
        (("{mean: 10}", "{distribution: uniform, low: 5, high: 2}"), "w.yaml:3:11: low is above high"),
        (("{mean: 10}", "{mean: 0}"), "w.yaml:3:11: a duration that is fixed must be above 0"),
        (("duration: {mean: 30}", "duration: {mean: -30}"), "mean: -30"),
        (("duration: {mean: 30}", "duration: {mean: soon}"), "'soon' is no duration; expected such as 30s"),
        (("gpus: 1,", "gpus: 1, models: [T5],"), "no pool has GPUs of model T5; known are T4"),
        (("gpus: 1,", "gpus: 5,"), "w.yaml:5:3: pods of class p are larger than any node"),
        (("gpus: 1,", "gpus: 1, queue: q,"), "there is no queue q"),
        ((GOOD, ""), "no configuration; the file is empty"),
        ((GOOD, "a: [\n"), "w.yaml:2:1"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change, message):
    assert message in complaint(GOOD.replace(*change))


def test_names_must_differ():
    assert "the name p is there twice" in complaint(GOOD + GOOD.splitlines()[-1] + "\n")


@pytest.mark.parametrize(
    ("span", "mean", "least", "most"),
    [
        (Span(mean="1m"), 60, 60, 60),
        (Span("uniform", low=10.0, high=30.0), 20, 10, 30),
        (Span("exponential", mean=50.0), 50, 0, 1e9),
        (Span("lognormal", median=50.0, sigma=0.1, high="55s"), 49, 0, 55),
    ],
)
def test_durations_are_drawn_as_described(span, mean, least, most):
    rng = random.Random(1)
    drawn = [span.draw(rng) for _ in range(3000)]
    assert statistics.mean(drawn) == pytest.approx(mean, rel=0.06)
    assert least <= min(drawn)
    assert max(drawn) <= most


# -- changes of values


def changed(path: str, value: str) -> SceneSource:
    return SceneSource(workload=read_workload(GOOD, "w.yaml")).with_settings([Setting(path, value)])


def test_a_value_is_changed_by_its_path():
    assert len(changed("nodes.a.count", "5").scene().nodes) == 5
    assert changed("pods.p.duration.mean", "1h").digest() != changed("pods.p.duration.mean", "2h").digest()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("nodes.b.count", "5", "nodes.b.count=5: there is no b; known are a"),
        ("nodes.a.cuont", "5", "nodes.a.cuont=5: there is no nodes.a.cuont; did you mean count?"),
        ("nodes.a.count", "-5", "nodes.a.count=-5: "),
    ],
)
def test_a_change_that_does_not_fit_is_refused(path, value, message):
    with pytest.raises(SettingError) as caught:
        changed(path, value)
    assert message in str(caught.value)
