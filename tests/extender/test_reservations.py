"""What the extender answers to filter and prioritize, and how long it keeps a place."""

import json

import msgspec
import pytest

from tests.extender.asking import asked, named, reservations
from tests.scenario import limits, node, pod, running, scenario
from tonnage.extender.protocol import BindArgs, FilterArgs, FilterResult, read
from tonnage.extender.reservations import ReservationState
from tonnage.extender.webhook.admission import AdmissionRules, PodAdmission
from tonnage.model.meta import ObjectMeta
from tonnage.model.quota import QuotaSpec, ResourceQuota
from tonnage.model.wire import WireError, encode


def three():
    return scenario(
        node("a", gpus=1), node("b", gpus=1), node("c"), running("x", on="a", memory=6000), pod("other", cpu="1")
    )


# -- filter


def test_one_node_is_returned_and_its_place_kept():
    cluster = three()
    server = reservations(cluster)
    answer = server.filter(asked(named("p", gpus=1, memory=1000), "a", "b", "c"), now=0)
    assert encode(answer.result) == (
        b'{"Nodes":null,"NodeNames":["a"],"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":""}'
    )
    assert server.reservation("default/p", "1").node == "a"
    assert list(cluster.reserved) == ["default/p"]


def test_only_the_nodes_that_were_sent_count():
    server = reservations(three())
    assert server.filter(asked(named("p", gpus=1, memory=1000), "b", "c"), 0).result.node_names == ["b"]


def test_when_nothing_fits_every_node_has_its_bare_reason_and_those_that_preemption_cannot_cure_stand_apart():
    server = reservations(three())
    answer = server.filter(asked(named("p", gpus=1, memory=7000), "a", "c", "gone"), 0)
    assert answer.result.node_names == []
    assert answer.result.failed_nodes == {"a": "CardInsufficientMemory", "gone": "NodeUnknown"}
    assert answer.result.failed_and_unresolvable_nodes == {"c": "NodeUnregistered"}
    assert answer.result.error == ""
    assert server.reservation("default/p", "1") is None


def test_a_pod_without_devices_gets_the_nodes_back():
    server = reservations(three())
    assert server.filter(asked(named("p", cpu="1"), "c", "a"), 0).result == FilterResult(node_names=["c", "a"])


def test_a_request_that_makes_no_sense_fits_nowhere():
    answer = reservations(three()).filter(asked(named("p", gpus=1, memory="8Gi"), "a", "b"), 0)
    assert answer.result.failed_and_unresolvable_nodes == {"a": "InvalidRequest", "b": "InvalidRequest"}


def test_a_repeated_filter_replaces_the_place():
    cluster = three()
    server = reservations(cluster)
    wanted = named("p", gpus=1, memory=1000)
    server.filter(asked(wanted, "a", "b"), 0)
    assert server.filter(asked(wanted, "b"), 1).result.node_names == ["b"]
    assert cluster.holders == {"default/x": "a", "default/p": "b"}


def test_while_a_bind_is_on_its_way_the_same_node_is_returned():
    server = reservations(three())
    wanted = named("p", gpus=1, memory=1000)
    server.filter(asked(wanted, "a", "b"), 0)
    server.reservation("default/p", "1").state = ReservationState.BINDING
    assert server.filter(asked(wanted, "a", "b"), 99).result.node_names == ["a"]
    assert "on its way" in server.filter(asked(wanted, "b"), 99).result.error


def test_nothing_goes_to_a_node_whose_plugin_is_silent():
    cluster = three()
    server = reservations(cluster)
    cluster.device_plugins.update({"a"})
    assert server.filter(asked(named("p", gpus=1, memory=1000), "a", "b"), 0).result.node_names == ["b"]
    answer = server.filter(asked(named("q", gpus=1, memory=1000), "a"), 0)
    assert answer.result.failed_and_unresolvable_nodes == {"a": "DevicePluginSilent"}


def test_a_pod_that_runs_already_keeps_its_place():
    cluster = three()
    bound = msgspec.structs.replace(
        named("p", gpus=1, memory=1000), spec=msgspec.structs.replace(pod("p", 1).spec, nodeName="b")
    )
    cluster.upsert_pod(bound)
    answer = reservations(cluster).filter(asked(named("p", gpus=1, memory=1000), "a"), 0)
    assert answer.result.error == "default/p is bound to b already"
    assert cluster.holders["default/p"] == "b"


# -- other placement


def test_all_nodes_that_fit_are_returned_and_nothing_is_kept():
    cluster = three()
    answer = reservations(cluster).feasible(asked(named("p", gpus=1, memory=1000), "a", "b", "c"))
    assert answer.result.node_names == ["a", "b"]
    assert answer.result.failed_and_unresolvable_nodes == {"c": "NodeUnregistered"}
    assert not cluster.reserved


