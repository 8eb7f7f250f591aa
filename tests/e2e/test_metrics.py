"""A scrape of the extender at work: what a real API server and kube-scheduler did shows in it."""

import json
import urllib.request

from tests.e2e.extending import extended, wanted
from tests.extender.recording import parsed, values
from tests.scenario import node
from tests.waiting import PATIENCE, until
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports

PODS = 6


def test_a_scrape_says_where_the_time_of_bound_pods_went(control_plane: ControlPlane) -> None:
    plane = control_plane
    plane.api.create_nodes([node(name, gpus=2, nvidia__com__gpu=20) for name in ("a", "b")])
    (port,) = free_ports(1)

    def scrape() -> dict[str, dict[frozenset[tuple[str, str]], float]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            return parsed(answer.read().decode())

    def plain(name: str) -> float:
        return scrape()[f"tonnage_{name}"][frozenset()]

    with extended(plane, "--metrics-bind-address", f"127.0.0.1:{port}") as world:
        before = scrape()
        plane.api.create_pods([wanted(f"p{number}", 1, memory=1000) for number in range(PODS)])
        plane.api.create_pods([wanted("huge", 1, memory=10**6)])
        world.until_running(*[f"p{number}" for number in range(PODS)])
        until(lambda: plain("informer_delay_seconds_count") == PODS, "the watch does not show the binds")
        until(lambda: plain("bind_writes_queued") == 0, "the labels are not written")
        found = scrape()
        log = [json.loads(line) for line in world.extender.log.read_text().splitlines() if line.startswith("{")]
    seconds = {
        name: found[f"tonnage_{name}"][frozenset()]
        for name in ("bind_duration_seconds_sum", "bind_wait_duration_seconds_sum")
    }
    assert found["tonnage_bind_wait_duration_seconds_count"] == {frozenset(): PODS}
    assert seconds["bind_wait_duration_seconds_sum"] <= seconds["bind_duration_seconds_sum"]
    requests = values(found["tonnage_request_duration_seconds_count"], "verb")
    assert requests["bind",] == PODS
    assert requests["filter",] >= PODS + 1
    assert values(found["tonnage_decisions_total"], "verb", "outcome")["bind", "bound"] == PODS
    writes = values(found["tonnage_api_write_duration_seconds_count"], "verb", "resource", "outcome")
    assert writes["POST", "pods/binding", "success"] == PODS
    assert set(values(found["tonnage_bind_conflicts_total"], "outcome").values()) == {0}
    assert set(values(found["tonnage_reservations"], "state").values()) == {0}
    assert set(values(found["tonnage_reservation_oldest_age_seconds"], "state").values()) == {0}
    assert values(found["tonnage_informer_apply_duration_seconds_count"], "kind")["Pod",] > 0
    assert 0 <= max(values(found["tonnage_informer_silence_seconds"], "kind").values()) < 120
    grown = {name for name in found if name.startswith("tonnage_")} - set(before)
    assert {name.rsplit("_", 1)[0] for name in grown} <= {
        "tonnage_api_write_duration_seconds",
        "tonnage_informer_apply_duration_seconds",
        "tonnage_unschedulable_reasons",
    }
    told = [line for line in log if line["event"] == "bound"]
    assert sorted(line["pod"] for line in told) == [f"default/p{number}" for number in range(PODS)]
    waits = [line["tries"] for line in log if line["event"] == "unschedulable"]
    assert waits[0] == 1
