"""Jobs that were started a short while ago keep what they need to run."""

import pytest

from tests.groups import add, group, kai_group, kai_queue, member, members
from tests.scenario import node, pod, scenario
from tonnage.cluster.jobs.group import LAST_START
from tonnage.cluster.jobs.job import Job
from tonnage.framework.plugin import ArgumentError, Plugin, PluginOptions
from tonnage.framework.session import Session
from tonnage.model.timestamp import rfc3339, timestamp
from tonnage.model.wire import convert
from tonnage.plugins.jobs.minruntime import MinRuntime

NOW = "2026-01-31T12:00:00Z"


def ago(seconds: int) -> str:
    return rfc3339(timestamp(NOW) - seconds)


class AllowsAll(Plugin):
    """Would stop every pod that may be asked about."""

    name = "allows-all"
    options = PluginOptions(tier=2)

    def on_session_open(self, session):
        session.add_preemptable(lambda job, victims: victims)
        session.add_reclaimable(lambda job, victims: victims)


def world(*things, now=NOW):
    pods = [thing for thing in things if hasattr(thing, "node")]
    cluster = scenario(node("a", gpus=8), *pods)
    cluster.now = None if now is None else timestamp(now)
    return add(cluster, *(thing for thing in things if thing not in pods))


def stopped(cluster, point="preemptable", *, by="default", others=(AllowsAll,), **arguments):
    """Which running pods may be stopped for a job of a queue, asked in the order of names."""
    asks = Job("default/urgent", {}, by)
    plugins = [MinRuntime(convert(arguments, MinRuntime.Arguments)), *(kind() for kind in others)]
    with Session(cluster, plugins) as session:
        victims = [cluster.running[key] for key in sorted(cluster.running) if key not in cluster.leaving]
        return [task.name for task in getattr(session.jobs, point)(asks, victims)]


FIVE_MINUTES = {"defaultPreemptMinRuntime": "5m", "defaultReclaimMinRuntime": "5m"}
POINTS = pytest.mark.parametrize("point", ["preemptable", "reclaimable"])


# -- how old a job is


@POINTS
@pytest.mark.parametrize(("age", "stays"), [(10, True), (299, True), (300, False), (1800, False)])
def test_a_job_is_spared_until_it_has_run_for_its_minimum(point, age, stays):
    started = {LAST_START: ago(age)}
    cluster = world(kai_group("train", 2, annotations=started), *members("train", 2, 1, on="a"))
    assert stopped(cluster, point, **FIVE_MINUTES) == ([] if stays else ["train-0", "train-1"])


def test_without_a_minimum_nobody_is_spared():
    cluster = world(kai_group("train", 2, annotations={LAST_START: NOW}), *members("train", 2, 1, on="a"))
    assert stopped(cluster) == ["train-0", "train-1"]


def test_without_a_time_nobody_is_spared():
    things = kai_group("train", 2, annotations={LAST_START: ago(10)}), *members("train", 2, 1, on="a")
    assert stopped(world(*things, now=None), **FIVE_MINUTES) == ["train-0", "train-1"]


def test_the_clock_of_a_job_starts_with_the_last_of_its_running_pods():
    cluster = world(
        kai_group("train", 2),
        member("train-0", "train", 1, on="a", started=ago(1200)),
        member("train-1", "train", 1, on="a", started=ago(30)),
        pod("old", 1, on="a", started=ago(1200)),
        pod("young", 1, on="a", started=ago(30)),
    )
    assert stopped(cluster, **FIVE_MINUTES) == ["old"]


def test_what_the_group_says_counts_more_than_its_pods():
    cluster = world(
        kai_group("train", 1, annotations={LAST_START: ago(1200)}), member("p", "train", on="a", started=ago(30))
    )
    assert stopped(cluster, **FIVE_MINUTES) == ["p"]


