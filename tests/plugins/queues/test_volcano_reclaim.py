"""Volcano's rules for taking back in proportion, and for letting jobs in."""

import pytest

from tests.config.texts import errors, load, warnings, with_plugin
from tests.groups import add, cycle, group, member, queue
from tests.plugins.eviction import Asking
from tests.plugins.queues.teams import small, volcano
from tests.scenario import node, scenario
from tonnage.model.wire import convert
from tonnage.plugins.queues.overcommit import Overcommit
from tonnage.plugins.queues.proportion import Proportion

# -- who may take back, and from whom


def test_volcano_22_a_queue_takes_back_what_another_holds_beyond_what_it_deserves():
    pods = [small(f"a-{n}", "q1", 1, 1, on="n") for n in range(3)]
    asking = Asking(
        volcano(node("n", cpu="3", memory="3Gi"), *pods, small("p", "q2", 1, 1), q1={}, q2={}), Proportion()
    )
    assert asking.why_not("p") is None
    assert asking.reclaimable("p", "a-1") == ["a-1"]
    assert asking.reclaimable("p", "a-0", "a-1", "a-2") == ["a-0"]


def test_volcano_25_the_queue_of_lower_priority_gives_up_its_pod_first():
    pods = [small("a", "q1", 1, 1, on="n"), small("b", "q2", 1, 1, on="n"), small("p", "q3", 2, 1)]
    queues = {"q1": {"priority": 1}, "q2": {"priority": 2}, "q3": {"priority": 2}}
    asking = Asking(volcano(node("n", cpu="10", memory="2Gi"), *pods, **queues), Proportion())
    assert asking.giving_up(among=["q2", "q1"]) == ["q1", "q2"]
    assert asking.reclaimable("p", "a") == ["a"]


def test_of_equal_priority_the_larger_share_gives_up_first_less_what_it_gave_up():
    pods = [small(f"a-{n}", "q1", 1, on="n") for n in range(4)] + [small(f"b-{n}", "q2", 1, on="n") for n in range(3)]
    cluster = volcano(node("n", cpu="8"), *pods, small("p", "q3", 4), q1={}, q2={}, q3={})
    asking = Asking(cluster, Proportion())
    assert asking.giving_up(among=["q2", "q1"]) == ["q1", "q2"]
    assert asking.giving_up("a-0", "a-1", among=["q1", "q2"]) == ["q2", "q1"]


def test_a_queue_that_has_what_it_deserves_takes_nothing_back():
    pods = [small("a", "q1", 2, 2, on="n"), small("b", "q2", 2, 2, on="n"), small("p", "q1", 1, 1)]
    asking = Asking(volcano(node("n", cpu="4", memory="4G"), *pods, q1={}, q2={}), Proportion())
    assert asking.why_not("p") == "QueueOverused: queue q1 holds all that it deserves: 2 cpu, 1.9Gi memory"


def test_a_job_that_asks_for_more_than_its_queue_deserves_takes_nothing_back():
    pods = [small("b", "q2", 4, on="n"), small("p", "q1", 3)]
    said = Asking(volcano(node("n", cpu="4"), *pods, q1={}, q2={}), Proportion()).why_not("p")
    assert said == "QueueBeyondDeserved: queue q1 holds 0 cpu and deserves 2; the job asks for 3"


def test_a_queue_that_says_so_is_never_taken_from():
    pods = [small(f"a-{n}", "q1", 1, on="n") for n in range(4)] + [small("p", "q2", 1)]
    cluster = volcano(node("n", cpu="4"), *pods, q1={"reclaimable": False}, q2={})
    assert Asking(cluster, Proportion()).reclaimable("p", "a-0") == []


def test_what_is_guaranteed_stays():
    pods = [small("large", "q1", 2, on="n"), *(small(f"a-{n}", "q1", 1, on="n") for n in range(2)), small("p", "q2", 1)]
    cluster = volcano(node("n", cpu="4"), *pods, q1={"guarantee": {"resource": {"cpu": 3}}}, q2={"weight": 9})
    assert Asking(cluster, Proportion()).reclaimable("p", "large", "a-0", "a-1") == ["a-0"]


def test_a_pod_that_gives_nothing_of_what_the_job_asks_for_stays():
    pods = [small(f"a-{n}", "q1", memory=1, on="n") for n in range(4)] + [small("p", "q2", cpu=2)]
    cluster = volcano(node("n", cpu="4", memory="4G"), *pods, q1={}, q2={})
    assert Asking(cluster, Proportion()).reclaimable("p", "a-0") == []


# -- who is let in


@pytest.mark.parametrize(
    ("wanted", "needs", "state", "placed"),
    [
        (small("p", "new", cpu=1), ("q1", {"cpu": 1}), "Open", {"p": "n1"}),
        (small("p", "new", memory=1), ("q2", {"memory": "1G"}), "Open", {"p": "n2"}),
        (small("p", "new", 1, 1), ("q1", {"cpu": 1, "memory": "1G"}), "Open", {}),
        (small("p", "new", cpu=1), ("q1", {"cpu": 1}), "Closed", {}),
    ],
)
def test_volcano_32_a_job_is_let_in_if_the_queue_could_have_what_it_names(wanted, needs, state, placed):
    cluster = scenario(node("n1", cpu="2", memory="2G"), node("n2", cpu="2", memory="2G"))
    for name, most, has in (("q1", 2, (1, 2)), ("q2", 3, (2, 1))):
        resources = {"cpu": has[0], "memory": f"{has[1]}G"}
        add(cluster, queue(name, capability={"cpu": most, "memory": f"{most}G"}, state=state))
        add(cluster, group(name, queue=name, phase="Running", minResources=resources))
    add(cluster, group("new", queue=needs[0], phase="Pending", minResources=needs[1]))
    for one in (small("a", "q1", 1, 2, on="n1"), small("b", "q2", 2, 1, on="n2"), wanted):
        cluster.upsert_pod(one)
    outcome = cycle(cluster, Proportion(), actions=("enqueue", "allocate"))
    assert outcome.placed == placed
    if not placed:
        assert ("NotEnqueued" if state == "Open" else "QueueClosed") in outcome.why("p")


