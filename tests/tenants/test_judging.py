"""The judge of tenants itself: it notices each kind of violation, and nothing where nothing is."""

import random
from collections import Counter

import pytest

from tests.chaos.floods import excess
from tests.scenario import ALLOCATED, node, plain
from tests.tenants.adversary import Tally
from tests.tenants.grammar import CARDS, FINALIZER, Grammar
from tests.tenants.honest import sequence
from tests.tenants.kubelets import NOWHERE
from tests.tenants.ledger import HONEST, HOSTILE, JOB, RESOURCE, Ledger, Share, shares_in
from tests.tenants.run import MEMORY, Settings, Side, verdict
from tonnage.lab.api import node_manifest


class Shown:
    """An API server with two nodes: one of two shared cards, one of two whole ones."""

    def get(self, path):
        offers = {RESOURCE: 4}
        shared = node_manifest(node("a", gpus=2, gpu_memory=8000, slots=2, **offers))
        return {"items": [shared, node_manifest(plain("w", 2))]}


@pytest.fixture
def ledger():
    return Ledger(Shown())


def seen(name, namespace=HONEST, *, on=None, cards=1, has="", phase="Pending", going=False, job=None, reasons=()):
    """A pod as the API server shows it."""
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": {JOB: job or name}}
    meta["annotations"] = {ALLOCATED: has} if has else {}
    if going:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container = {"name": "main", "resources": {"limits": {RESOURCE: str(cards)}}}
    return {
        "metadata": meta,
        "spec": {"containers": [container], **({"nodeName": on} if on else {})},
        "status": {"phase": phase, "conditions": [{"type": "DisruptionTarget", "reason": one} for one in reasons]},
    }


def bound(ledger, name, has, namespace=HONEST, on="a", **more):
    """A pod that came without a node and was bound."""
    ledger.look(seen(name, namespace, **more), False)
    ledger.look(seen(name, namespace, on=on, has=has, **more), False)


def one(card="a/0", memory=4000, cores=50):
    return f"{card},NVIDIA,{memory},{cores}:;"


def test_an_honest_life_is_no_finding(ledger):
    bound(ledger, "p", one())
    bound(ledger, "q", one())
    ledger.look(seen("p", on="a", has=one(), phase="Running"), False)
    ledger.handed_out(seen("p", on="a"), [Share("a/0", 4000, 50)], seen("p", on="a"))
    ledger.leaving("p")
    ledger.look(seen("p", on="a", has=one(), phase="Running", going=True), False)
    ledger.look(seen("p", on="a", has=one(), phase="Running", going=True), True)
    bound(ledger, "r", one())
    assert ledger.wrong == []
    assert ledger.unbound() == []
    assert set(ledger.waits()) == {"p", "q", "r"}


def test_a_pod_that_is_stopped_evicted_or_fails_is_found_once(ledger):
    for name in "pqr":
        bound(ledger, name, one(memory=10, cores=1), on="a" if name != "r" else "w")
    ledger.look(seen("p", on="a", going=True, reasons=["EvictionByEvictionAPI"]), False)
    ledger.look(seen("p", on="a", going=True), True)
    ledger.look(seen("q", on="a"), True)
    ledger.look(seen("r", on="w", phase="Failed"), False)
    assert ledger.wrong == [
        "honest/p was stopped on a (EvictionByEvictionAPI)",
        "honest/q was stopped on a (deleted)",
        "honest/r has failed on w: ",
    ]


def test_the_end_of_a_hostile_pod_is_nobodys_loss(ledger):
    bound(ledger, "h", one(), HOSTILE)
    ledger.look(seen("h", HOSTILE, on="a", going=True, reasons=["EvictionByEvictionAPI"]), True)
    assert ledger.wrong == []