def test_a_pod_that_was_only_bound_is_as_young_as_can_be_and_one_that_runs_is_as_old_as_it_is():
    cluster = world(
        pod("bound", on="a", phase="Pending", created=ago(1800)),
        pod("runs", on="a", created=ago(1800)),
        pod("runs-too", on="a", created=ago(30)),
        pod("unknown", on="a"),
    )
    assert stopped(cluster, **FIVE_MINUTES) == ["runs", "unknown"]


def test_a_start_that_is_no_time_is_a_problem_and_counts_as_absent():
    cluster = world(
        kai_group("train", 1, annotations={LAST_START: "yesterday"}), member("p", "train", on="a", started=ago(30))
    )
    (problem,) = cluster.problems()
    assert (problem.object, problem.field) == ("PodGroup/default/train", f"metadata.annotations[{LAST_START}]")
    assert stopped(cluster, **FIVE_MINUTES) == []


@POINTS
@pytest.mark.parametrize("said", ["2999-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999Z", ago(-1), NOW, ago(30)])
def test_a_job_cannot_say_that_it_is_younger_than_its_pods(point, said):
    cluster = world(
        kai_group("train", 2, annotations={LAST_START: said}),
        *(member(f"train-{number}", "train", 1, on="a", started=ago(1200)) for number in range(2)),
    )
    assert stopped(cluster, point, **FIVE_MINUTES) == ["train-0", "train-1"]


def test_a_start_in_the_future_counts_as_absent_for_ever():
    cluster = world(
        kai_group("train", 1, annotations={LAST_START: "2999-01-01T00:00:00Z"}),
        member("p", "train", on="a", created=ago(30)),
        pod("skewed", on="a", started="2999-01-01T00:00:00Z", created=ago(30)),
    )
    assert stopped(cluster, **FIVE_MINUTES) == []
    cluster.now += 300
    assert stopped(cluster, **FIVE_MINUTES) == ["p", "skewed"]


def test_new_pods_beyond_the_minimum_do_not_make_a_job_young_again():
    cluster = world(
        kai_group("train", 2),
        *(member(f"train-{number}", "train", 1, on="a", started=ago(1200)) for number in range(2)),
        member("train-2", "train", 1, on="a", started=ago(10)),
    )
    assert stopped(cluster, **FIVE_MINUTES) == ["train-0", "train-1", "train-2"]


# -- what a young job may lose


@POINTS
def test_an_elastic_job_loses_only_pods_beyond_its_minimum(point):
    cluster = world(kai_group("train", 2, annotations={LAST_START: ago(10)}), *members("train", 5, 1, on="a"))
    assert stopped(cluster, point, **FIVE_MINUTES) == ["train-0", "train-1", "train-2"]


def test_pods_that_leave_already_are_no_surplus_and_those_that_succeeded_are():
    cluster = world(
        group("train", 2, annotations={LAST_START: ago(10)}),
        member("train-0", "train", on="a"),
        member("train-1", "train", on="a"),
        member("train-2", "train", on="a", terminating=True),
        group("sweep", 2, annotations={LAST_START: ago(10)}),
        member("sweep-0", "sweep", on="a", phase="Succeeded"),
        member("sweep-1", "sweep", on="a"),
        member("sweep-2", "sweep", on="a"),
    )
    assert stopped(cluster, **FIVE_MINUTES) == ["sweep-1"]


def test_each_role_keeps_its_minimum():
    cluster = world(
        group("ray", 3, minTaskMember={"head": 1, "worker": 1}, annotations={LAST_START: ago(10)}),
        member("a-head", "ray", role="head", on="a"),
        *(member(f"b-worker-{i}", "ray", role="worker", on="a") for i in range(2)),
        *(member(f"c-other-{i}", "ray", role="other", on="a") for i in range(3)),
    )
    assert stopped(cluster, **FIVE_MINUTES) == ["b-worker-0", "c-other-0", "c-other-1"]


