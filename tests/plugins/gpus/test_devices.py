"""Which nodes have the cards that all containers of a pod ask for."""

from tests.scenario import container, decide, node, pod, scenario
from tonnage.framework.session import Session
from tonnage.plugins.defaults import default_plugins


def test_a_request_between_two_that_are_the_same_is_looked_at_too():
    same, other = {"gpus": 1, "memory": 1000}, {"cambricon.com/vmlu": 1}
    wants = [
        container("a", **same),
        container("b", **other),
        container("c", **same),
        container("d", gpus=1, memory=10**6),
    ]
    said = decide(scenario(node("n", gpus=4)), pod("p", containers=wants))
    assert [(rejected.reason, rejected.count) for rejected in said.rejected] == [("NodeUnregistered", 1)]


def test_no_new_pod_with_devices_goes_where_the_device_plugin_keeps_others_waiting():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1), node("c", gpus=1, gpu_memory=500))
    cluster.device_plugins.update({"a"}, {"b"})
    said = decide(cluster, pod("p", 1, memory=1000))
    told = {rejected.reason: rejected.message for rejected in said.rejected}
    assert told.keys() == {"DevicePluginSilent", "DevicePluginBusy", "CardInsufficientMemory"}
    assert told["DevicePluginSilent"].startswith("a: its device plugin does not answer")
    assert told["DevicePluginBusy"].startswith("b: its device plugin is busy")
    assert decide(cluster, pod("plain", cpu=1)).node == "a", "nothing is handed over to it"


def test_such_a_node_is_used_again_afterwards_in_the_same_session():
    cluster = scenario(node("a", gpus=1), pod("p", 1, memory=1000))
    with Session(cluster, default_plugins()) as session:
        task = cluster.waiting["default/p"]
        assert cluster.device_plugins.update({"a"})
        assert session.decide(task).node is None
        assert cluster.device_plugins.update(set(), {"a"})
        assert not cluster.device_plugins.update(set(), {"a"})
        assert session.decide(task).node is None
        assert cluster.device_plugins.update(set())
        assert session.decide(task).node == "a"
