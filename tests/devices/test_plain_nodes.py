"""Nodes that offer GPUs and register none: how many cards they have, and what those are like."""

import pytest

from tests.scenario import node, problems, scenario
from tonnage.devices.base import Device
from tonnage.model.node import Node

HAMI = ["hami.io/node-nvidia-register", "hami.io/node-handshake", "hami.io/node-nvidia-score", "hami.io/device-cordon"]


def offering(gpus, **more) -> Node:
    thing = node("a", **more)
    thing.status.allocatable["nvidia.com/gpu"] = gpus
    return thing


def cards_of(thing: Node) -> list[Device]:
    return scenario(thing).nodes["a"].devices


def test_there_are_as_many_cards_as_gpus_are_offered():
    found = cards_of(offering("3", labels={"nvidia.com/gpu.memory": "40960", "nvidia.com/gpu.product": "A100"}))
    assert [card.uuid for card in found] == ["a/0", "a/1", "a/2"]
    assert found[1] == Device("a/1", 1, 100, 40960, 100, "A100", mode="plain")


@pytest.mark.parametrize("told", ["", "lots", "0", "-5", "1.5", "99999999999", "٤٠"])
def test_a_card_whose_memory_is_not_known_counts_with_a_hundred_and_says_so(told):
    (card,) = cards_of(offering("1", labels={"nvidia.com/gpu.memory": told}))
    assert (card.memory, card.memory_known) == (100, False)
    assert (card.share(50), card.share(100)) == ("0.5 of the card", "1 of the card")


def test_without_labels_a_card_is_of_the_vendors_name_and_of_unknown_memory():
    assert cards_of(offering(1)) == [Device("a/0", 0, 100, 100, 100, "NVIDIA", mode="plain", memory_known=False)]


@pytest.mark.parametrize("annotation", HAMI)
@pytest.mark.parametrize("text", ["", "[]", "Deleted_2026-01-01 00:00:00"])
def test_where_hami_has_been_the_offer_counts_shares_and_makes_no_cards(annotation, text):
    assert cards_of(offering("80", annotations={annotation: text})) == []


def test_annotations_about_other_vendors_do_not_matter():
    assert len(cards_of(offering("2", annotations={"hami.io/node-handshake-dcu": "Deleted_x"}))) == 2


@pytest.mark.parametrize("offer", ["0", "-1", "many"])
def test_an_offer_that_is_none_makes_no_cards(offer):
    assert cards_of(offering(offer)) == []


def test_the_capacity_counts_where_nothing_is_said_to_be_allocatable():
    thing = node("a", capacity={"nvidia.com/gpu": 2})
    thing = Node(thing.metadata, thing.spec, type(thing.status)(capacity={"nvidia.com/gpu": 2}))
    assert len(cards_of(thing)) == 2


def test_more_cards_than_a_node_can_have_are_a_problem_and_none_is_used():
    cluster = scenario(offering("129"))
    assert cluster.nodes["a"].devices == []
    assert problems(cluster) == [("Node/a", "status.allocatable[nvidia.com/gpu]")]