def test_a_pod_that_changes_its_node_is_found(ledger):
    bound(ledger, "p", one())
    ledger.look(seen("p", on="w"), False)
    assert ledger.wrong == ["honest/p was bound to a and then to w"]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (one(memory=4001), "a/0 has 8001 of 8000 memory"),
        (one(cores=51), "a/0 has 101 of 100 cores"),
        (one("b/0"), "b/0 is no card of a"),
        (one() + one(), "asks for 1 cards and was bound with 2"),
        ("", "asks for 1 cards and was bound with 0"),
    ],
)
def test_a_binding_over_what_others_hold_is_found(ledger, record, said):
    bound(ledger, "p", one())
    bound(ledger, "q", record)
    assert any(said in wrong for wrong in ledger.wrong)


def test_slots_and_whole_cards_are_counted(ledger):
    for name in "pqr":
        bound(ledger, name, one(memory=1, cores=1))
    for name in "stu":
        bound(ledger, name, "", on="w")
    assert ledger.wrong == [
        "once honest/r was bound: a: a/0 has 3 of 2 slots in use",
        "once honest/u was bound: w: 3 of 2 nvidia.com/gpu in use",
    ]


def test_what_a_binding_gave_counts_whatever_its_pod_writes_later(ledger):
    bound(ledger, "h", one(memory=8000), HOSTILE)
    ledger.look(seen("h", HOSTILE, on="a", has=one("a/1", 1)), False)
    bound(ledger, "p", one())
    assert ledger.wrong == [
        "once honest/p was bound: a: a/0 has 12000 of 8000 memory in use",
    ]


def test_a_claim_without_a_request_counts_for_nothing(ledger):
    ledger.look(seen("h", HOSTILE, on="a", cards=0, has=one(memory=8000)), False)
    bound(ledger, "k", one(memory=8000), HOSTILE, cards=0)
    bound(ledger, "p", one(memory=8000))
    assert ledger.wrong == []


def test_cards_of_a_pod_that_chose_its_node_count_once_they_are_handed_out(ledger, monkeypatch):
    now = 100.0
    monkeypatch.setattr("tests.tenants.ledger.time.monotonic", lambda: now)
    direct = seen("h", HOSTILE, on="a")
    ledger.look(direct, False)
    bound(ledger, "p", one())
    ledger.handed_out(direct, [Share("a/0", 8000, 100), Share("a/1", 8000, 100)], direct)
    bound(ledger, "q", one())
    assert ledger.wrong == [], "nobody can know of it at once"
    ledger.leaving("q")
    ledger.look(seen("q", on="a"), True)
    now = 200.0
    bound(ledger, "r", one("a/1"))
    assert ledger.wrong == [], "it asks for one card and has no more"
    bound(ledger, "s", one(memory=1, cores=0))
    assert any("a/0 has 12001 of 8000 memory" in wrong for wrong in ledger.wrong)


def test_a_pod_that_is_taken_for_another_is_found(ledger):
    bound(ledger, "p", one())
    bound(ledger, "h", one("a/1"), HOSTILE)
    ledger.handed_out(seen("p", on="a"), [Share("a/1", 1, 1)], seen("h", HOSTILE, on="a"))
    ledger.handed_out(seen("h", HOSTILE, on="a"), [Share("a/0", 1, 1)], seen("p", on="a"))
    assert ledger.wrong == [
        "honest/p on a was taken for hostile/h by a device plugin",
        "hostile/h on a was taken for honest/p by a device plugin",
    ]


def test_cards_other_than_the_given_ones_are_found(ledger):
    bound(ledger, "p", one())
    ledger.handed_out(seen("p", on="a"), [Share("a/1", 4000, 50)], seen("p", on="a"))
    assert len(ledger.wrong) == 1
    assert "handed out" in ledger.wrong[0]


def test_a_turn_that_a_pod_took_which_nobody_placed_is_a_limit_and_no_finding(ledger):
    bound(ledger, "p", one())
    direct = seen("h", HOSTILE, on="a")
    ledger.look(direct, False)
    ledger.handed_out(direct, [Share("a/0", 4000, 50)], seen("p", on="a"))
    ledger.look(seen("p", on="a", phase="Failed"), False)
    assert ledger.wrong == []
    assert len(ledger.limits) == 2


