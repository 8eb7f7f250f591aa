"""Which rules the extender repeats: kube-scheduler knows nodes better, but nothing about cards."""

from tests.extender.asking import asked, named
from tests.scenario import node, pod, running, scenario
from tonnage.extender.reservations import Reservations
from tonnage.extender.service import without_kube_schedulers_own
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins


def answer(cluster, wanted):
    plugins = without_kube_schedulers_own(default_plugins())
    return Reservations(Session(cluster, plugins), plugins).filter(asked(wanted, *cluster.nodes), 0).result


def test_what_kube_scheduler_let_through_is_not_questioned():
    cluster = scenario(node("a", gpus=1, unschedulable=True, cpu="1"), pod("x", on="a", cpu="1"))
    assert answer(cluster, named("p", gpus=1, memory=1000, cpu="8")).node_names == ["a"]


def test_a_node_whose_kubelet_offers_no_cards_gets_no_pods():
    cluster = scenario(node("a", gpus=1, **{"nvidia.com__gpu": 0}))
    result = answer(cluster, named("p", gpus=1, memory=1000))
    assert result.node_names == []
    assert result.failed_nodes == {"a": "InsufficientExtendedResource"}


def test_a_node_whose_kubelet_has_none_left_gets_no_more_pods():
    cluster = scenario(node("a", gpus=2, **{"nvidia.com__gpu": 2}), running("x", on="a", gpu=[0, 1], memory=10))
    assert answer(cluster, named("p", gpus=1, memory=1000)).failed_nodes == {"a": "InsufficientExtendedResource"}
    cluster.remove_pod("default/x")
    assert answer(cluster, named("p", gpus=1, memory=1000)).node_names == ["a"]


def test_a_node_that_does_not_say_how_many_it_offers_is_not_held_to_it():
    assert answer(scenario(node("a", gpus=1)), named("p", gpus=1, memory=1000)).node_names == ["a"]