def test_scores_go_from_0_to_10_and_the_best_gets_10():
    cluster = scenario(node("a", gpus=1), node("b", gpus=1), node("c", gpus=1), node("d"))
    cluster.upsert_pod(running("x", on="a", memory=7000, cores=50))
    cluster.upsert_pod(running("y", on="b", memory=4000))
    server = reservations(cluster)
    scores = {p.host: p.score for p in server.prioritize(asked(named("p", gpus=1, memory=1000), *"abcd"))}
    assert scores["a"] == 10
    assert scores["c"] == scores["d"] == 0
    assert 0 < scores["b"] < 10
    assert {p.score for p in server.prioritize(asked(named("q", cpu="1"), "a", "b"))} == {0}


def test_whole_nodes_are_answered_without_keeping_anything():
    cluster = three()
    nodes = [node("new", gpus=1), node("bare"), node("a", gpus=1)]
    items = {"items": [msgspec.to_builtins(one) | {"extra": {"kept": True}} for one in nodes]}
    answer = reservations(cluster).filter(asked(named("p", gpus=1, memory=7000), nodes=items), 0).result
    returned = json.loads(encode(answer))
    assert [item["metadata"]["name"] for item in returned["Nodes"]["items"]] == ["new"]
    assert returned["Nodes"]["items"][0]["extra"] == {"kept": True}
    assert answer.failed_nodes == {"a": "CardInsufficientMemory"}
    assert answer.failed_and_unresolvable_nodes == {"bare": "NodeUnregistered"}
    assert not cluster.reserved


# -- how long a place is kept


def test_a_place_for_a_pod_that_the_watch_does_not_show_expires_soon():
    cluster = three()
    server = reservations(cluster, timeout=60)
    server.filter(asked(named("p", gpus=1, memory=1000), "a"), 0)
    server.filter(asked(named("shown-later", uid="2", gpus=1, memory=1000), "a"), 0)
    cluster.upsert_pod(named("shown-later", uid="2", gpus=1, memory=1000))
    assert server.expire(9) == []
    assert [one.task.key for one in server.expire(10)] == ["default/p"]
    assert list(cluster.reserved) == ["default/shown-later"]
    assert "default/p" not in cluster.waiting


def test_a_place_that_nobody_binds_expires():
    cluster = three()
    cluster.upsert_pod(named("p", gpus=1, memory=1000))
    server = reservations(cluster, timeout=60)
    server.filter(asked(named("p", gpus=1, memory=1000), "a"), 0)
    assert server.expire(59) == []
    assert [one.node for one in server.expire(60)] == ["a"]
    assert not cluster.reserved
    assert server.count()[ReservationState.HELD] == 0


@pytest.mark.parametrize("state", [ReservationState.BINDING, ReservationState.BOUND])
def test_a_place_whose_bind_is_on_its_way_does_not_expire(state):
    cluster = three()
    server = reservations(cluster)
    server.filter(asked(named("p", gpus=1, memory=1000), "a"), 0)
    server.reservation("default/p", "1").state = state
    assert server.expire(1e9) == []
    assert server.count()[state] == 1
    assert list(cluster.reserved) == ["default/p"]


def test_a_place_goes_when_its_pod_goes_or_is_another_one_or_runs():
    for end in ("gone", "another", "runs"):
        cluster = three()
        server = reservations(cluster)
        wanted = named("p", gpus=1, memory=1000)
        server.filter(asked(wanted, "a"), 0)
        if end == "gone":
            cluster.remove_pod("default/p")
        elif end == "another":
            cluster.upsert_pod(named("p", uid="2", gpus=1))
        else:
            cluster.upsert_pod(msgspec.structs.replace(wanted, spec=msgspec.structs.replace(wanted.spec, nodeName="a")))
        assert server.reservation("default/p", "1") is None
        assert not cluster.reserved


def test_the_right_of_another_pod_of_the_same_name_is_not_used():
    server = reservations(three())
    server.filter(asked(named("p", gpus=1, memory=1000), "a"), 0)
    assert server.reservation("default/p", "2") is None


def test_a_bind_without_a_place_decides_on_its_node_anew():
    cluster = three()
    server = reservations(cluster)
    assert server.decide_on(named("p", gpus=1, memory=1000), "b", 5).node == "b"
    assert server.reservation("default/p", "1").decided == 5
    assert server.decide_on(named("q", gpus=1, memory=8000), "a", 5).node is None


def test_a_place_that_was_refused_is_free_at_once():
    cluster = three()
    server = reservations(cluster)
    server.filter(asked(named("p", gpus=1, memory=1000), "a"), 0)
    server.release("default/p")
    server.release("default/p")
    assert not cluster.reserved


# -- wire


@pytest.mark.parametrize("case", [str, str.lower, str.upper, lambda key: key[0].lower() + key[1:]])
def test_keys_are_read_in_any_case(case):
    document = {case("PodName"): "p", case("PodNamespace"): "team", case("PodUID"): "1", case("Node"): "a"}
    assert read(json.dumps(document).encode(), BindArgs) == BindArgs("p", "team", "1", "a")
    filtered = {case("Pod"): msgspec.to_builtins(pod("p", 1)), case("NodeNames"): ["a"]}
    assert read(json.dumps(filtered).encode(), FilterArgs).node_names == ["a"]


