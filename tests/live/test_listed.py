"""A cluster that is listed once: what is there, what is absent, and which right is missing."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.kube.fake_server import NODES, PODS, QUOTAS, FakeServer
from tests.kube.live import run
from tests.live.observing import VOLCANO_QUEUES, away, observed
from tests.paths import ROOT
from tonnage.devices.catalog import default_vendors
from tonnage.kube.errors import ConnectionLostError
from tonnage.kube.watch import ForbiddenError
from tonnage.live.kinds import viewer_rules
from tonnage.live.listed import ListedCluster, list_cluster
from tonnage.model.group import VolcanoQueue


def look(
    folder: Path, check: Callable[[ListedCluster], None], prepare: Callable[[FakeServer], None] = lambda server: None
) -> None:
    async def main() -> None:
        async with observed(folder, prepare) as now:
            check(await list_cluster(now.client, default_vendors()))
            assert all("watch" not in query for _, query in now.server.asked)

    run(main())


def test_everything_is_listed_once_and_nothing_is_watched(tmp_path: Path) -> None:
    def check(live: ListedCluster) -> None:
        assert live.cluster.nodes.keys() == {"a", "b"}
        assert live.cluster.holders == {"default/x": "a"}
        assert live.cluster.waiting.keys() == {"default/y"}
        assert (live.problems(), live.stale_since, live.changes) == ([], None, 0)

    look(tmp_path, check)


def test_a_kind_whose_definitions_are_not_installed_is_absent(tmp_path: Path) -> None:
    look(tmp_path, lambda live: _same(live.cluster.groups.given(VolcanoQueue), {}))


def _same(one: object, other: object) -> None:
    assert one == other


def test_a_kind_that_may_not_be_listed_is_a_problem_that_names_the_right(tmp_path: Path) -> None:
    def check(live: ListedCluster) -> None:
        assert live.cluster.nodes.keys() == {"a", "b"}
        (problem,) = live.problems()
        assert problem.object == "ResourceQuota"
        assert "may not list resourcequotas" in problem.message
        assert "ClusterRole" in problem.message

    look(tmp_path, check, lambda server: server.forbidden.add(QUOTAS))


def test_a_kind_that_is_not_installed_is_absent_for_who_may_not_list_it_too(tmp_path: Path) -> None:
    """The API server says 403 to those before it says 404."""
    look(
        tmp_path,
        lambda live: _same(live.problems(), []),
        lambda server: server.forbidden.add(VOLCANO_QUEUES),
    )


def test_an_installed_kind_that_may_not_be_listed_is_named_with_its_group(tmp_path: Path) -> None:
    def prepare(server: FakeServer) -> None:
        server.served.add(VOLCANO_QUEUES)
        server.forbidden.add(VOLCANO_QUEUES)

    def check(live: ListedCluster) -> None:
        (problem,) = live.problems()
        assert problem.object == "Queue.scheduling.volcano.sh"
        assert 'may not list queues of API group "scheduling.volcano.sh"' in problem.message

    look(tmp_path, check, prepare)


@pytest.mark.parametrize(("path", "what"), [(NODES, "nodes"), (PODS, "pods")])
def test_without_the_right_to_list_nodes_or_pods_there_is_nothing_to_see(tmp_path: Path, path: str, what: str) -> None:
    with pytest.raises(ForbiddenError, match=f"may not list {what}; let this account list and watch them"):
        look(tmp_path, lambda live: None, lambda server: server.forbidden.add(path))


def test_an_object_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    def prepare(server: FakeServer) -> None:
        server.put_plain(NODES, {"metadata": {"name": "bad"}, "spec": {"taints": "none"}})

    def check(live: ListedCluster) -> None:
        assert live.cluster.nodes.keys() == {"a", "b"}
        assert [problem.object for problem in live.problems()] == ["Node/bad"]

    look(tmp_path, check, prepare)


def test_a_server_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with away(tmp_path) as client:
            await list_cluster(client, default_vendors())

    with pytest.raises(ConnectionLostError, match=r"Cannot connect to 127\.0\.0\.1"):
        run(main())


def test_the_rules_are_those_of_the_deployed_role() -> None:
    (role,) = yaml.safe_load_all((ROOT / "deploy/manifests/viewer.yaml").read_text())
    assert role["rules"] == viewer_rules()
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
