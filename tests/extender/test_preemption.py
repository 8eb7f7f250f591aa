"""Preempt: kube-scheduler's proposals are kept only where the pod's cards would be free."""

import json

import msgspec

from tests.scenario import ALLOCATED, node, pod, scenario
from tonnage.extender.preemption import PreemptArgs, preempt
from tonnage.extender.protocol import read
from tonnage.framework.session import Session
from tonnage.model.wire import encode
from tonnage.plugins.defaults import default_plugins


def named(thing, uid):
    return msgspec.structs.replace(thing, metadata=msgspec.structs.replace(thing.metadata, uid=uid))


def holding(name, on, memory):
    made = pod(name, 1, on=on, memory=memory, annotations={ALLOCATED: f"{on}/0,NVIDIA,{memory},0:;"})
    return named(made, f"uid-{name}")


def world():
    return scenario(
        node("a", gpus=1),
        node("b", gpus=1),
        holding("large", "a", 6000),
        holding("small", "a", 1000),
        holding("other", "b", 8000),
    )


def asked(wanted, **victims):
    by_node = {on: {"Pods": [{"UID": f"uid-{name}"} for name in names]} for on, names in victims.items()}
    return read(
        json.dumps({"Pod": msgspec.to_builtins(wanted), "NodeNameToMetaVictims": by_node}).encode(), PreemptArgs
    )


def answered(cluster, args):
    with Session(cluster, default_plugins()) as session:
        cluster.settle()
        before = cluster.columns.card_free.copy()
        result = preempt(session, args)
        assert (cluster.columns.card_free == before).all()
        assert not cluster.leaving
    return json.loads(encode(result))["NodeNameToMetaVictims"]


def test_a_node_stays_only_if_the_cards_would_be_free():
    wanted = pod("p", 1, memory=5000)
    assert answered(world(), asked(wanted, a=["small"], b=["other"])) == {
        "b": {"Pods": [{"UID": "uid-other"}], "NumPDBViolations": 0}
    }
    assert set(answered(world(), asked(wanted, a=["large"], b=["other"]))) == {"a", "b"}


def test_several_victims_count_together():
    assert set(answered(world(), asked(pod("p", 1, memory=8000), a=["large", "small"]))) == {"a"}
    assert answered(world(), asked(pod("p", 1, memory=8000), a=["large"])) == {}


def test_whole_pods_are_victims_too_and_the_answer_names_them_by_uid():
    victims = {"b": {"Pods": [msgspec.to_builtins(holding("other", "b", 8000))], "NumPDBViolations": 2}}
    document = {"Pod": msgspec.to_builtins(pod("p", 1, memory=8000)), "NodeNameToVictims": victims}
    args = read(json.dumps(document).encode(), PreemptArgs)
    assert answered(world(), args) == {"b": {"Pods": [{"UID": "uid-other"}], "NumPDBViolations": 2}}


def test_pods_without_devices_are_kube_schedulers_own_business():
    assert set(answered(world(), asked(pod("p", cpu="1"), a=["small"]))) == {"a"}


def test_victims_and_nodes_that_are_not_known_help_nobody():
    assert answered(world(), asked(pod("p", 1, memory=8000), a=["nobody"], elsewhere=["large"])) == {}
    assert answered(world(), read(b"{}", PreemptArgs)) == {}
