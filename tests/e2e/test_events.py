"""Events on a real API server: they are there, belong to their pod, and are counted up."""

import asyncio
import time
from collections import Counter
from typing import Any

from tests.kube.live import run
from tests.scenario import pod
from tests.waiting import until_true
from tonnage.extender.metrics import ExtenderMetrics
from tonnage.kube.client import connect
from tonnage.lab.api import Api, pods_path
from tonnage.lab.control_plane import ControlPlane
from tonnage.observability.events import BINDING_SUCCEED, FILTERING_FAILED, EventRecorder, ObjectRef

LONGEST = ".".join("abc-" * 15 + "abc" for _ in range(4))[:253].rstrip("-.")


def events_of(api: Api, name: str) -> list[dict[str, Any]]:
    found = api.get("/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={name}")["items"]
    assert isinstance(found, list)
    return found


def test_events_are_written_for_pods_of_any_name_and_counted_up(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.create_pods([pod("train-0", 1), pod(LONGEST, 1)])
    uid = api.get(f"{pods_path()}/train-0")["metadata"]["uid"]
    outcomes: Counter[str] = Counter()
    metrics = ExtenderMetrics()

    async def main() -> None:
        client = await connect(str(control_plane.kubeconfig()))
        client.observer = metrics.wrote
        events = EventRecorder(client, time.time, "hami-scheduler", lambda outcome: outcomes.update([outcome]))
        running = asyncio.create_task(events.run())
        events.record(
            ObjectRef("default", "train-0", uid), FILTERING_FAILED, "no available node: " + "é" * 1000, "alike"
        )
        events.record(ObjectRef("default", LONGEST, ""), BINDING_SUCCEED, "bound")
        await until_true(lambda: outcomes.total() == 2)
        for number in range(3):
            events.record(
                ObjectRef("default", "train-0", uid), FILTERING_FAILED, f"no available node, try {number}", "alike"
            )
        await until_true(lambda: outcomes.total() == 3)
        events.record(ObjectRef("nowhere", "lost", ""), BINDING_SUCCEED, "bound")
        await until_true(lambda: outcomes.total() == 4)
        running.cancel()
        await client.close()

    run(main())
    assert outcomes == {"written": 2, "repeated": 1, "refused": 1}
    (event,) = events_of(api, "train-0")
    assert {key: event[key] for key in ("reason", "type", "count", "message", "source", "involvedObject")} == {
        "reason": "FilteringFailed",
        "type": "Warning",
        "count": 4,
        "message": "no available node, try 2",
        "source": {"component": "hami-scheduler"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "train-0", "uid": uid},
    }
    assert event["firstTimestamp"] <= event["lastTimestamp"]
    (other,) = events_of(api, LONGEST)
    assert (other["reason"], other["type"], other["count"]) == ("BindingSucceed", "Normal", 1)
    assert len(other["metadata"]["name"]) <= 253
    written = {
        (sample.labels["verb"], sample.labels["resource"], sample.labels["outcome"]): sample.value
        for family in metrics.write_seconds.collect()
        for sample in family.samples
        if sample.name.endswith("_count")
    }
    assert written == {
        ("POST", "events", "success"): 2,
        ("PATCH", "events", "success"): 1,
        ("POST", "events", "refused"): 1,
    }
