"""Groups: the pods of each job and its settings, in whatever order objects come."""

import random
from itertools import permutations

import pytest

from tests.groups import add, group, kai_group, kai_queue, member, members, priority_class, queue
from tests.scenario import node, pod, problems, scenario
from tonnage.cluster.jobs.group import own_group, read_group
from tonnage.cluster.jobs.job import PodStatus
from tonnage.cluster.jobs.queue import GPU, read_queue
from tonnage.cluster.task import make_task
from tonnage.model.duration import DurationError, seconds
from tonnage.model.meta import ObjectMeta, OwnerReference
from tonnage.model.pod import Pod


def job_of(cluster, name):
    task = cluster.waiting.get(f"default/{name}") or cluster.running[f"default/{name}"]
    return cluster.groups.job_of(task)


# -- which job


@pytest.mark.parametrize(
    ("said", "job"),
    [
        ({"annotations": {"scheduling.k8s.io/group-name": "v", "pod-group-name": "k"}}, "default/v"),
        ({"annotations": {"pod-group-name": "k"}, "labels": {"scheduling.x-k8s.io/pod-group": "c"}}, "default/k"),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "c"}}, "default/c"),
        ({"labels": {"app": "x"}, "annotations": {"note": "y"}}, "default/p"),
        ({}, "default/p"),
    ],
)
def test_a_pod_belongs_to_the_group_it_names(said, job):
    assert job_of(scenario(pod("p", 1, **said)), "p").key == job


def test_pods_of_one_owner_that_say_how_many_they_must_be_are_a_job():
    def worker(number, minimum):
        owner = OwnerReference("train", controller=True)
        notes = {"tonnage.io/min-members": minimum, "tonnage.io/queue": "team"}
        meta = ObjectMeta(f"train-{number}", "default", annotations=notes, ownerReferences=[owner])
        return Pod(meta)

    cluster = scenario(worker(0, "2"), worker(1, "3"), worker(2, "2"))
    job = job_of(cluster, "train-0")
    assert (job.key, job.minimum, len(job.tasks), job.queue) == ("default/train", 3, 3, "team")
    cluster.upsert_pod(worker(1, "few"))
    assert job.minimum == 2
    assert "tonnage.io/min-members is 'few'" in job.group.fault
    assert ("Pod/default/train-0", "metadata.annotations") in problems(cluster)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"annotations": {"tonnage.io/queue": "t"}, "labels": {"kai.scheduler/queue": "k"}}, "t"),
        ({"annotations": {"scheduling.volcano.sh/queue-name": "v"}}, "v"),
        ({"labels": {"kai.scheduler/queue": "k"}}, "k"),
        ({}, "default"),
    ],
)
def test_a_plain_pod_says_its_queue(said, name):
    assert job_of(scenario(pod("p", 1, **said)), "p").queue == name


def test_what_is_known_of_a_job_does_not_depend_on_what_came_first():
    things = [group("g", 2, queue="q", priorityClassName="high"), queue("q"), priority_class("high", 7)]
    pods = [member("g-0", "g"), member("g-1", "g", priority=3)]
    for order in permutations([*things, *pods]):
        cluster = scenario(node("a"))
        for thing in order:
            if isinstance(thing, Pod):
                cluster.upsert_pod(thing)
            else:
                add(cluster, thing)
        job = job_of(cluster, "g-0")
        assert (job.minimum, job.queue, job.priority, len(job.tasks)) == (2, "q", 7, 2)
        assert not job.is_lost
        assert problems(cluster) == []


def test_a_job_whose_group_goes_is_lost_until_it_returns():
    cluster = add(scenario(*members("g", 2)), group("g", 2))
    job = job_of(cluster, "g-0")
    cluster.groups.remove(group("g", 2))
    assert job.is_lost
    assert job.minimum == 1
    add(cluster, group("g", 2))
    assert not job.is_lost


