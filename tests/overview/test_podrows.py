"""Rows of pods: the state, place and wishes of each, made again only for pods that changed."""

from msgspec.structs import replace

from tests.scenario import node, pod, running, scenario
from tonnage.overview.podrows import LEAVING, RUNNING, STARTING, STATES, WAITING, PodRow, PodRows
from tonnage.overview.waitingpods import WaitingPods


def by_name(rows: list[PodRow]) -> dict[str, PodRow]:
    return {row.pod: row for row in rows}


def test_every_pod_has_a_row_with_its_state_and_place() -> None:
    cluster = scenario(
        node("a", gpus=2),
        running("runs", on="a", gpu=0, memory=100),
        running("starts", on="a", gpu=1, memory=100),
        pod("waits", 2),
    )
    starts = cluster.running["default/starts"].pod
    cluster.upsert_pod(replace(starts, status=replace(starts.status, phase="Pending")))
    waiting = WaitingPods(cluster)
    rows = by_name(PodRows(cluster).rows(waiting.rows(lambda task: None)))
    assert {name: (row.state, row.node) for name, row in rows.items()} == {
        "default/runs": (RUNNING, "a"),
        "default/starts": (STARTING, "a"),
        "default/waits": (WAITING, ""),
    }
    assert (rows["default/waits"].asks, rows["default/waits"].gpus) == ("2 GPU", 2)
    assert {row.state for row in rows.values()} <= set(STATES)


def test_a_row_is_made_again_only_when_its_pod_has_changed() -> None:
    cluster = scenario(
        node("a", gpus=2), running("stays", on="a", gpu=0, memory=100), running("goes", on="a", gpu=1, memory=100)
    )
    pods = PodRows(cluster)
    before = by_name(pods.rows(()))
    goes = cluster.running["default/goes"].pod
    cluster.upsert_pod(replace(goes, metadata=replace(goes.metadata, deletionTimestamp="2026-01-01T00:00:00Z")))
    after = by_name(pods.rows(()))
    assert after["default/stays"] is before["default/stays"]
    assert (before["default/goes"].state, after["default/goes"].state) == (RUNNING, LEAVING)
    cluster.remove_pod("default/goes")
    assert set(by_name(pods.rows(()))) == {"default/stays"}
