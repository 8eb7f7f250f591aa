"""Who asks, what it gets, and what is never handed out: the agent's decisions on one node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.scenes import VENDOR, Kubelet, card, no_registration, pod, prefer, use, uuid
from tonnage.agent.core.agentcore import PATIENCE, AgentCore
from tonnage.agent.core.instructions import (
    FetchPods,
    GiveDevices,
    Instruction,
    LogNote,
    LookAtKubelet,
    LookUpPod,
    OfferDevices,
    PatchNode,
    PatchPod,
    PostEvent,
    Prefer,
    Refuse,
    ReleaseLock,
)
from tonnage.cluster.holding import card_uses
from tonnage.model.annotations import BIND_PHASE, LOCK


def agent(*cards: object, **options: bool) -> tuple[AgentCore, Kubelet]:
    core = AgentCore(VENDOR, no_registration, **options)
    core.cards_seen(cards or [card(index) for index in range(8)])  # type: ignore[arg-type]
    return core, Kubelet(core)


def only(said: list[Instruction], kind: type) -> list[Instruction]:
    return [one for one in said if isinstance(one, kind)]


# -- who asks


def test_a_container_gets_what_was_decided_for_it() -> None:
    _, kubelet = agent()
    [answer] = kubelet.admit(pod("train", [use(3, 4096, 30)]))
    assert isinstance(answer, GiveDevices)
    assert (answer.pod.key, answer.container.name) == ("team/train", "c0")
    assert answer.container.uses == (use(3, 4096, 30),)


def test_pods_that_are_bound_together_each_get_their_own() -> None:
    core, kubelet = agent()
    pods = [pod(f"p{number}", [use(number % 8, 100 + number, 1)]) for number in range(40)]
    for one in pods:
        core.pod_seen(one)
    for one in reversed(pods):
        [answer] = kubelet.admit(one, is_seen=False)
        assert isinstance(answer, GiveDevices)
        number = int(one.metadata.name[1:])
        assert answer.container.uses == (use(number % 8, 100 + number, 1),)
    assert len(only(kubelet.told, PatchPod)) == 40


def test_init_containers_ask_first_and_containers_without_devices_never() -> None:
    _, kubelet = agent()
    answers = kubelet.admit(pod("p", [], [use(2)], [use(3), use(4)], init=[[use(1)]], sidecars=[[use(5)]]))
    assert [(one.container.name, one.container.uses[0].uuid) for one in answers if isinstance(one, GiveDevices)] == [
        ("i0", uuid(1)),
        ("s0", uuid(5)),
        ("c1", uuid(2)),
        ("c2", uuid(3)),
    ]


def test_a_record_without_slots_for_init_containers_is_read_as_older_schedulers_wrote_it() -> None:
    _, kubelet = agent()
    text = f"{uuid(6)},NVIDIA,100,1:;"
    [answer] = kubelet.admit(pod("p", [use(6)], init=[[]], record=text))
    assert isinstance(answer, GiveDevices)
    assert answer.container.uses == (use(6, 100, 1),)


def test_a_record_without_empty_slots_belongs_to_the_containers_that_ask() -> None:
    _, kubelet = agent()
    text = f"{uuid(1)},NVIDIA,100,1:;{uuid(2)},NVIDIA,100,1:{uuid(3)},NVIDIA,100,1:;"
    answers = kubelet.admit(pod("p", [use(1)], [], [use(2), use(3)], record=text))
    assert [len(one.container.uses) for one in answers if isinstance(one, GiveDevices)] == [1, 2]


def test_a_question_waits_until_the_watch_shows_the_pod() -> None:
    core, kubelet = agent()
    late = pod("late", [use(0)])
    kubelet.listed.append("team/late")
    assert kubelet.ask(1) == []
    [answer, patch] = core.pod_seen(late)
    assert isinstance(answer, GiveDevices)
    assert isinstance(patch, PatchPod)


def test_a_pod_that_the_watch_never_shows_is_fetched_once() -> None:
    core, kubelet = agent()
    kubelet.listed.append("team/late")
    assert kubelet.ask(1) == []
    assert core.tick(PATIENCE / 2) == []
    assert core.tick(PATIENCE) == [FetchPods(1, ("team/late",))]
    assert core.tick(PATIENCE * 2) == []
    said = core.pods_fetched(1, [pod("late", [use(0)])], [])
    assert isinstance(said[0], GiveDevices)


def test_a_pod_that_nobody_knows_does_not_hold_up_the_next_one() -> None:
    core, kubelet = agent()
    kubelet.listed.append("team/static")
    kubelet.ask(1)
    core.tick(PATIENCE)
    assert isinstance(core.pods_fetched(1, [], ["team/static"])[0], Refuse)
    [answer] = kubelet.admit(pod("p", [use(0)]))
    assert isinstance(answer, GiveDevices)


def test_a_pod_is_waited_for_though_the_api_server_did_not_know_an_earlier_one_of_its_name() -> None:
    core, kubelet = agent()
    kubelet.listed.append("team/worker-0")
    kubelet.ask(1)
    core.tick(PATIENCE)
    core.pods_fetched(1, [], ["team/worker-0"])
    kubelet.listed.remove("team/worker-0")
    kubelet.admit(pod("other", [use(1)]))
    kubelet.listed.append("team/worker-0")
    assert kubelet.ask(1) == []
    [answer, _] = core.pod_seen(pod("worker-0", [use(0)]))
    assert isinstance(answer, GiveDevices)


def test_a_rejected_pod_that_is_still_listed_is_not_taken_for_the_asking_one() -> None:
    core, kubelet = agent()
    core.pod_seen(pod("gone", [use(0)], phase="Failed"))
    kubelet.listed.append("team/gone")
    [answer] = kubelet.admit(pod("p", [use(1)]))
    assert isinstance(answer, GiveDevices)
    assert answer.pod.name == "p"


def test_of_two_pods_that_could_ask_neither_is_guessed() -> None:
    core, kubelet = agent()
    for name in ("a", "b"):
        core.pod_seen(pod(name, [use(0)]))
        kubelet.listed.append(f"team/{name}")
    [refuse, *_] = kubelet.ask(1)
    assert isinstance(refuse, Refuse)
    assert "it is not certain which of these asks: team/a (c0), team/b (c0)" in refuse.message


def test_of_two_pods_the_one_that_wants_as_many_devices_asks() -> None:
    core, kubelet = agent()
    core.pod_seen(pod("one", [use(0)]))
    core.pod_seen(pod("two", [use(1), use(2)]))
    kubelet.listed += ["team/one", "team/two"]
    [answer, *_] = kubelet.ask(2)
    assert isinstance(answer, GiveDevices)
    assert answer.pod.name == "two"


def test_after_a_lost_checkpoint_a_running_pod_gets_the_same_again() -> None:
    _, kubelet = agent()
    kubelet.admit(pod("p", [use(0)]))
    kubelet.checkpoint.clear()
    [answer, *_] = kubelet.ask(1)
    assert isinstance(answer, GiveDevices)
    assert answer.is_repeated
    assert answer.container.uses == (use(0),)


def test_a_pod_of_another_process_of_the_agent_is_known_from_the_checkpoint() -> None:
    core, kubelet = agent()
    kubelet.admit(pod("old", [use(0)]))
    fresh = AgentCore(VENDOR, no_registration)
    fresh.cards_seen(list(core.cards.values()))
    fresh.pod_seen(pod("old", [use(0)]))
    kubelet.core = fresh
    [answer] = kubelet.admit(pod("new", [use(0)]))
    assert isinstance(answer, GiveDevices)
    assert answer.pod.name == "new"


# -- refusals


def test_a_pod_that_no_scheduler_placed_is_refused_by_name() -> None:
    _, kubelet = agent()
    [refuse] = kubelet.admit(pod("direct", [use(0)], annotations={}))
    assert refuse == Refuse(
        1, "team/direct was not placed by a scheduler: it has no annotation hami.io/vgpu-devices-allocated"
    )
    [event] = only(kubelet.told, PostEvent)
    assert isinstance(event, PostEvent)
    assert event.reason == "DevicesRefused"


def test_a_refused_pod_is_marked_and_does_not_confuse_the_next_one() -> None:
    _, kubelet = agent()
    kubelet.admit(pod("forged", [use(0, memory=10**6)]))
    [patch] = only(kubelet.told, PatchPod)
    assert patch == PatchPod("uid-forged", "team", "forged", {BIND_PHASE: "failed"})
    kubelet.listed.append("team/forged")
    [answer] = kubelet.admit(pod("p", [use(0)]))
    assert isinstance(answer, GiveDevices)


def test_a_card_that_fell_ill_after_the_decision_is_given_all_the_same() -> None:
    core, kubelet = agent()
    core.xid_seen(uuid(0), 79, 0.0)
    [answer] = kubelet.admit(pod("p", [use(0)]))
    assert isinstance(answer, GiveDevices)
    assert [one.uuid for one in answer.container.uses] == [uuid(0)]


def test_unknown_cards_are_refused() -> None:
    _, kubelet = agent()
    [refuse] = kubelet.admit(pod("p", [], record="GPU-x,NVIDIA,1,1:;", counts={"c0": 1}))
    assert isinstance(refuse, Refuse)
    assert refuse.message == "team/p names GPU-x, which this node does not have"


def test_more_than_a_card_has_is_refused() -> None:
    _, kubelet = agent()
    [refuse] = kubelet.admit(pod("p", [use(0, memory=50000)]))
    assert isinstance(refuse, Refuse)
    assert refuse.message == f"team/p would get 50000 MiB of {uuid(0)}, which has 40960, 0 taken"


def test_a_card_that_others_hold_is_not_given_twice_and_they_are_named() -> None:
    _, kubelet = agent()
    kubelet.admit(pod("first", [use(0, 30000, 10)]))
    [refuse] = kubelet.admit(pod("second", [use(0, 20000, 10)]))
    assert isinstance(refuse, Refuse)
    assert refuse.message.endswith("which has 40960, 30000 taken, held by team/first")


def test_room_of_a_pod_that_is_over_or_gone_is_free() -> None:
    core, kubelet = agent()
    kubelet.admit(pod("first", [use(0, 30000, 10)]))
    core.pod_seen(pod("first", [use(0, 30000, 10)], phase="Succeeded"))
    [answer] = kubelet.admit(pod("second", [use(0, 30000, 10)]))
    assert isinstance(answer, GiveDevices)
    core.pod_gone("uid-second")
    kubelet.listed.remove("team/second")
    [answer] = kubelet.admit(pod("third", [use(0, 30000, 10)]))
    assert isinstance(answer, GiveDevices)


def test_an_init_container_and_its_pod_do_not_add_up() -> None:
    _, kubelet = agent()
    answers = kubelet.admit(pod("p", [use(0, 40960, 100)], init=[[use(0, 40960, 100)]]))
    assert all(isinstance(one, GiveDevices) for one in answers)
    assert len(answers) == 2


def test_where_only_warnings_are_wanted_a_full_card_is_given_and_logged() -> None:
    _, kubelet = agent(only_warns=True)
    kubelet.admit(pod("first", [use(0, 30000, 10)]))
    [answer] = kubelet.admit(pod("second", [use(0, 20000, 10)]))
    assert isinstance(answer, GiveDevices)
    assert any(isinstance(one, LogNote) and one.event == "exceeded" for one in kubelet.told)


def test_a_record_that_does_not_match_the_containers_is_refused() -> None:
    _, kubelet = agent()
    [refuse] = kubelet.admit(pod("p", [use(0), use(1)], counts={"c0": 1}))
    assert isinstance(refuse, Refuse)
    assert refuse.message.startswith("team/p has a record that does not match its containers")


def test_a_record_that_cannot_be_read_is_refused() -> None:
    _, kubelet = agent()
    [refuse] = kubelet.admit(pod("p", [use(0)], record="nonsense;"))
    assert isinstance(refuse, Refuse)
    assert refuse.message.startswith("team/p has a record that cannot be read: hami.io/vgpu-devices-allocated")


# -- after the answer


def test_a_pod_is_patched_once_when_its_last_container_has_its_devices() -> None:
    _, kubelet = agent()
    kubelet.admit(pod("p", [use(0)], [], [use(1)]))
    [patch] = only(kubelet.told, PatchPod)
    assert patch == PatchPod("uid-p", "team", "p", {BIND_PHASE: "success", VENDOR.to_allocate: ";;;"})


def test_a_lock_is_released_by_its_pod_alone() -> None:
    core, kubelet = agent()
    lock = "2026-01-01T00:00:00Z,team,b"
    core.node_seen({LOCK: lock}, 0.0)
    kubelet.admit(pod("a", [use(0)]))
    assert only(kubelet.told, ReleaseLock) == []
    kubelet.admit(pod("b", [use(1)]))
    assert only(kubelet.told, ReleaseLock) == [ReleaseLock(lock)]


@pytest.mark.parametrize("memory", [100, 99999], ids=["given", "refused"])
def test_a_lock_that_the_watch_shows_after_the_answer_is_released(memory: int) -> None:
    core, kubelet = agent()
    core.node_seen({}, 0.0)
    assert only(core.pod_seen(pod("p", [use(0, memory)])), ReleaseLock) == []
    lock = {LOCK: "2026-01-01T00:00:00Z,team,p"}
    early, _ = agent()
    early.pod_seen(pod("p", [use(0, memory)]))
    assert only(early.node_seen(lock, 1.0), ReleaseLock) == [], "it has not been asked about"
    kubelet.admit(pod("p", [use(0, memory)]))
    assert only(core.node_seen(lock, 1.0), ReleaseLock) == [ReleaseLock(lock[LOCK])]
    assert only(core.node_seen(lock, 2.0), ReleaseLock) == []


def test_the_lock_of_a_pod_that_is_gone_is_released_after_a_look() -> None:
    core, _ = agent()
    lock = "2026-01-01T00:00:00Z,team,gone"
    core.node_seen({LOCK: lock}, 0.0)
    assert core.tick(29.0) == []
    assert core.tick(30.0) == [LookUpPod("team/gone")]
    assert core.pod_absent("team/gone") == [ReleaseLock(lock)]


def test_after_a_restart_turns_that_stayed_open_are_closed() -> None:
    core, _ = agent()
    core.pod_seen(pod("done", [use(0)]))
    core.pod_seen(pod("waiting", [use(1)]))
    said = core.started({("uid-done", "c0"): frozenset(("x",))})
    assert [one.name for one in said if isinstance(one, PatchPod)] == ["done"]


def test_a_checkpoint_with_other_ids_than_were_answered_is_told_loudly() -> None:
    core, kubelet = agent()
    kubelet.admit(pod("p", [use(0)]))
    [note] = core.checkpoint_seen({("uid-p", "c0"): frozenset(("other",))})
    assert note == LogNote(
        "allocation_mismatch", "the kubelet's checkpoint has other ids for team/p (c0)", is_error=True
    )
    assert core.checkpoint_seen({("uid-p", "c0"): frozenset(("other",))}) == []


def test_a_pod_that_the_kubelet_failed_without_the_agent_is_named_once_and_its_lock_freed() -> None:
    core, _ = agent()
    lock = "2026-01-01T00:00:00Z,team,missed"
    core.node_seen({LOCK: lock}, 0.0)
    missed = pod("missed", [use(0)], phase="Failed", reason="UnexpectedAdmissionError")
    note, patch, freed = core.pod_seen(missed)
    assert isinstance(note, LogNote)
    assert (note.event, note.message.split(";")[0]) == (
        "pod_missed",
        "the kubelet failed team/missed while it could not ask the agent for its devices",
    )
    assert patch == PatchPod("uid-missed", "team", "missed", {BIND_PHASE: "failed"})
    assert freed == ReleaseLock(lock)
    assert core.pod_seen(missed) == []
    assert core.pod_seen(pod("old", [use(0)], phase="Failed", reason="Evicted")) == []


def test_a_pod_that_the_kubelet_failed_after_the_answer_is_named_and_a_refused_one_is_not() -> None:
    core, kubelet = agent()
    kubelet.admit(pod("served", [use(0)]))
    kubelet.admit(pod("forged", [use(0, memory=10**6)]))
    note, patch = core.pod_seen(pod("served", [use(0)], phase="Failed", reason="UnexpectedAdmissionError"))
    assert isinstance(note, LogNote)
    assert note.message == "the kubelet failed team/served after the agent had answered for it; create the pod again"
    assert patch == PatchPod("uid-served", "team", "served", {BIND_PHASE: "failed"})
    assert core.pod_seen(pod("forged", [use(0)], phase="Failed", reason="UnexpectedAdmissionError")) == []


# -- preferences


def test_preferred_ids_are_those_of_the_decided_cards() -> None:
    core, kubelet = agent()
    core.pod_seen(pod("p", [use(3), use(5)]))
    kubelet.listed.append("team/p")
    available = [f"{uuid(index)}-{number}" for index in range(8) for number in range(3)]
    assert prefer(core, kubelet, available, (), 2).ids == (f"{uuid(3)}-0", f"{uuid(5)}-0")
    taken_over = f"{uuid(5)}-2"
    assert prefer(core, kubelet, available, (taken_over,), 2).ids == (taken_over, f"{uuid(3)}-0")


def test_the_question_after_a_preference_is_answered_without_asking_the_kubelet_again() -> None:
    core, kubelet = agent()
    core.pod_seen(pod("p", [use(3)]))
    kubelet.listed.append("team/p")
    ids = prefer(core, kubelet, [f"{uuid(3)}-0", f"{uuid(4)}-0"], (), 1).ids
    [answer, patch] = core.asked(7, ids, 1.0)
    assert isinstance(answer, GiveDevices)
    assert (answer.number, answer.pod.name, answer.container.uses) == (7, "p", (use(3),))
    assert isinstance(patch, PatchPod)
    assert core.asked(8, ids, 1.0) == [LookAtKubelet(8)], "once"


@pytest.mark.parametrize("change", ["other ids", "later", "gone", "another preference", "somebody else lacks devices"])
def test_a_question_that_may_be_another_ones_is_looked_into(change: str) -> None:
    core, kubelet = agent()
    core.pod_seen(pod("p", [use(3)]))
    kubelet.listed.append("team/p")
    if change == "somebody else lacks devices":
        core.pod_seen(pod("running", [use(0)], phase="Running"))
        core.served["uid-running", "c0"] = frozenset(("x",))
        kubelet.listed.append("team/running")
    available = [f"{uuid(3)}-0", f"{uuid(4)}-0"]
    ids = prefer(core, kubelet, available, (), 1).ids
    assert ids == (f"{uuid(3)}-0",)
    if change == "other ids":
        ids = (f"{uuid(4)}-0",)
    elif change == "gone":
        core.pod_gone("uid-p")
    elif change == "another preference":
        core.preference_asked(5, available, (), 1, 0.5)
    assert core.asked(7, ids, 60.0 if change == "later" else 1.0) == [LookAtKubelet(7)]


def test_without_free_ids_of_the_decided_cards_any_ids_do() -> None:
    core, kubelet = agent()
    core.pod_seen(pod("p", [use(3), use(5)]))
    kubelet.listed.append("team/p")
    assert prefer(core, kubelet, ["b-0", "a-0", "c-0"], (), 2).ids == ("a-0", "b-0")
    assert isinstance(prefer(core, Kubelet(core), ["b-0", "a-0"], (), 1), Prefer)


# -- cards and the node


def test_an_error_of_a_card_takes_it_off_the_offer_until_it_has_been_quiet() -> None:
    core, _ = agent()
    assert core.xid_seen(uuid(0), 31, 0.0) == []
    said = core.xid_seen(uuid(0), 94, 10.0)
    assert only(said, OfferDevices)
    assert not core.health.is_well(uuid(0))
    assert core.tick(609.0) == []
    assert only(core.tick(610.0), OfferDevices)
    assert core.health.is_well(uuid(0))


def test_an_error_that_needs_a_reset_does_not_pass_by_itself() -> None:
    core, _ = agent()
    core.xid_seen(uuid(0), 79, 0.0)
    core.xid_seen(uuid(0), 94, 10.0)
    assert core.tick(10_000.0) == []
    assert core.health.reason(uuid(0)) == "XID 94, which needs a reset of the card"


def test_the_node_is_written_when_something_differs_and_only_then() -> None:
    core = AgentCore(VENDOR, lambda cards, well: {"r": ",".join(f"{one.uuid}{well(one.uuid)}" for one in cards)})
    assert core.node_seen({}, 0.0) == []
    [_, patch] = core.cards_seen([card(0)])
    assert patch == PatchNode({"r": f"{uuid(0)}True"})
    assert core.node_seen({}, 1.0) == []
    assert core.node_seen({"r": f"{uuid(0)}True"}, 2.0) == []
    assert core.cards_seen([card(0)]) == []
    assert core.tick(3.0) == []
    assert core.node_seen({}, 4.0) == [PatchNode({"r": f"{uuid(0)}True"})]
    labelled = AgentCore(VENDOR, no_registration, labels={"l": "true", "other": None})
    labelled.cards_seen([card(0)])
    assert labelled.node_seen({}, 0.0, {"other": "x"}) == [PatchNode({}, {"l": "true", "other": None})]
    assert labelled.node_seen({"l": "annotated"}, 1.0, {"l": "true"}) == []
    assert labelled.node_seen({}, 2.0, {}) == [PatchNode({}, {"l": "true"})]
    core.node_patch_failed()
    assert core.tick(5.0) == [PatchNode({"r": f"{uuid(0)}True"})]


# -- all shapes of pods

_slices = st.builds(use, st.integers(0, 3), st.integers(1, 6000), st.integers(0, 20))


def _distinct(uses: list) -> list:  # type: ignore[type-arg]
    return list({one.uuid: one for one in uses}.values())


_lists = st.lists(_slices, max_size=2).map(_distinct)
_pods = st.tuples(st.lists(_lists, max_size=2), st.lists(_lists, max_size=1), st.lists(_lists, min_size=1, max_size=3))


@given(st.lists(_pods, min_size=1, max_size=8), st.randoms(use_true_random=False), st.booleans())
def test_every_container_gets_its_own_and_no_card_more_than_it_has(  # type: ignore[type-arg]
    shapes: list, order: object, prefers: bool
) -> None:
    core, kubelet = agent(*[card(index, memory=10_000, split=6, cores=60) for index in range(4)])
    kubelet.prefers = prefers
    pods = [pod(f"p{n}", *apps, init=init, sidecars=side) for n, (init, side, apps) in enumerate(shapes)]
    order.shuffle(pods)  # type: ignore[attr-defined]
    for one in pods:
        core.pod_seen(one)
    for one in pods:
        number = int(one.metadata.name[1:])
        init, side, apps = shapes[number]
        expected = [uses for uses in (*init, *side, *apps) if uses]
        answers = kubelet.admit(one, is_seen=False)
        given_out = [list(said.container.uses) for said in answers if isinstance(said, GiveDevices)]
        assert given_out == expected[: len(given_out)]
        assert all(said.pod.name == one.metadata.name for said in answers if isinstance(said, GiveDevices))
        assert len(answers) == len(expected) or isinstance(answers[-1], Refuse)
    holding = {uid for uid, _ in kubelet.checkpoint}
    for index in range(4):
        held = [
            one
            for view in core.pods.values()
            if view.uid in holding
            for one in card_uses([c.kind for c in view.containers], tuple(c.uses for c in view.containers))
            if one.uuid == uuid(index)
        ]
        assert sum(one.slots for one in held) <= 6
        assert sum(one.memory for one in held) <= 10_000
        assert sum(one.cores for one in held) <= 60
