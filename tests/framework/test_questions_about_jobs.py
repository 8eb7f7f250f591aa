"""How plugins' answers about queues and jobs combine, and what becomes of answers that make no sense."""

import pytest

from tests.framework.answers import Says
from tests.scenario import node, pod, scenario
from tonnage.cluster.jobs.job import Job
from tonnage.cluster.jobs.queue import Queue
from tonnage.cluster.task import make_task
from tonnage.devices.catalog import default_vendors
from tonnage.framework.decision import Reason
from tonnage.framework.plugin import Plugin, PluginOptions
from tonnage.framework.session import Session, SessionError

VENDORS = default_vendors()
QUEUE = Queue("default")


def opened(*plugins):
    return Session(scenario(node("a", gpus=1)), plugins)


def task(name, **more):
    return make_task(pod(name, 1, **more), VENDORS)


def job(name="j", **more):
    one = task(name, **more)
    return Job(one.key, {one.key: one})


# -- orders


def test_the_first_plugin_that_decides_orders_jobs():
    with opened(
        Says(add_job_order=lambda one, other: 0),
        Says(add_job_order=lambda one, other: -1),
        Says(add_job_order=lambda one, other: 1),
    ) as session:
        assert session.jobs.compare(job("z"), job("a")) == -1


def test_without_an_opinion_the_older_comes_first_and_then_the_name():
    with opened() as session:
        old, young = job("z", created="2026-01-01T00:00:00Z"), job("a", created="2026-01-02T00:00:00Z")
        assert session.jobs.compare(old, young) == -1
        assert session.jobs.compare(job("b"), job("a")) == 1
        assert session.jobs.compare_tasks(task("a"), task("b")) == -1
        assert session.jobs.compare_tasks(task("b", created="2026"), task("a", created="2027")) == -1
        assert session.queues.compare(Queue("a", "2027"), Queue("b", "2026")) == 1
        assert session.queues.compare(Queue("a"), Queue("a")) == 0


# -- checks, votes, victims


def test_all_must_find_a_job_valid_and_the_first_reason_counts():
    with opened(
        Says("one", add_job_valid=lambda j: None),
        Says("two", add_job_valid=lambda j: Reason("TooFew", "two of three pods")),
        Says("three", add_job_valid=lambda j: Reason("Never", "")),
    ) as session:
        assert session.jobs.why_invalid(job()) == ("two", Reason("TooFew", "two of three pods"))
    with opened() as session:
        assert session.jobs.why_invalid(job()) is None


@pytest.mark.parametrize(
    ("answers", "ready"), [([], True), ([None], True), ([True, None], True), ([True, False], False)]
)
def test_a_job_is_ready_if_nobody_objects(answers, ready):
    with opened(*(Says(add_job_ready=lambda j, answer=answer: answer) for answer in answers)) as session:
        assert session.jobs.is_ready(job()) is ready


@pytest.mark.parametrize("point", ["pipelined", "enqueueable"])
@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], True),
        ([[None, None]], True),
        ([[True, False]], False),
        ([[None, True], [False]], True),
        ([[None], [False]], False),
        ([[None], [True]], True),
    ],
)
def test_votes_count_tier_by_tier(point, tiers, expected):
    plugins = [
        Says(tier=number, **{f"add_job_{point}": lambda j, vote=vote: vote})
        for number, votes in enumerate(tiers, start=1)
        for vote in votes
    ]
    with opened(*plugins) as session:
        assert getattr(session.jobs, f"is_{point}")(job()) is expected


@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], ""),
        ([["abc", "bcd"]], "bc"),
        ([["abc", None]], "abc"),
        ([["a", "b"], ["abcd"]], ""),
        ([[None], ["d"]], "d"),
        ([["ab"], ["cd"]], "ab"),
    ],
)
def test_victims_are_those_that_all_plugins_of_the_first_tier_with_a_say_allow(point, tiers, expected):
    candidates = [task(name) for name in "abcd"]

    def choose(names):
        return lambda j, victims: None if names is None else [v for v in victims if v.name in names]

    plugins = [
        Says(tier=number, **{f"add_{point}": choose(names)}) for number, tier in enumerate(tiers, 1) for names in tier
    ]
    with opened(*plugins) as session:
        assert "".join(v.name for v in getattr(session.jobs, point)(job(), candidates)) == expected