def test_a_pod_that_never_got_a_node_is_found(ledger):
    ledger.look(seen("p"), False)
    assert ledger.unbound() == ["p"]
    ledger.leaving("p")
    ledger.look(seen("p"), True)
    assert ledger.unbound() == []
    assert "when its tenant gave up" in ledger.wrong[0]


def test_a_gang_waits_from_its_last_pods_arrival(ledger, monkeypatch):
    times = iter([1.0, 5.0, 6.0, 6.5])
    monkeypatch.setattr("tests.tenants.ledger.time.monotonic", lambda: next(times))
    for name in "pq":
        ledger.look(seen(name, job="gang"), False)
    for name in "pq":
        ledger.look(seen(name, on="w", job="gang"), False)
    assert ledger.waits() == {"p": 1.0, "q": 1.5}


def test_what_the_ledger_cannot_take_is_a_finding(ledger):
    ledger.look({"metadata": {"name": "p", "uid": "u"}, "spec": {}, "status": {}}, False)
    assert "the ledger cannot take p" in ledger.wrong[0]


def test_records_are_read_by_their_form_and_garbage_is_left_out():
    assert shares_in("a/0,NVIDIA,1,2:a/1,NVIDIA,3,4:;;") == [Share("a/0", 1, 2), Share("a/1", 3, 4)]
    assert shares_in("a,b,٣,1:;a,b,-1,1:;a,b,c,d:;" + f"a,b,{'9' * 5000},1:;") == []


# -- the verdict

DONE = Tally(Counter({"create pod: plain": 2000}), Counter(), 10.0)


def side(slowest=0.5, memory=100.0, wrong=()):
    return Side({"p": 0.1, "q": slowest}, memory, 0.0, 0.0, list(wrong), [])


def test_the_verdict_is_about_waits_memory_operations_and_what_was_found():
    settings = Settings("extender")
    assert verdict(settings, side(), side(1.49), DONE) == []
    (late,) = verdict(settings, side(), side(1.6), DONE)
    assert "1 honest pods waited" in late
    assert "q waited 1.60 s" in late
    assert verdict(settings, side(wrong=["x"]), side(wrong=["y"]), DONE) == ["alone: x", "y"]
    assert len(verdict(settings, side(), side(memory=MEMORY + 1), DONE)) == 1
    assert verdict(settings, side(), side(), Tally(Counter(), Counter(), 1.0)) == [
        "only 0 of 2000 operations were done"
    ]


def test_floods_may_cost_a_second_and_300_mb():
    assert excess(0.99, 299.0) == []
    assert len(excess(1.0, 300.0)) == 2


# -- both tenants


def test_the_same_seed_gives_the_same_operations():
    drawn = [[Grammar(random.Random(7), "tonnage", ["n00"], ["q"]).draw() for _ in range(50)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert sequence(3, 20, True) == sequence(3, 20, True) != sequence(4, 20, True)


def test_the_adversary_draws_every_kind_and_really_asks_for_no_more_than_its_cards():
    grammar, kinds, real = (
        Grammar(random.Random(1), "tonnage", ["n00", "n01"], ["hostile"]),
        Counter(),
        dict[str, int](),
    )
    texts = ""
    for _ in range(4000):
        operation = grammar.draw()
        kinds[operation.kind.split(":")[0]] += 1
        texts += str(operation.body)[:3000]
        if operation.kind == "delete pod":
            grammar.gone(operation.path.rpartition("/")[2])
        asked = {name: pod.cards for name, pod in grammar.pods.items() if pod.cards}
        real |= asked
        assert sum(asked.values()) <= CARDS
    assert real
    assert {"create pod", "patch pod", "delete pod", "evict pod", "create PodGroup", "patch PodGroup"} <= kinds.keys()
    assert {"delete PodGroup", "forbidden"} <= kinds.keys()
    for word in ("nodeName", FINALIZER, NOWHERE, "system-node-critical", "schedulingGates", "hostPort", "allocating"):
        assert word in texts
