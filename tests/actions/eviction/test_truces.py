"""Truces: jobs do not stop each other in turn."""

import pytest

from tests.groups import add, group, members
from tests.scenario import pod, scenario
from tonnage.actions.eviction.truces import TRUCE_SECONDS, Truces
from tonnage.cluster.jobs.job import Job

NOW = 1_800_000_000.0


def job(name: str) -> Job:
    return Job(name, {})


def three() -> Truces:
    """`a` was stopped for `b`, and `b` for `c`."""
    truces = Truces()
    truces.stopped("a", "b", NOW)
    truces.stopped("b", "c", NOW + 1)
    return truces


@pytest.mark.parametrize(("name", "spared"), [("a", {"b", "c"}), ("b", {"c"}), ("c", set()), ("other", set())])
def test_a_job_spares_those_that_it_was_stopped_for_and_those_above_them(name: str, spared: set[str]) -> None:
    assert three().spared_by(job(name)) == spared


def test_a_truce_ends_when_somebody_arrives_after_a_while() -> None:
    truces, late = three(), NOW + TRUCE_SECONDS
    truces.begin([job("a"), job("b")], late + 9)
    assert truces.spared_by(job("a")) == {"b", "c"}, "nobody new has come"
    truces.begin([job("a"), job("new")], late + 0.5)
    assert (truces.spared_by(job("a")), truces.spared_by(job("b"))) == (set(), {"c"})
    truces.begin([job("newer")], late + 1)
    assert not truces


def test_a_pod_that_is_made_again_is_of_the_same_lineage() -> None:
    from msgspec.structs import replace

    from tonnage.model.meta import OwnerReference

    def made(name: str) -> str:
        one = pod(name)
        maker = OwnerReference("web", controller=True, kind="ReplicaSet")
        cluster = scenario(replace(one, metadata=replace(one.metadata, ownerReferences=[maker])))
        return cluster.groups.job_of(cluster.waiting[f"default/{name}"]).lineage

    assert made("web-x") == made("web-y") == "default/ReplicaSet/web"
    cluster = add(scenario(*members("g", 2), pod("alone")), group("g", 2))
    lineages = {cluster.groups.job_of(task).lineage for task in cluster.waiting.values()}
    assert lineages == {"default/g", "default/alone"}