def test_without_a_class_the_most_important_pod_and_the_oldest_count():
    pods = [member("g-0", "g", priority=3, created="2026-02"), member("g-1", "g", priority=5, created="2026-01")]
    job = job_of(add(scenario(*pods), group("g", 2, priorityClassName="unknown")), "g-0")
    assert (job.priority, job.created) == (5, "2026-01")
    job = job_of(add(scenario(*pods), group("g", 2, created="2025-12")), "g-0")
    assert job.created == "2025-12"


@pytest.mark.parametrize(
    ("spec", "priority", "preemptible"),
    [
        ({}, 50, True),
        ({}, 100, False),
        ({"preemptibility": "preemptible"}, 100, True),
        ({"preemptibility": "non-preemptible"}, 50, False),
        ({"preemptibility": ""}, 50, True),
    ],
)
def test_a_group_of_kai_may_be_stopped_if_it_says_so_or_is_of_no_importance(spec, priority, preemptible):
    pods = [pod("p", annotations={"pod-group-name": "g"})]
    cluster = add(scenario(*pods), kai_group("g", priorityClassName="c", **spec), priority_class("c", priority))
    assert job_of(cluster, "p").preemptible is preemptible


def test_class_keys_know_the_job():
    facts = []
    for minimum in (1, 2):
        cluster = add(scenario(*members("g", 2)), group("g", minimum))
        facts.append(job_of(cluster, "g-0").facts)
    assert facts[0] != facts[1]


def test_the_job_of_a_pod_that_is_not_known_is_found_too():
    cluster = add(scenario(), group("g", 3, queue="q", priorityClassName="high"), priority_class("high", 7))
    job = cluster.groups.job_of(make_task(member("g-0", "g"), cluster.vendors))
    assert (job.key, job.queue, job.minimum, job.priority) == ("default/g", "q", 3, 7)
    cluster.upsert_pod(member("g-1", "g"))
    assert cluster.groups.job_of(make_task(member("g-0", "g"), cluster.vendors)) is job_of(cluster, "g-1")


# -- where pods stand


def test_a_job_counts_its_pods_by_where_they_stand():
    rng = random.Random(5)
    cluster = add(scenario(node("a")), group("g", 4, minTaskMember={"r0": 1, "r1": 1}))

    def put(number):
        role = f"r{rng.randrange(3)}"
        how = rng.choice(
            [{}, {"on": "a"}, {"on": "a", "terminating": True}, {"phase": "Succeeded"}, {"phase": "Failed"}]
        )
        cluster.upsert_pod(member(f"g-{number}", "g", role=role, **how))

    finished: dict[str, str] = {}
    for _ in range(600):
        number = rng.randrange(8)
        key = f"default/g-{number}"
        step = rng.randrange(7)
        if step == 0:
            put(number)
        elif step == 1:
            cluster.remove_pod(key)
        elif step == 2 and key in cluster.waiting:
            cluster.look_ahead(rng.random() < 0.5)
            cluster.reserve(cluster.waiting[key], "a", ())
            cluster.look_ahead(False)
        elif step == 3:
            cluster.release(key)
        elif step == 4:
            cluster.confirm(key)
        elif step == 5:
            cluster.evict(key)
        else:
            cluster.restore(key)
        job = cluster.groups.jobs.get("default/g")
        tasks = {**cluster.waiting, **cluster.reserved, **cluster.running}
        assert set(job.tasks if job is not None else ()) == set(tasks)
        if job is None:
            continue
        finished = {key: p.annotations["volcano.sh/task-spec"] for key, p in job.finished.items()}
        for role in (None, "r0", "r1", "r2"):
            roles = {key: task.annotations["volcano.sh/task-spec"] for key, task in tasks.items()} | finished
            among = {key for key, played in roles.items() if role is None or played == role}
            found = {status: job.count(status, role=role) for status in range(6)}
            assert found == {
                PodStatus.WAITING: len(among & cluster.waiting.keys()),
                PodStatus.PLACED: len(among & (cluster.reserved.keys() - cluster.pipelined)),
                PodStatus.PIPELINED: len(among & cluster.pipelined),
                PodStatus.RUNNING: len(among & (cluster.running.keys() - cluster.leaving)),
                PodStatus.LEAVING: len(among & cluster.leaving),
                PodStatus.SUCCEEDED: len(among & finished.keys()),
            }