class Vetoes(Plugin):
    """Would stop only the pods of some names, and has no say otherwise."""

    name = "vetoes"

    def __init__(self, names, tier=1):
        super().__init__()
        self.names, self.options = names, PluginOptions(tier=tier)

    def on_session_open(self, session):
        session.add_preemptable(self.choose, veto=True)
        session.add_reclaimable(self.choose, veto=True)

    def choose(self, job, victims):
        self.asked = "".join(victim.name for victim in victims)
        return None if self.names is None else [victim for victim in victims if victim.name in self.names]


@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ([Vetoes("abcd")], ""),
        ([Vetoes("ab"), ("bcd", 1)], "b"),
        ([Vetoes("ab", tier=1), ("bcd", 2)], "b"),
        ([("bcd", 1), Vetoes("ab", tier=2)], "b"),
        ([("bcd", 1), Vetoes("ab", tier=2), Vetoes("cd", tier=3)], ""),
        ([("bcd", 1), Vetoes(None)], "bcd"),
    ],
)
def test_a_veto_counts_in_every_tier_and_makes_no_victims(point, plugins, expected):
    candidates = [task(name) for name in "abcd"]
    made = [
        one
        if isinstance(one, Vetoes)
        else Says(tier=one[1], **{f"add_{point}": lambda j, v, names=one[0]: [t for t in v if t.name in names]})
        for one in plugins
    ]
    with opened(*made) as session:
        assert "".join(v.name for v in getattr(session.jobs, point)(job(), candidates)) == expected


def test_who_has_a_veto_is_asked_about_what_the_others_would_stop():
    candidates, veto = [task(name) for name in "abcd"], Vetoes("d")
    with opened(veto, Says(add_preemptable=lambda j, v: [t for t in v if t.name in "db"])) as session:
        session.jobs.preemptable(job(), candidates)
    assert veto.asked == "bd"


def test_one_plugin_is_enough_to_find_a_queue_overused_and_all_must_let_it_have_more():
    full = Reason("Full", "8 of 8 GPUs")
    with opened(
        Says(add_overused=lambda q: None, add_allocatable=lambda q, t: None),
        Says("quota", add_overused=lambda q: full, add_allocatable=lambda q, t: full),
    ) as session:
        assert session.queues.why_overused(QUEUE) == ("quota", full)
        assert session.queues.why_not_allocatable(QUEUE, task("p")) == ("quota", full)


# -- answers that make no sense


def explode(*_):
    raise RuntimeError("no idea")


@pytest.mark.parametrize("broken", [explode, lambda *_: "nonsense"])
def test_a_question_that_fails_is_answered_so_that_nothing_is_placed_or_evicted(broken):
    methods = [
        "add_queue_order",
        "add_job_order",
        "add_task_order",
        "add_job_valid",
        "add_job_ready",
        "add_job_pipelined",
        "add_job_enqueueable",
        "add_preemptable",
        "add_reclaimable",
        "add_overused",
        "add_allocatable",
    ]
    one, other = task("a"), task("b")
    with opened(Says("broken", **dict.fromkeys(methods, broken))) as session:
        assert session.jobs.compare(job("b"), job("a")) == 1
        assert session.jobs.compare_tasks(one, other) == -1
        assert session.queues.compare(Queue("a"), Queue("b")) == -1
        assert session.jobs.why_invalid(job())[1].name == "PluginFailed"
        assert not session.jobs.is_ready(job())
        assert not session.jobs.is_pipelined(job())
        assert not session.jobs.is_enqueueable(job())
        assert session.jobs.preemptable(job(), [one]) == []
        assert session.jobs.reclaimable(job(), [one]) == []
        assert session.queues.why_overused(QUEUE)[1].name == "PluginFailed"
        assert session.queues.why_not_allocatable(QUEUE, one)[1].name == "PluginFailed"
        problems = session.problems()
    assert {problem.object for problem in problems} == {"Plugin/broken"}
    assert len({problem.field for problem in problems}) == len(methods)


@pytest.mark.parametrize(
    ("method", "function", "takes"),
    [
        ("add_predicate", lambda task, node: None, "task, job, node"),
        ("add_node_order", lambda task: 0.0, "task, node"),
        ("add_job_order", lambda job: 0, "job, job"),
        ("add_pre_predicate", lambda: None, "task, job"),
        ("add_event_handler", lambda: None, "task"),
    ],
)
def test_a_function_that_takes_something_else_is_an_error_when_the_session_opens(method, function, takes):
    with pytest.raises(SessionError, match=rf"plugin says: <lambda> is registered as .*, which takes \({takes}\)"):
        opened(Says(**{method: function}))
