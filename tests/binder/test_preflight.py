"""The check before a Binding beside pods that are to come once others have left."""

from tests.scenario import node, pod, running, scenario, session
from tonnage.binder.preflight import preflight
from tonnage.cluster.task import make_task


def test_a_pod_that_is_promised_the_room_of_one_that_leaves_does_not_take_anothers_place() -> None:
    """On a card of 8000 MiB: 4000 run and leave, 4000 are given to `first`, and 4000 are promised to `later`."""
    cluster = scenario(node("a", gpus=1, gpu_memory=8000), running("x", on="a", gpu=0, memory=4000))
    with session(cluster) as made:
        first = made.place(make_task(pod("first", 1, memory=4000), cluster.vendors))
        cluster.evict("default/x")
        with made.looking_ahead():
            later = made.place(make_task(pod("later", 1, memory=4000), cluster.vendors))
        assert (first.node, later.node) == ("a", "a")
        assert preflight(cluster, first) == ""
        # It is another matter if somebody came who is there already.
        cluster.upsert_pod(running("y", on="a", gpu=0, memory=1000))
        assert "less room than when the place was decided" in preflight(cluster, first)