def test_a_plain_pod_stands_where_the_cluster_has_it():
    cluster = scenario(node("a"), pod("p", 1))
    job = job_of(cluster, "p")
    assert (job.count(PodStatus.WAITING), job.started(), job.tasks_that(PodStatus.WAITING)) == (
        1,
        0,
        list(job.tasks.values()),
    )
    cluster.reserve(cluster.waiting["default/p"], "a", ())
    assert (job.count(PodStatus.WAITING), job.started(), job.lacking()) == (0, 1, {})


# -- objects in one form


def test_a_queue_of_volcano():
    spec = {
        "weight": 3,
        "parent": "root",
        "priority": 5,
        "reclaimable": False,
        "capability": {"cpu": "4", "nvidia.com/gpu": 8},
        "deserved": {"memory": "1Gi"},
        "guarantee": {"resource": {"cpu": "500m"}},
    }
    made = read_queue(queue("q", state="Closing", **spec))
    assert (made.weight, made.parent, made.priority, made.reclaimable, made.is_open) == (3, "root", 5, False, False)
    assert made.limit == {"cpu": 4000, "nvidia.com/gpu": 8}
    assert made.deserved == {"memory": 2**30}
    assert made.guarantee == {"cpu": 500}


def test_a_queue_of_kai():
    parts = {"gpu": {"quota": 4, "overQuotaWeight": 2, "limit": 6.5}, "memory": {"quota": 100, "limit": -1}}
    spec = {"parentQueue": "p", "resources": parts, "preemptMinRuntime": "1h30m", "priority": 7}
    made = read_queue(kai_queue("q", **spec))
    assert (made.parent, made.priority, made.preempt_min_runtime, made.reclaim_min_runtime) == ("p", 7, 5400, None)
    assert made.deserved == {GPU: 4, "cpu": 0, "memory": 100_000_000}
    assert made.limit == {GPU: 6.5}
    assert (made.weights[GPU], made.weight) == (2, 0)
    assert read_queue(kai_queue("r")).priority == 100
    unbounded = read_queue(kai_queue("r", resources={"gpu": {"quota": -1}}))
    assert unbounded.deserved[GPU] == float("inf")


def test_a_group_of_kai_with_subgroups_needs_what_they_need():
    parts = [{"name": "a", "minMember": 2}, {"name": "b"}, {"name": "all"}, {"name": "c", "parent": "all"}]
    made = read_group(kai_group("g", subGroups=parts))
    assert (made.minimum, made.roles) == (4, {"a": 2, "b": 1, "c": 1})
    assert read_group(kai_group("g")).minimum == 1
    assert "minSubGroup" in read_group(kai_group("g", minSubGroup=1)).fault


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "", "9" * 30, "²"])
def test_numbers_of_members_that_are_none_are_said(text):
    task = make_task(pod("p", annotations={"tonnage.io/min-members": text}), [])
    assert "expected a whole number from 1 up" in own_group("default/p", [task]).fault


@pytest.mark.parametrize("make", [group, kai_group])
@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical", "system-of-mine"])
def test_a_class_of_the_system_gives_no_priority_outside_of_its_namespace(make, name):
    pods = [member("p", "g", priority=5), member("p", "g", namespace="kube-system", priority=5)]
    groups = [make("g", 1, priorityClassName=name, namespace=where) for where in ("default", "kube-system")]
    cluster = add(scenario(*pods), priority_class("system-of-mine", 2_000_000_000), *groups)
    assert cluster.groups.jobs["default/g"].priority == 5
    assert cluster.groups.jobs["kube-system/g"].priority >= 2_000_000_000
    (problem,) = cluster.problems()
    assert str(problem) == (
        f"PodGroup/default/g: spec.priorityClassName: {name} is for pods of the system; "
        "the priority of its pods counts "
        "(expected no system-* class in this namespace)"
    )