def test_a_request_without_a_pod_says_so():
    assert reservations(three()).filter(read(b'{"NodeNames": ["a"]}', FilterArgs), 0).result.error


# -- quotas


def limited(memory, *objects):
    cluster = scenario(*objects)
    hard = {"limits.nvidia.com/gpumem": memory}
    cluster.quotas.upsert(ResourceQuota(ObjectMeta("q", "default"), QuotaSpec(hard)))
    return cluster


def test_a_reservation_counts_for_the_quota_until_it_expires():
    server = reservations(limited(8000, node("a", gpus=2)), timeout=60)
    assert server.filter(asked(named("p", gpus=1), "a"), 0).result.node_names == ["a"]
    over = server.filter(asked(named("q", gpus=1), "a"), 1).result
    assert (over.node_names, over.failed_nodes) == ([], {"a": "ResourceQuotaNotFit"})
    assert server.filter(asked(named("p", gpus=1), "a"), 2).result.node_names == ["a"]
    server.expire(100)
    assert server.filter(asked(named("q", gpus=1), "a"), 101).result.node_names == ["a"]


def test_webhook_and_filter_look_at_the_same_book():
    cluster = limited(8000, node("a", gpus=2))
    reservations(cluster).filter(asked(named("p", gpus=1, memory=5000), "a"), 0)
    new = {"spec": {"containers": [{"name": "main", "resources": {"limits": limits(1, memory=3001)}}]}}
    verdict = PodAdmission(cluster.vendors, AdmissionRules("s"), cluster.quotas).judge(new, "default")
    assert verdict.message == (
        "exceeding resource quota: nvidia.com/gpumem is limited to 8000, 5000 are used, and the pod asks for 3001"
    )


def test_new_nodes_do_not_help_a_pod_over_quota():
    cluster = limited(7999, node("a", gpus=1))
    new = [json.loads(encode(node(name, gpus=1))) for name in ("a", "b")]
    answer = reservations(cluster).filter(asked(named("p", gpus=1), nodes={"items": new}), 0)
    assert answer.result.failed_nodes == {"a": "ResourceQuotaNotFit", "b": "ResourceQuotaNotFit"}


# -- pods that the watch has not shown


def test_a_pod_that_the_watch_never_showed_does_not_wait_once_its_place_is_given_up():
    cluster = three()
    server = reservations(cluster)
    for give_up in (lambda: server.release("default/p"), lambda: server.expire(1000)):
        server.filter(asked(named("p", gpus=1, memory=1000), "a", "b"), 0)
        give_up()
        assert not cluster.reserved
        assert "default/p" not in cluster.waiting
    server.filter(asked(named("p", gpus=1, memory=1000), "a", "b"), 0)
    server.filter(asked(named("p", gpus=1, memory=9000), "a", "b"), 0)
    assert "default/p" not in cluster.pods()


@pytest.mark.parametrize("shown", ["before", "meanwhile"])
def test_a_pod_that_the_watch_showed_waits_again(shown):
    cluster, wanted = three(), named("p", gpus=1, memory=1000)
    server = reservations(cluster)
    if shown == "before":
        cluster.upsert_pod(wanted)
    server.filter(asked(wanted, "a", "b"), 0)
    if shown == "meanwhile":
        cluster.upsert_pod(wanted)
    server.filter(asked(wanted, "a", "b"), 1)
    server.release("default/p")
    assert "default/p" in cluster.waiting


def test_a_question_about_another_pod_of_the_same_name_does_not_make_a_place_last_for_ever():
    cluster = three()
    server = reservations(cluster)
    server.filter(asked(named("p", gpus=1, memory=1000), "a", "b"), 0)
    assert server.reservation("default/p", "another") is None
    assert server.reservation("default/p", "1") is not None
    server.expire(1000)
    assert not cluster.reserved


def test_a_question_about_nodes_that_do_not_exist_changes_no_answer_about_those_that_do():
    def answers(server):
        wanted = [named(f"p{memory}", gpus=1, memory=memory) for memory in (1000, 3000, 7500, 9000)]
        return [server.filter(asked(one, "a", "b", "c"), 0).result for one in wanted]

    server = reservations(three())
    invented = msgspec.to_builtins(node("z", gpus=1, gpu_memory=500))
    server.filter(asked(named("s", gpus=1, memory=7000), nodes={"items": [invented]}), 0)
    assert answers(server) == answers(reservations(three()))


def test_arguments_that_are_no_text_are_refused_also_where_they_are_only_handed_back():
    body = b'{"Pod": {"metadata": {"name": "p"}, "spec": {}}, "Nodes": {"items": [{"metadata": {"name": "\xe5:"}}]}}'
    with pytest.raises(WireError, match="utf-8"):
        read(body, FilterArgs)
    assert read(body.replace(b"\xe5", "å".encode()), FilterArgs).nodes is not None
