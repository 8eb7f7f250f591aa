"""Volcano's queues `root` and `default` are created where its definitions are and nobody has made them."""

import asyncio
from typing import Any

import pytest

from tests import virtualtime
from tests.groups import add, queue
from tests.scenario import scenario
from tests.scheduler.watching import leads
from tonnage.kube.errors import ConnectionLostError, StatusError
from tonnage.scheduler.status.defaultqueues import DefaultQueues


class Server:
    def __init__(self, *planned: Exception) -> None:
        self.planned = list(planned)
        self.created: list[tuple[str, bool]] = []

    async def request(self, method: str, path: str, *, body: Any, timeout: float) -> bytes:
        assert (method, path) == ("POST", "/apis/scheduling.volcano.sh/v1beta1/queues")
        if self.planned:
            raise self.planned.pop(0)
        made = body["metadata"]["name"], body["spec"]["reclaimable"]
        if made in self.created:
            raise StatusError(409, "AlreadyExists", "")
        self.created.append(made)
        return b"{}"


def created(
    server: Server, *there: str, installed: bool = True, led: asyncio.Event | None = None, seconds: float = 60
) -> list[tuple[str, bool]]:
    cluster = add(scenario(), *map(queue, there))

    async def main() -> None:
        queues = DefaultQueues(server, cluster, lambda _: installed, led or leads())  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(seconds):
                await queues.run()
        except TimeoutError:
            assert not installed or led is not None, "it goes on though there is nothing to do"

    virtualtime.run(main())
    return server.created


def test_both_are_created_as_volcanos_scheduler_does() -> None:
    assert created(Server()) == [("root", False), ("default", True)]


def test_what_somebody_else_has_made_is_left_alone() -> None:
    assert created(Server(), "root", "default") == []
    assert created(Server(), "root") == [("default", True)]
    assert created(Server(StatusError(409, "AlreadyExists", ""))) == [("default", True)]


def test_nothing_is_created_without_the_definitions_or_without_leading() -> None:
    assert created(Server(), installed=False) == []
    assert created(Server(), led=asyncio.Event()) == []


@pytest.mark.parametrize("error", [ConnectionLostError("reset"), StatusError(403, "Forbidden", "no")])
def test_what_fails_is_tried_again_and_said_once(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    assert sorted(created(Server(error, error, error))) == [("default", True), ("root", False)]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
