"""Trials: what a policy or more nodes would change, without changing anything."""

import asyncio
import re

import pytest

from tests.dashboard.asking import Asked, ScenarioSource
from tests.recounting import differences
from tests.scenario import node, pod, running, scenario, session
from tonnage.cluster.cluster import Cluster
from tonnage.dashboard.app import always
from tonnage.dashboard.trial import ClusterTrial, TrialResult, added, try_out
from tonnage.plugins.defaults import default_plugins
from tonnage.server.copies import CopyError
from tonnage.server.viewer import Viewer


def tried(cluster: Cluster, trial: ClusterTrial, seconds: float = 60.0) -> TrialResult:
    return asyncio.run(try_out(cluster, default_plugins(), ["allocate"], trial, seconds))


@pytest.fixture
def full() -> Cluster:
    return scenario(
        node("a", gpus=1),
        running("x", on="a", memory=8000),
        *(pod(f"waits-{number}", 1, memory=8000) for number in range(3)),
    )


def test_more_nodes_let_waiting_pods_run(full: Cluster):
    result = tried(full, ClusterTrial(add=2, like="a"))
    assert (result.before.totals.waiting, result.after.totals.waiting) == (3, 1)
    assert (result.after.totals.nodes, result.after.placed) == (3, 2)
    assert [one.after for one in result.differences] == ["a-added-1", "a-added-2"]


def test_nodes_that_are_added_have_cards_of_their_own(full: Cluster):
    for one in added(full, "a", 2):
        full.upsert_node(one)
    assert len({card.uuid for state in full.states for card in state.devices}) == 3


def test_a_policy_may_place_all_pods_anew():
    cluster = scenario(
        *(node(name, gpus=2) for name in "ab"),
        running("x", on="a", gpu=0, memory=2000),
        running("y", on="b", gpu=0, memory=2000),
        pod("waits", 2, memory=8000),
    )
    result = tried(cluster, ClusterTrial(policy="binpack", scope="all"))
    assert result.after.totals.waiting <= result.before.totals.waiting
    assert result.after.totals.nodes == 2


def test_the_cluster_stays_as_it_was(full: Cluster):
    before = dict(full.holders), set(full.waiting), full.columns.clock
    tried(full, ClusterTrial(policy="spread", add=3, like="a", scope="all"))
    assert (dict(full.holders), set(full.waiting), full.columns.clock) == before
    assert differences(full) == []


def test_what_cannot_be_tried_is_said(full: Cluster):
    with pytest.raises(CopyError, match="there is no node nowhere"):
        tried(full, ClusterTrial(add=1, like="nowhere"))
    with pytest.raises(CopyError, match="took more than"):
        tried(full, ClusterTrial(add=1, like="a"), seconds=0.0)


def test_the_page_shows_both_sides_or_why_not(full: Cluster):
    asked = Asked(ScenarioSource(full))

    def shown(query: str) -> str:
        return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", asked.get(f"/what-if{query}").text))

    assert "then press Try" in shown("")
    assert "−2 pods" in shown("?add=2&like=a")
    assert "there is no policy invented" in shown("?policy=invented")
    assert "is no number of nodes from 0 to 500" in shown("?add=9999999")
    assert "is no number of nodes" in shown("?add=-1")


def test_a_waiting_pod_is_explained_on_a_copy(full: Cluster):
    asked = Asked(ScenarioSource(full))
    assert 'href="/explain/pods/default/waits-0"' in asked.get("/pods/default/waits-0").text
    clock = full.columns.clock
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", asked.get("/explain/pods/default/waits-0").text))
    assert "Nearest misses" in page
    assert "What would help" in page
    assert "default/x" in page
    assert full.columns.clock == clock
    assert asked.get("/explain/pods/default/none").status == 404


def test_a_tenant_has_its_pod_explained_without_names_of_others():
    cluster = scenario(
        node("gpu-a", gpus=1),
        running("theirs", on="gpu-a", memory=5000, namespace="other"),
        pod("waits", 1, memory=8000),
    )
    for sees_nodes in (True, False):
        tenant = Asked(ScenarioSource(cluster), always(Viewer(frozenset(("default",)), sees_nodes)))
        assert 'href="/explain/pods/default/waits"' in tenant.get("/pods/default/waits").text
        page = tenant.get("/explain/pods/default/waits").text
        assert "0 of 1 nodes fit: 1 CardInsufficientMemory" in page
        assert "It fits with less memory on the card" in page
        assert "theirs" not in page
        assert ("gpu-a</a> lacks 5,000 MiB" in page) == sees_nodes
        assert ("gpu-a" in page) == sees_nodes
        assert tenant.get("/explain/pods/other/theirs").status == 404


def test_a_nominated_pod_waits_in_a_copy_and_a_pod_with_a_place_has_it():
    cluster = scenario(node("a", gpus=2), running("victim", on="a", gpu=0, memory=8000))
    with session(cluster) as open_session:
        cluster.upsert_pod(pod("bound", 1, memory=8000))
        open_session.place(cluster.waiting["default/bound"])
        cluster.upsert_pod(pod("preemptor", 1, memory=8000))
        open_session.evict(cluster.running["default/victim"])
        with open_session.looking_ahead():
            open_session.place(cluster.waiting["default/preemptor"])
    assert cluster.pipelined == {"default/preemptor"}
    result = tried(cluster, ClusterTrial(add=1, like="a"))
    assert (result.before.totals.waiting, result.before.placed) == (1, 0)
    assert [(one.pod, one.after) for one in result.differences] == [("default/preemptor", "a-added-1")]
    page = Asked(ScenarioSource(cluster)).get("/explain/pods/default/preemptor").text
    assert "Waits: goes to a once default/victim left" in page
    assert "Runs on a" in Asked(ScenarioSource(cluster)).get("/explain/pods/default/bound").text
    assert cluster.pipelined == {"default/preemptor"}
