"""Decisions that look at some of the nodes only, as an extender is asked for."""

from tests.scenario import container, node, pod, reasons, running, scenario, session
from tonnage.cluster.task import make_task


def cluster():
    return scenario(
        node("a", gpus=1), node("b", gpus=1), node("c"), running("x", on="a", memory=2000), node("d", gpus=2)
    )


def task(world, *arguments, **wants):
    return make_task(pod("p", *arguments, **wants), world.vendors)


def test_the_best_of_the_given_nodes_is_taken():
    world = cluster()
    with session(world) as opened:
        assert opened.decide(task(world, 1, memory=1000)).node == "a"
        assert opened.decide(task(world, 1, memory=1000), world.mask(["b", "d"])).node == "b"
        assert opened.decide(task(world, 1, memory=1000), world.mask(["d"])).node == "d"
        assert opened.decide(task(world, 1, memory=1000)).node == "a"


def test_only_the_given_nodes_are_spoken_of():
    world = cluster()
    with session(world) as opened:
        decision = opened.decide(task(world, 2, memory=1000), world.mask(["a", "c", "unknown"]))
    assert decision.node is None
    assert reasons(decision) == {"NodeInsufficientDevice": 1, "NodeUnregistered": 1}
    with session(world) as opened:
        invalid = opened.decide(task(world, 1, memory="8Gi"), world.mask(["a", "c"]))
    assert reasons(invalid) == {"InvalidRequest": 2}


def test_a_survey_says_something_about_each_node():
    world = cluster()
    with session(world) as opened:
        survey = opened.survey(task(world, 1, memory=7000), world.mask(["a", "b", "c"]))
        assert survey.fits == {"b": 0.0}
        assert survey.reasons == {"a": ("devices", "CardInsufficientMemory"), "c": ("devices", "NodeUnregistered")}
        invalid = opened.survey(task(world, 1, memory="8Gi"), world.mask(["a"]))
    assert invalid.reasons == {"a": ("noderesources", "InvalidRequest")}


def test_a_survey_looks_closely_where_containers_compete():
    world = cluster()
    two = [container("one", gpus=1, memory=5000), container("two", gpus=1, memory=5000)]
    with session(world) as opened:
        survey = opened.survey(task(world, containers=two), world.mask("abcd"))
    assert list(survey.fits) == ["d"]
    assert survey.reasons["b"] == ("devices", "CardInsufficientMemory")
