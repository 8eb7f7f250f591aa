"""Links between cards: HAMi's scores, and one Event about cards that are linked in one direction only."""

import msgspec

from tests.agent.scenes import VENDOR, card, uuid
from tonnage.agent.core.agentcore import LINKS_EVENT, AgentCore
from tonnage.agent.core.cards import Card
from tonnage.agent.core.instructions import PatchNode, PostNodeEvent
from tonnage.agent.core.links import CardLinks, pair_scores
from tonnage.agent.core.registration import NodeRegistration
from tonnage.model.meta import ObjectMeta
from tonnage.model.node import Node


def linked(*cards: CardLinks) -> list[Card]:
    return [msgspec.structs.replace(card(index), links=links) for index, links in enumerate(cards)]


def test_every_way_over_pci_has_its_score() -> None:
    for level, score in ((50, 10), (40, 20), (30, 30), (20, 40), (10, 50), (0, 60)):
        scores, _ = pair_scores({"a": CardLinks({"b": level}), "b": CardLinks({"a": level})})
        assert scores == {"a": {"b": score}, "b": {"a": score}}


def test_nvlinks_count_directly_or_through_switches() -> None:
    a, b = CardLinks({"b": 40}, {"b": 12}), CardLinks({"a": 40}, {"a": 12})
    assert pair_scores({"a": a, "b": b})[0]["a"] == {"b": 1220}
    a, b = CardLinks({"b": 40}, switched=18), CardLinks({"a": 40}, switched=6)
    assert pair_scores({"a": a, "b": b})[0] == {"a": {"b": 620}, "b": {"a": 620}}
    a, b = CardLinks({"b": 40}, {"b": 19}), CardLinks({"a": 40}, {"a": 19})
    assert pair_scores({"a": a, "b": b})[0]["a"] == {"b": 20}


def test_a_link_in_one_direction_scores_nothing_and_is_told_once() -> None:
    core = AgentCore(VENDOR, NodeRegistration("1").annotations)
    core.node_seen({}, 0.0)
    one, two, three = uuid(0), uuid(1), uuid(2)
    cards = linked(
        CardLinks({two: 10, three: 50}, {two: 4}),
        CardLinks({one: 10, three: 50}),
        CardLinks({one: 50, two: 50}),
    )
    said = core.cards_seen(cards)
    [event] = [one for one in said if isinstance(one, PostNodeEvent)]
    assert event.reason == LINKS_EVENT
    assert f"{one} and {two}" in event.message
    [patch] = [one for one in said if isinstance(one, PatchNode)]
    node = Node(ObjectMeta("n", annotations={key: value for key, value in patch.annotations.items() if value}))
    assert VENDOR.pair_scores(node) == {
        one: {two: 0, three: 10},
        two: {one: 0, three: 10},
        three: {one: 10, two: 10},
    }
    said = core.cards_seen([*cards, card(3)])
    assert not [one for one in said if isinstance(one, PostNodeEvent)]


def test_cards_whose_links_are_not_known_have_no_scores() -> None:
    written = NodeRegistration("1").annotations([card(0), card(1)], lambda _: True)
    assert "hami.io/node-nvidia-score" not in written
