"""Whatever happens to a gang and to writes about it, in the end its status is right, and then nothing is written."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import virtualtime
from tests.groups import group, member
from tests.properties.worlds import examples
from tests.scenario import node, scenario
from tests.scheduler.watching import leads
from tonnage.actions.catalog import make_actions
from tonnage.cluster.jobs.job import PodStatus
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.kube.kinds import PODS, WATCHED
from tonnage.kube.resource import Change
from tonnage.model.group import VolcanoPodGroup
from tonnage.model.pod import Pod
from tonnage.model.wire import convert
from tonnage.plugins.defaults import default_plugins
from tonnage.scheduler.cyclerunner import CycleRunner
from tonnage.scheduler.messages import Messages
from tonnage.scheduler.status import podgroups, writer
from tonnage.scheduler.status.podgroups import PodGroupStatuses
from tonnage.scheduler.status.podgroupstatus import members_of, volcano_phase

VOLCANO_GROUPS = WATCHED[VolcanoPodGroup]

PODS_IN_ALL, MINIMUM = 3, 2
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("comes", "runs", "succeeds", "fails", "goes", "cycle", "watch", "wait")),
        st.integers(0, PODS_IN_ALL - 1),
    ),
    max_size=14,
)
TROUBLE = st.lists(
    st.sampled_from([None, ConnectionLostError("reset"), StatusError(500, "InternalError", "")]), max_size=4
)


class Server:
    """An API server with one group; what the watch shows may lag behind."""

    def __init__(self, trouble: list[Exception | None]) -> None:
        self.trouble = trouble
        self.status: dict[str, Any] = {}
        self.writes = 0
        self.cluster = scenario(node("a", cpu="2"))
        self.podgroup_statuses = PodGroupStatuses(
            self, self.cluster, lambda pod: True, lambda: 0.0, leads(), 1e9, 10**9
        )  # type: ignore[arg-type]
        self.cycle_runner = CycleRunner(self.cluster, default_plugins(), make_actions(("enqueue", "allocate")))
        self.failed: set[str] = set()

    async def request(self, method: str, path: str, *, body: Any, type_: str, timeout: float) -> bytes:
        self.writes += 1
        failure = self.trouble.pop() if self.trouble else None
        if not isinstance(failure, StatusError):
            # A write whose answer is lost may have happened.
            self.status |= body["status"]
        if failure is not None:
            raise failure
        return b"{}"

    def watch(self) -> None:
        thing = group("g", MINIMUM, phase="", created="1", minResources={"cpu": "1"})
        self.show(msgspec.structs.replace(thing, status=convert(self.status, type(thing.status))))

    def show(self, thing: VolcanoPodGroup | Pod, gone: bool = False) -> None:
        kind = PODS if isinstance(thing, Pod) else VOLCANO_GROUPS
        (kind.handler.drop(self.cluster, thing.key, thing) if gone else kind.handler.put(self.cluster, thing))
        self.podgroup_statuses.seen(kind, [Change(thing.key, thing, gone)])

    def step(self, what: str, number: int) -> None:
        name = f"p{number}"
        phases = {"comes": (None, "Pending"), "runs": ("a", "Running")}
        phases |= {"succeeds": ("a", "Succeeded"), "fails": ("a", "Failed")}
        if what == "cycle":
            self.cycle()
        elif what == "watch":
            self.watch()
        elif what in phases:
            on, phase = phases[what]
            self.failed.discard(name)
            self.failed |= {name} if what == "fails" else set()
            self.show(member(name, "g", cpu=1, on=on, phase=phase))
        elif what == "goes":
            self.failed.discard(name)
            self.show(member(name, "g", cpu=1), gone=True)

    def cycle(self) -> None:
        found = self.cycle_runner.run((), 0.0)
        words = Messages(found.waits)
        self.podgroup_statuses.cycle(found.enqueued, found.placed, [(one, words.why_not(one)) for one in found.waiting])


@contextmanager
def at_once() -> Iterator[None]:
    with (
        patch.object(podgroups, "SETTLING", 0.0),
        patch.object(podgroups, "PAUSE", 0.0),
        patch.object(writer, "FAILED_PAUSE", 0.0),
    ):
        yield


async def quiet(server: Server) -> None:
    for _ in range(200):
        await asyncio.sleep(0)
    while server.podgroup_statuses.queued:
        await asyncio.sleep(0.001)


@settings(max_examples=examples(40))
@given(STEPS, TROUBLE)
def test_the_status_comes_right_and_is_left_alone(
    steps: list[tuple[str, int]], trouble: list[Exception | None]
) -> None:
    async def main() -> None:
        server = Server(trouble)
        running = asyncio.create_task(server.podgroup_statuses.run())
        server.watch()
        for what, number in steps:
            server.step(what, number)
            if what == "wait":
                await quiet(server)
        for _ in range(3):
            server.cycle()
            await quiet(server)
            server.watch()
            await quiet(server)
        writes = server.writes
        server.cycle()
        server.watch()
        await quiet(server)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert server.writes == writes, "nothing has changed"
        job = server.cluster.groups.jobs.get("default/g")
        members = members_of(job, len(server.failed))
        lacks = job is not None and bool(job.lacking())
        said = {one["type"] for one in server.status.get("conditions", ())}
        if job is None:
            return
        if not lacks or job.count(PodStatus.WAITING):
            assert said == {"Unschedulable" if lacks else "Scheduled"}
        let_in = server.cluster.groups.groups["default/g"].phase
        assert server.status["phase"] == volcano_phase(MINIMUM, let_in, members, lacks)
        assert (server.status.get("running") or 0) == members.running
        assert (server.status.get("failed") or 0) == members.failed

    with at_once():
        virtualtime.run(main())