def test_durations():
    assert [seconds(text) for text in ("0", "30s", "1h30m", "1.5m", "250ms")] == [0, 30, 5400, 90, 0.25]
    for text in ("", "5", "1d", "-3s", "h", "3 s"):
        with pytest.raises(DurationError):
            seconds(text)
    assert [seconds(text, may_be_negative=True) for text in ("-1s", "-1h30m", "2m")] == [-1, -5400, 120]
    for text in ("-", "--1s", "1h-30m"):
        with pytest.raises(DurationError):
            seconds(text, may_be_negative=True)


def test_what_a_group_says_about_time():
    said = {
        "kai.scheduler/last-start-timestamp": "2026-01-31T12:00:00Z",
        "kai.scheduler/last-eviction-timestamp": "some day",
        "kai.scheduler/stale-podgroup-timestamp": "",
    }
    times = read_group(kai_group("train", 2, annotations=said, preemptionDelay="5m", stalenessGracePeriod="-1s")).times
    assert (times.started, times.evicted, times.stale_since) == (1769860800, None, None)
    assert (times.preemption_delay, times.grace) == (300, -1)
    assert times.unreadable == ("kai.scheduler/last-eviction-timestamp",)
    silent = read_group(kai_group("train", 2)).times
    assert (silent.preemption_delay, silent.grace, silent.unreadable) == (0, None, ())


# -- trees of queues


def tree(*queues):
    cluster = add(scenario(), *queues)
    return cluster.groups.hierarchy()


def test_queues_form_a_tree():
    found = tree(queue("a"), queue("b", parent="a"), kai_queue("c", parentQueue="b"), queue("d", parent="root"))
    assert found.parents == {"b": "a", "c": "b"}
    assert found.children == {"a": ["b"], "b": ["c"]}
    assert list(found.upwards("c")) == ["c", "b", "a"]
    assert found.problems == []


@pytest.mark.parametrize(
    ("queues", "where"),
    [
        ([queue("a", parent="no")], "Queue/a"),
        ([queue("a", parent="a")], "Queue/a"),
        ([queue("a", parent="b"), queue("b", parent="c"), queue("c", parent="a")], "Queue/c"),
    ],
)
def test_a_parent_that_makes_no_sense_is_left_out_and_said(queues, where):
    found = tree(*queues)
    assert [problem.object for problem in found.problems] == [where]
    assert where.removeprefix("Queue/") not in found.parents


def test_shares_that_contradict_each_other_are_said():
    found = tree(
        queue("a", deserved={"cpu": 4}, capability={"cpu": 2}, guarantee={"resource": {"cpu": 8}}),
        queue("p", deserved={"cpu": 3}),
        queue("x", parent="p", deserved={"cpu": 2}),
        queue("y", parent="p", deserved={"cpu": 2}),
    )
    said = [(problem.object, problem.message.split(",")[0]) for problem in found.problems]
    assert said == [
        ("Queue/a", "guarantee of cpu is 8"),
        ("Queue/a", "guarantee of cpu is 8"),
        ("Queue/a", "deserved of cpu is 4"),
        ("Queue/p", "sum of what its children deserve of cpu is 4"),
    ]


def test_thousands_of_queues_in_one_line():
    found = tree(*(queue(f"q{i:04}", parent=f"q{i - 1:04}" if i else None) for i in range(1500)))
    assert len(list(found.upwards("q1499"))) == 1500


# -- problems of groups


def test_what_is_wrong_with_a_group_is_said_on_it():
    things = [group("g", 3, queue="no", priorityClassName="gone"), group("later", 9)]
    cluster = add(scenario(*members("g", 2)), *things)
    assert problems(cluster) == [
        ("PodGroup/default/g", "spec.queue"),
        ("PodGroup/default/g", "spec.priorityClassName"),
        ("PodGroup/default/g", "spec.minMember"),
    ]
