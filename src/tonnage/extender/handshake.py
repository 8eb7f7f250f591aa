"""Handshakes: HAMi's handshake with device plugins, which finds plugins that are gone.

A plugin that takes part writes `Reported …` with its registration; the scheduler answers `Requesting_<time>`. If the
plugin does not report again within a minute, and the kubelet no longer offers its cards, the scheduler writes it off
with `Deleted_<time>`. A plugin that never wrote a handshake is asked only if the kubelet does not offer its cards.
"""

import asyncio
import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from tonnage.cluster.cluster import Cluster
from tonnage.devices.base import GIVEN_UP, DecodeError, Vendor
from tonnage.devices.codec import is_of_first_form
from tonnage.kube.client import MERGE_PATCH, Client
from tonnage.kube.errors import KubeError, StatusError
from tonnage.kube.paths import api_path
from tonnage.model.node import Node

log = logging.getLogger(__name__)

REQUESTING = "Requesting"
ASKED, WRITTEN_OFF, NOT_WRITTEN = "asked", "written_off", "not_written"
ANSWER_SECONDS = 60.0
"""Seconds that a plugin has to answer, and for which a plugin that was written off is left alone."""
PERIOD = 15.0
AT_ONCE = 8
"""Concurrent writes."""
_SLICE = 8
"""Nodes that a writer checks in one go, so that all writers together take some milliseconds at most."""
_PAUSE = 0.5
"""Seconds for which changes of nodes are collected."""
_NOT_FOUND = 404
_STAMP = re.compile(r"_(\d{4})([-.])(\d\d)\2(\d\d) (\d\d):(\d\d):(\d\d)$", re.ASCII)
_QUARTER, _SKEW, _FARTHEST_ZONE = 900.0, 60.0, 14 * 3600.0


def due(node: Node, vendor: Vendor, now: float) -> str:
    """The new value of the node's handshake with the vendor's plugin; empty if it needs no change."""
    if not vendor.handshake_annotation or vendor.register_annotations[0] not in node.annotations:
        return ""
    said = node.annotations.get(vendor.handshake_annotation, "")
    word = ""
    if REQUESTING in said:
        if not vendor.is_offered(node) and _is_over(said, now):
            word = GIVEN_UP
    elif GIVEN_UP in said:
        if vendor.is_offered(node) and _is_over(said, now):
            word = REQUESTING
    elif said or not vendor.is_offered(node):
        word = REQUESTING
    return f"{word}_{_stamp(node, vendor, now)}" if word and _registers(node, vendor) else ""


def _registers(node: Node, vendor: Vendor) -> bool:
    try:
        return bool(vendor.devices(node))
    except DecodeError:
        return False


def _stamp(node: Node, vendor: Vendor, now: float) -> str:
    """The time in UTC, in the layout of HAMi 2.4 or of later versions."""
    oldest = is_of_first_form(node.annotations[vendor.register_annotations[0]])
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y.%m.%d %H:%M:%S" if oldest else "%Y-%m-%d %H:%M:%S")


