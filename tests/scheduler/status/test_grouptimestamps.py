"""Times on PodGroups: since when a gang lacks pods, over a time that is still to come; when it was last evicted."""

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest

from tests.groups import add, group, kai_group
from tests.scenario import scenario
from tests.waiting import until_true
from tonnage.cluster.jobs.group import LAST_EVICTION, STALE_SINCE
from tonnage.framework.decision import StaleGang
from tonnage.model.timestamp import rfc3339
from tonnage.scheduler.status.grouptimestamps import GroupTimestamps

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("said", "is_written"),
    [(None, True), ("2999-01-01T00:00:00Z", True), ("soon", True), (rfc3339(NOW - 10), False)],
)
def test_a_time_that_does_not_count_is_replaced(said: str | None, is_written: bool) -> None:
    async def main() -> None:
        annotations = {} if said is None else {STALE_SINCE: said}
        cluster = add(scenario(), kai_group("g", 2, annotations=annotations), kai_group("last", 2))
        client = Mock(request=AsyncMock())
        gangs = GroupTimestamps(client, cluster, lambda: None)
        gangs.update([StaleGang(f"default/{name}", rfc3339(NOW), 60.0, "") for name in ("g", "last")], NOW)
        task = asyncio.create_task(gangs.run())
        await until_true(lambda: client.request.await_count > is_written)
        task.cancel()
        written = {call.args[1].rpartition("/")[2]: call.kwargs["body"] for call in client.request.await_args_list}
        assert written.keys() == ({"g", "last"} if is_written else {"last"})
        assert written["last"] == {"metadata": {"annotations": {STALE_SINCE: rfc3339(NOW)}}}

    asyncio.run(main())


def test_the_last_eviction_is_written_on_groups_that_have_a_delay_after_it() -> None:
    async def main() -> None:
        cluster = add(scenario(), kai_group("g", 2), group("volcano", 2))
        client = Mock(request=AsyncMock())
        times = GroupTimestamps(client, cluster, lambda: None)
        for job in ("volcano", "none", "g"):
            times.evicted(f"default/{job}", NOW)
        task = asyncio.create_task(times.run())
        await until_true(lambda: client.request.await_count)
        task.cancel()
        (written,) = client.request.await_args_list
        assert written.args[1].endswith("/podgroups/g")
        assert written.kwargs["body"] == {"metadata": {"annotations": {LAST_EVICTION: rfc3339(NOW)}}}

    asyncio.run(main())