def test_what_others_would_keep_anyway_is_not_counted_as_lost():
    class KeepsTheFirst(Plugin):
        name = "keeps-the-first"

        def on_session_open(self, session):
            session.add_preemptable(lambda job, victims: victims[1:])

    cluster = world(kai_group("train", 2, annotations={LAST_START: ago(10)}), *members("train", 3, 1, on="a"))
    assert stopped(cluster, others=[KeepsTheFirst], **FIVE_MINUTES) == ["train-1"]


@POINTS
def test_it_makes_no_victims_where_nobody_else_names_any(point):
    cluster = world(pod("old", 1, on="a", started=ago(1800)))
    assert stopped(cluster, point, others=(), **FIVE_MINUTES) == []


# -- who says how long

TREE = (
    kai_queue("company", reclaimMinRuntime="1m", preemptMinRuntime="1m"),
    kai_queue("research", parentQueue="company", reclaimMinRuntime="10m"),
    kai_queue("vision", parentQueue="research", reclaimMinRuntime="20m", preemptMinRuntime="0s"),
    kai_queue("speech", parentQueue="research"),
    kai_queue("serving", parentQueue="company"),
    kai_queue("guests"),
)


def aged(queue: str, seconds: int):
    annotations = {LAST_START: ago(seconds)}
    return world(*TREE, kai_group("train", 1, queue=queue, annotations=annotations), member("p", "train", on="a"))


@pytest.mark.parametrize(
    ("method", "by", "of", "minimum"),
    [
        # One below the queue that both are in, on the side of the job that would be stopped; then upwards.
        ("lca", "serving", "vision", 600),
        ("lca", "speech", "vision", 1200),
        ("lca", "vision", "speech", 600),
        ("lca", "vision", "serving", 60),
        ("lca", "guests", "vision", 60),
        ("lca", "serving", "guests", 300),
        ("lca", "vision", "vision", 1200),
        ("queue", "serving", "vision", 1200),
        ("queue", "guests", "speech", 600),
        ("queue", "vision", "guests", 300),
        ("lca", "serving", "missing", 300),
    ],
)
def test_between_queues_the_tree_says_how_long(method, by, of, minimum):
    def ask(age):
        return stopped(aged(of, age), "reclaimable", by=by, reclaimResolveMethod=method, **FIVE_MINUTES)

    assert (ask(minimum - 1), ask(minimum)) == ([], ["p"])


@pytest.mark.parametrize(("of", "minimum"), [("speech", 60), ("serving", 60), ("guests", 300)])
def test_inside_a_queue_the_first_above_that_says_anything_counts(of, minimum):
    assert stopped(aged(of, minimum - 1), by=of, **FIVE_MINUTES) == []
    assert stopped(aged(of, minimum), by=of, **FIVE_MINUTES) == ["p"]


def test_a_queue_may_say_that_its_jobs_are_not_spared():
    assert stopped(aged("vision", 1), by="vision", **FIVE_MINUTES) == ["p"]


# -- arguments


@pytest.mark.parametrize("text", ["soon", "-5m", "5", ""])
def test_a_minimum_that_is_no_duration_is_an_error(text):
    with pytest.raises(ArgumentError, match=r"defaultReclaimMinRuntime: .*is no duration"):
        MinRuntime.read_arguments({"defaultReclaimMinRuntime": text}, lambda key, message: None)


def test_a_method_that_there_is_not_is_an_error():
    with pytest.raises(ArgumentError, match="reclaimResolveMethod"):
        MinRuntime.read_arguments({"reclaimResolveMethod": "nearest"}, lambda key, message: None)


def test_when_the_minimum_is_over_is_known():
    started = {LAST_START: ago(10)}
    cluster = world(kai_group("train", 2, annotations=started), *members("train", 2, 1, on="a"))
    plugins = [MinRuntime(convert(FIVE_MINUTES, MinRuntime.Arguments)), AllowsAll()]
    with Session(cluster, plugins) as session:
        assert session.next_change is None
        assert not list(session.jobs.preemptable(Job("default/urgent", {}, "default"), list(cluster.running.values())))
        assert session.next_change == timestamp(NOW) + 290
        session.reset()
        assert session.next_change is None
