"""Whatever a statement did, undoing it restores everything; and plugins are told of every step and of its undoing."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.comparing import assert_same, snapshot
from tests.properties.outcomes import VENDORS, told
from tests.properties.worlds import examples, nodes, phases, pods, running_pods
from tonnage.cluster.task import make_task
from tonnage.framework.plugin import Plugin
from tonnage.framework.session import Session
from tonnage.framework.statement import Statement
from tonnage.plugins.defaults import default_plugins


class Tally(Plugin):
    """Counts how often each pod was given a place more than it lost one."""

    name = "tally"

    def on_session_open(self, session):
        self.held = Counter()
        session.add_event_handler(
            lambda task: self.held.update({task.key: 1}), lambda task: self.held.subtract({task.key: 1})
        )


def everything(cluster):
    keys = {name: sorted(getattr(cluster, name)) for name in ("waiting", "reserved", "running", "leaving")}
    return snapshot(cluster) | keys


@settings(max_examples=examples(60), deadline=None, phases=phases())
@given(
    st.lists(nodes(), max_size=4, unique_by=lambda node: node.name),
    st.lists(running_pods(), max_size=5, unique_by=lambda pod: pod.key),
    st.lists(pods(), min_size=1, max_size=6, unique_by=lambda pod: pod.key),
    st.data(),
)
def test_undoing_restores_everything(found, held, wanted, data):
    cluster = told([*found, *held, *wanted])
    tally = Tally()
    with Session(cluster, [*default_plugins(), tally]) as session:
        probe = make_task(wanted[0], VENDORS)
        before = everything(cluster)
        answer = session.decide(probe).record()
        with Statement(session) as statement:
            marks = []
            for _ in range(data.draw(st.integers(1, 8))):
                step = data.draw(st.sampled_from(["place", "pipeline", "evict", "mark", "back"]))
                if step in ("place", "pipeline") and cluster.waiting:
                    key = data.draw(st.sampled_from(sorted(cluster.waiting)))
                    getattr(statement, step)(cluster.waiting[key])
                stays = sorted(cluster.running.keys() - cluster.leaving)
                if step == "evict" and stays:
                    statement.evict(cluster.running[data.draw(st.sampled_from(stays))], "", "")
                if step == "mark":
                    marks.append((len(statement), everything(cluster), tally.held.copy()))
                if step == "back" and marks:
                    mark, then, held_then = marks.pop()
                    statement.undo(mark)
                    assert_same(then, everything(cluster))
                    assert +tally.held == +held_then
        assert_same(before, everything(cluster))
        assert not any(tally.held.values())
        assert session.decide(probe).record() == answer


@settings(max_examples=examples(40), deadline=None, phases=phases())
@given(
    st.lists(nodes(), max_size=4, unique_by=lambda node: node.name),
    st.lists(running_pods(), max_size=5, unique_by=lambda pod: pod.key),
    st.data(),
)
def test_looking_ahead_shows_the_cluster_without_the_pods_that_leave(found, held, data):
    cluster = told([*found, *held])
    for key in sorted(cluster.running):
        if data.draw(st.booleans()):
            cluster.evict(key)
    leaving = [pod for pod in held if pod.key in cluster.leaving]
    cluster.look_ahead(True)
    gone = told([*found, *(pod for pod in held if pod not in leaving)])
    there, ahead = snapshot(gone), snapshot(cluster)
    there.pop("holders")
    for name in ("allocatable", "amounts"):
        # A resource that only a gone pod made known has a column of its own; those that both know are the same.
        assert set(gone.columns.resources) == set(cluster.columns.resources)
        there[name] = there[name][..., [gone.columns.resources[key] for key in cluster.columns.resources], :]
    assert_same(there, ahead)
    for pod in leaving:
        cluster.remove_pod(pod.key)
    cluster.look_ahead(False)
    assert_same(there, snapshot(cluster))