@pytest.mark.parametrize(
    ("needs", "let_in"), [({"cpu": 8, "memory": "8G"}, False), ({"cpu": 1, "memory": "1G"}, True), (None, True)]
)
def test_volcano_34_a_group_that_starts_with_more_than_the_capability_stays_out(needs, let_in):
    cluster = scenario(node("n", cpu="16", memory="16G"), small("p", "new", cpu=1))
    add(cluster, queue("q", capability={"cpu": 1, "memory": "1G"}))
    add(cluster, group("new", queue="q", phase="Pending", minResources=needs))
    outcome = cycle(cluster, Proportion(), actions=("enqueue", "allocate"))
    assert (outcome.placed == {"p": "n"}) is let_in
    assert let_in or "NotEnqueued" in outcome.why("p")


def enqueued(cluster, *plugins) -> list[str]:
    return [job.name for job in cycle(cluster, *plugins, actions=("enqueue",)).session.enqueued]


def test_what_was_promised_to_others_counts_and_what_they_could_do_without_does_not():
    """Of 8 CPUs: 2 held with 1 to spare, 2 promised; so there are 5 for one of two new groups."""
    cluster = scenario(node("n", cpu="8"), *[small(f"r-{n}", "runs", cpu=1, on="n") for n in range(2)])
    add(cluster, queue("q"), group("runs", queue="q", phase="Running", minResources={"cpu": 1}))
    add(cluster, group("promised", queue="q", phase="Inqueue", minResources={"cpu": 2}))
    for name in ("one", "two"):
        add(cluster, group(name, queue="q", phase="Pending", created=name, minResources={"cpu": 5}))
        cluster.upsert_pod(small(f"{name}-0", name, cpu=5))
    assert enqueued(cluster, Proportion()) == ["one"]


def test_queues_do_not_count_each_others_promises():
    cluster = scenario(node("n", cpu="4"))
    for name in ("q1", "q2"):
        add(cluster, queue(name), group(name, queue=name, phase="Pending", minResources={"cpu": 3}))
        cluster.upsert_pod(small(f"{name}-0", name, cpu=3))
    assert sorted(enqueued(cluster, Proportion())) == ["q1", "q2"]
    assert enqueued(cluster, Proportion(), Overcommit()) == ["q1"]


# -- overcommit


@pytest.mark.parametrize(("factor", "let_in"), [(1.2, 2), (1.0, 1), (2.0, 4)])
@pytest.mark.parametrize("is_ours", [True, False])
def test_groups_are_let_in_up_to_a_factor_of_the_cluster(factor, let_in, is_ours):
    """5 CPUs of which 2 are in use, by our own pods or by those of another scheduler, and groups that start with 2."""
    cluster = scenario(node("n", cpu="5"), small("r", "other", cpu=2, on="n"))
    cluster.is_ours = lambda pod: is_ours or pod.metadata.name != "r"
    for number in range(5):
        add(cluster, group(f"g{number}", phase="Pending", created=str(number), minResources={"cpu": 2}))
        cluster.upsert_pod(small(f"p{number}", f"g{number}", cpu=2))
    plugin = Overcommit(convert({"overcommit-factor": factor}, Overcommit.Arguments))
    assert enqueued(cluster, plugin) == [f"g{number}" for number in range(let_in)]


def test_only_what_a_group_names_is_compared_and_groups_that_name_nothing_are_let_in():
    cluster = scenario(node("n", cpu="2", memory="2G"), small("r", "g0", cpu=2, on="n"))
    add(cluster, group("memory", phase="Pending", minResources={"memory": "1G"}), group("none", phase="Pending"))
    for name in ("memory", "none"):
        cluster.upsert_pod(member(f"{name}-0", name))
    outcome = cycle(cluster, Overcommit(), actions=("enqueue",))
    assert [job.name for job in outcome.session.enqueued] == ["memory"]
    assert not outcome.session.not_enqueued


def test_a_factor_below_1_means_the_default_with_a_warning():
    text = with_plugin("overcommit", "arguments: {overcommit-factor: 0.5, overcommit-factor.cpu: 1.5}")
    (plugin,) = (one for one in load(text).plugins if one.name == "overcommit")
    assert (plugin.args.factor, plugin.args.resources) == (1.2, {"cpu": 1.5})
    assert plugin.written_arguments() == {"overcommit-factor": 1.2, "overcommit-factor.cpu": 1.5}
    assert any("overcommit-factor: 0.5 is below 1; 1.2 is used" in line for line in warnings(text))


@pytest.mark.parametrize("written", ["overcommit-factor: much", "factor: 2", "overcommit-factor: true"])
def test_other_arguments_are_errors(written):
    (said,) = errors(with_plugin("overcommit", f"arguments: {{{written}}}"))
    assert said.startswith("FILE:5:")


def test_a_factor_for_one_resource():
    cluster = scenario(node("n", cpu="2", memory="2G"))
    for name, needs in (("a", {"cpu": 3}), ("b", {"memory": "3G"})):
        add(cluster, group(name, phase="Pending", minResources=needs))
        cluster.upsert_pod(member(f"{name}-0", name, cpu=1))
    plugin = Overcommit(Overcommit.read_arguments({"overcommit-factor.cpu": 1.5}, lambda key, text: None))
    assert enqueued(cluster, plugin) == ["a"]
