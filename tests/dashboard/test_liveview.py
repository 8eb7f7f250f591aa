"""Views that are followed: a page that is told what has changed ends up like one that is made anew."""

from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.asking import NOW, Asked, ScenarioSource
from tests.scenario import node, pod, running, scenario
from tonnage.dashboard.history import MOST_QUEUES, MOST_SAMPLES, STEP, History
from tonnage.dashboard.liveview import LiveView, RowCache

IDS = st.lists(st.sampled_from("abcdef"), unique=True)
STATES = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(("x", "y"))), min_size=1, max_size=8)


class Page:
    """Does what the script of a page does with what it is told."""

    def __init__(self) -> None:
        self.elements: dict[str, str] = {}

    def apply(self, changed: list[tuple[str, str, str, str]], gone: list[str]) -> None:
        for key in gone:
            self.elements.pop(key, None)
        for _, key, _, html in changed:
            self.elements[key] = html


@given(STATES, st.data())
def test_whoever_was_told_sometimes_has_what_is_there_now(states: list[dict[str, str]], data: st.DataObject):
    current: dict[str, str] = {}
    view = LiveView(lambda: {"holder": current})
    page, stamp = Page(), 0
    for version, state in enumerate(states, start=1):
        current = state
        view.update(version)
        if data.draw(st.booleans()) or version == len(states):
            page.apply(*view.since(stamp))
            stamp = view.stamp
            assert page.elements == state


def test_only_what_changed_is_told():
    current = {"a": "1", "b": "1"}
    view = LiveView(lambda: {"holder": current})
    view.update(1)
    current = {"a": "1", "b": "2", "c": "1"}
    view.update(2)
    assert view.since(1) == ([("holder", "b", "a", "2"), ("holder", "c", "b", "1")], [])
    assert view.since(2) == ([], [])


def test_rows_are_rendered_once():
    cache, made = RowCache(), []
    row = object()
    for _ in range(3):
        cache.begin()
        assert cache.get("key", row, lambda: made.append(1) or "html") == "html"
    assert len(made) == 1


def test_a_bind_changes_one_tile_and_the_totals():
    asked = Asked(ScenarioSource(scenario(*(node(f"n{number}", gpus=2) for number in range(5)))))
    view = asked.get("/")
    assert view.status == 200
    stamp = asked.board.version
    asked.source.cluster.upsert_pod(running("x", on="n3", memory=4000))
    asked.board.look()
    told = asked.get(f"/stream?view=cluster&stamp={stamp}&epoch={asked.board.epoch}").text
    assert '"n-n3"' in told
    assert '"n-n1"' not in told
    assert '"figures-body"' in told


def test_a_day_is_kept_in_bounded_memory():
    history = History()
    for number in range(MOST_SAMPLES + 500):
        queues = {f"q{(number + other) % 100}": 1.0 for other in range(3)}
        history.add(
            NOW + number * STEP,
            dict.fromkeys(("allocated", "fragmentation", "usable", "waiting", "binds"), 1.0),
            queues,
        )
    assert len(history.times) <= MOST_SAMPLES
    assert len(history.queues) == MOST_QUEUES
    assert {len(series.values) for series in (*history.series.values(), *history.queues.values())} == {
        len(history.times)
    }
    points = history.points(history.series["usable"], 86_400.0, 100)
    assert len(points) <= 101
    assert points[-1][0] == history.times[-1]


def test_a_clock_that_goes_back_begins_anew():
    history = History()
    measures = dict.fromkeys(("allocated", "fragmentation", "usable", "waiting", "binds"), 1.0)
    history.add(NOW, measures, {})
    history.add(NOW - 100, measures, {})
    assert list(history.times) == [NOW - 100]


def test_decisions_are_noted_when_pods_get_nodes_and_when_reasons_change():
    source = ScenarioSource(scenario(node("a", gpus=1), running("before", on="a", memory=100)))
    asked = Asked(source)
    assert list(asked.board.decisions) == []
    source.cluster.upsert_pod(pod("p", 1, memory=9000))
    asked.board.look()
    asked.board.look()
    source.cluster.upsert_pod(running("p", on="a", memory=900))
    asked.board.look()
    noted = [(one.record.pod, one.record.outcome.value, one.reason) for one in asked.board.decisions]
    assert noted == [("default/p", "placed", ""), ("default/p", "unschedulable", "CardInsufficientMemory")]
    assert asked.board.decisions.binds == 1