def _is_over(said: str, now: float) -> bool:
    """Whether 60 seconds have passed since the stamp; never if there is no readable stamp.

    Some schedulers write stamps in the local time of their container. Offsets from UTC are whole quarters of an
    hour, so the age of a stamp that is off by no more than the farthest time zone is taken modulo 15 minutes.
    """
    found = _STAMP.search(said)
    if found is None:
        return False
    try:
        stamped = datetime(*(int(found[group]) for group in (1, 3, 4, 5, 6, 7)), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError:
        return False
    age = now - stamped.timestamp()
    if abs(age) <= _FARTHEST_ZONE:
        age = (age + _SKEW) % _QUARTER - _SKEW
    return age >= ANSWER_SECONDS


class Handshakes:
    """Keeps the handshakes of all nodes going while `run` runs."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        now: Callable[[], float],
        draw: Callable[[], float],
        at_once: int = AT_ONCE,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self.writes = 0
        """How many writes were made."""
        self.outcomes: Counter[str] = Counter()
        """Handshakes, by what was written."""
        self._client = client
        self._cluster = cluster
        self._vendors = [vendor for vendor in cluster.vendors if vendor.handshake_annotation]
        self._now = now
        """Seconds since 1970."""
        self._draw = draw
        """A random number from 0 up to 1, so that several processes do not check at the same time."""
        self._at_once = at_once
        self._may_write = may_write
        """Whether this replica leads; only the leader writes."""
        self._changed: set[str] = set()
        self._news = asyncio.Event()
        self._sent: dict[str, tuple[dict[str, str], float]] = {}
        """By node, the handshakes before the last write, and the time of the write."""
        self._failing: set[str] = set()

    def seen(self, names: Iterable[str]) -> None:
        """Take note of changed nodes."""
        self._changed.update(names)
        self._news.set()

    async def run(self) -> None:
        """Check every node about every 15 seconds, and changed nodes within half a second, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            self._news.clear()
            self._changed.clear()
            await self.check(list(self._cluster.nodes))
            until = clock() + PERIOD * (0.75 + 0.5 * self._draw())
            while clock() < until:
                try:
                    async with asyncio.timeout_at(until):
                        await self._news.wait()
                        await asyncio.sleep(_PAUSE * (0.5 + 0.5 * self._draw()))
                except TimeoutError:
                    break
                names, self._changed = self._changed, set()
                self._news.clear()
                await self.check(names)

    async def check(self, names: Iterable[str]) -> None:
        """Write the handshakes that are due on these nodes."""
        for name in [name for name in self._sent if name not in self._cluster.nodes]:
            del self._sent[name]
        self._failing &= self._cluster.nodes.keys()
        queue = deque(names if self._may_write() else ())
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._at_once, len(queue))):
                tasks.create_task(self._work(queue))

    async def _work(self, queue: deque[str]) -> None:
        checked = 0
        while queue:
            checked += 1
            state = self._cluster.nodes.get(queue.popleft())
            notes = self._due(state.node) if state is not None else {}
            if state is not None and notes:
                await self._write(state.node, notes)
            elif not checked % _SLICE:
                await asyncio.sleep(0)

    def _due(self, node: Node) -> dict[str, str]:
        """The annotations to write, except those that were just written and that the watch has not shown yet."""
        now = self._now()
        before, written = self._sent.pop(node.name, ({}, 0.0))
        before = {key: said for key, said in before.items() if said == node.annotations.get(key, "")}
        if before and now - written < ANSWER_SECONDS:
            self._sent[node.name] = before, written
        else:
            before = {}
        found = {vendor.handshake_annotation: due(node, vendor, now) for vendor in self._vendors}
        return {key: value for key, value in found.items() if value and key not in before}

    async def _write(self, node: Node, notes: dict[str, str]) -> None:
        now, body = self._now(), {"metadata": {"annotations": notes}}
        try:
            self.writes += 1
            await self._client.request(
                "PATCH", api_path("v1", "nodes", node.name), body=body, type_=MERGE_PATCH, timeout=10
            )
        except KubeError as error:
            self.outcomes[NOT_WRITTEN] += len(notes)
            is_gone = isinstance(error, StatusError) and error.status == _NOT_FOUND
            if not is_gone and node.name not in self._failing:
                self._failing.add(node.name)
                log.warning("%s: the handshake with its device plugins cannot be written: %s", node.name, error)
            return
        self._failing.discard(node.name)
        before, _ = self._sent.get(node.name, ({}, 0.0))
        self._sent[node.name] = before | {key: node.annotations.get(key, "") for key in notes}, now
        for key, value in notes.items():
            self.outcomes[WRITTEN_OFF if value.startswith(GIVEN_UP) else ASKED] += 1
            if value.startswith(GIVEN_UP):
                log.warning("%s: no answer in %s; the cards of that plugin are left out", node.name, key)
