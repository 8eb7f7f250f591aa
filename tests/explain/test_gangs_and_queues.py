"""A gang is told how far it gets, a queue what it has, and both what would help."""

from tests.config.texts import load
from tests.explain.asking import KAI, VOLCANO, ask, sentences
from tests.groups import add, group, members, queue
from tests.plugins.queues.teams import team
from tests.scenario import node, plain, pod, running, scenario


def settings(text):
    found = load(text)
    return {"plugins": found.plugins, "actions": found.actions}


def test_a_gang_says_how_many_fit_and_which_is_the_first_that_does_not():
    cluster = scenario(node("a", cpu="3"), *members("train", 4, cpu="1"))
    add(cluster, group("train", 4))
    found = ask(cluster, "train", "job")
    gang = found.gang
    assert (gang.minimum, gang.pods, gang.fit, gang.first) == (4, 4, 3, "default/train-3")
    assert found.about == "default/train-3"
    assert found.members == {"waiting": 4}
    assert found.misses[0].sentence.startswith("a lacks 1 cpu; 3 pods hold it")


def test_a_gang_may_start_with_fewer_pods_or_smaller_ones_or_one_more_node():
    cluster = scenario(node("a", cpu="3"), *members("train", 4, cpu="1"))
    add(cluster, group("train", 4))
    found = ask(cluster, "train-0")
    assert sentences(found, "gang") == ["default/train starts with 3 pods if its minimum is lowered from 4 to 3"]
    assert sentences(found, "request") == [
        "it fits with less CPU: cpu: 750m instead of 1, in all 4 pods that are alike, in the pod"
    ]
    assert sentences(found, "node") == ["it fits with 1 more node like a (no cards)"]
    (request,) = (one for one in found.suggestions if one.kind == "request")
    assert request.commands[0].startswith("kubectl -n default get pod train-0 train-1 train-2 train-3 -o json | ")
    (gang,) = (one for one in found.suggestions if one.kind == "gang")
    assert gang.group == {"spec": {"minMember": 3}}
    assert gang.commands == ['kubectl -n default patch podgroup train --type=merge -p \'{"spec":{"minMember":3}}\'']


def test_the_minimum_of_a_gang_by_annotation_is_an_annotation():
    notes = {"tonnage.io/min-members": "3", "tonnage.io/queue": "default"}
    from msgspec.structs import replace

    from tonnage.model.meta import OwnerReference

    owner = [OwnerReference(name="train", controller=True, kind="Job")]
    pods = [pod(f"train-{number}", cpu="1", annotations=notes) for number in range(3)]
    pods = [replace(one, metadata=replace(one.metadata, ownerReferences=owner)) for one in pods]
    found = ask(scenario(node("a", cpu="2"), *pods), "train-0")
    (gang,) = (one for one in found.suggestions if one.kind == "gang")
    assert gang.patch == {"metadata": {"annotations": {"tonnage.io/min-members": "2"}}}
    assert gang.commands[0].startswith("# edit the pod template of Job train in default, and create it anew")


def test_a_queue_at_its_limit_names_its_own_pods():
    cluster = scenario(
        plain("a", 4),
        pod("x", 1, on="a", annotations={"tonnage.io/queue": "small"}),
        pod("p", 1, annotations={"tonnage.io/queue": "small"}),
    )
    add(cluster, team("small", 1, 1), team("other", 3))
    found = ask(cluster, "p", **settings(KAI))
    assert "QueueOverLimit" in found.sentence
    assert sentences(found, "end") == ["it fits once 1 pod on a ended: default/x"]
    assert sentences(found, "node") == []
    assert found.share.resources["gpu"].allocated == "1"


def test_what_a_queue_has_lent_is_told_with_when_it_comes_back():
    lender, borrower = {"tonnage.io/queue": "lender"}, {"tonnage.io/queue": "borrower"}
    cluster = scenario(
        plain("a", 4),
        *(pod(f"b{number}", 1, on="a", annotations=borrower) for number in range(4)),
        pod("p", 2, annotations=lender),
    )
    add(cluster, team("lender", 2), team("borrower", 2))
    found = ask(cluster, "lender", "queue", **settings(KAI))
    assert (found.share.lent, found.share.borrowers) == ({"gpu": "2"}, ["borrower"])
    assert found.share.returns.startswith("reclaim takes back what is lent")
    taken = ask(cluster, "borrower", "queue", **settings(KAI))
    assert taken.share.resources["gpu"].borrowed == "2"
    assert taken.share.returns == "what it has borrowed may be taken back as soon as its owners want it"


def test_the_cheapest_eviction_that_the_rules_allow_is_told():
    cluster = scenario(
        plain("a", 2),
        pod("low", 1, on="a", priority=10),
        pod("high", 1, on="a", priority=60),
        pod("p", 1, priority=50),
    )
    add(cluster, team("default", 2))
    found = ask(cluster, "p", **settings(KAI))
    assert [(one.pod, one.action) for one in found.evictions] == [("default/low", "preempt")]
    assert sentences(found, "preemption") == [
        "the rules allow preempt to evict default/low for it: default/p has priority 50"
    ]


def test_the_rule_that_forbids_evictions_is_told():
    cluster = scenario(plain("a", 1), pod("x", 1, on="a", priority=50), pod("p", 1, priority=50))
    add(cluster, queue("default"))
    found = ask(cluster, "p", **settings(VOLCANO))
    assert "preempt" in found.not_evicted
    assert sentences(found, "preemption") == []


def test_a_job_that_is_held_back_gets_no_suggestions_about_nodes():
    cluster = scenario(plain("a", 1), pod("p", 2, annotations={"tonnage.io/queue": "closed"}))
    add(cluster, queue("closed", state="Closed"))
    found = ask(cluster, "p", **settings(VOLCANO))
    assert "QueueClosed" in found.sentence
    assert (found.suggestions, found.impossible) == ([], "")
    assert found.notes == ["what takes it away: somebody changes the pod, its job, its queue or the node"]


def test_a_job_that_runs_is_told_where():
    cluster = scenario(node("a", cpu="4"), *members("train", 2, cpu="1", on="a"))
    add(cluster, group("train", 2))
    assert ask(cluster, "train", "job").sentence == "no pod of it waits: 2 running on a; it starts with 2"
    alone = scenario(node("a", gpus=1), running("x", on="a", memory=100))
    assert ask(alone, "x", "job").sentence.startswith("runs on a, the only node")


def test_pods_beyond_the_minimum_get_no_turn_before_other_jobs_because_pods_ended():
    cluster = scenario(
        node("a", gpus=2), running("x", on="a", gpu=0, memory=8000), running("y", on="a", gpu=1, memory=8000),
        *members("wide", 2, gpus=1, memory=8000), *members("other", 1, gpus=1, memory=8000),
    )  # fmt: skip
    add(cluster, group("wide", 1, created="2026-01-01T00:00:00Z"), group("other", 1, created="2026-01-02T00:00:00Z"))
    assert sentences(ask(cluster, "wide-0", **settings(KAI)), "end") == ["it fits once 1 pod on a ended: default/y"]
    # Of the two cards that x and y hold, one would go to the other job.
    assert sentences(ask(cluster, "wide-1", **settings(KAI)), "end") == []
