"""Pods that came and went leave nothing behind in a running agent, over real gRPC sockets."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from tests.agent.played_kubelet import RESOURCE, AdmissionError, PlayedKubelet
from tests.agent.scenes import NODE, VENDOR, no_registration
from tests.e2e.kubelet.realnode import placed_pod
from tests.extender.inmemory import LOOKED_INTO, PODS, Memory, sizes
from tests.scenario import node
from tests.waiting import until_true
from tonnage.agent.core.agentcore import AgentCore
from tonnage.agent.core.nodesettings import AnswerSettings, CardSettings
from tonnage.agent.nvml.fake import FakeCards
from tonnage.agent.service import AgentPaths, AgentService
from tonnage.model.pod import Pod

CARDS = 8
NOISE = 9
"""Entries that a container may have more or less at any moment; 80 pods come and go."""
CLOSED_STREAMS = "_closed_streams"
"""Of a connection: h2 keeps the last ones up to a limit."""
FOLDERS = "_cleaner._since"
"""Folders stay for five minutes after their pods' end, and so do their names; tests/agent/test_a_day.py has them."""


class RunningAgent:
    """The agent as `tonnage agent` puts it together, on an API server in memory and a played kubelet."""

    def __init__(self, folder: Path) -> None:
        (folder / "cards.yaml").write_text(f"cards:\n- {{name: NVIDIA A100, memory: 40960, count: {CARDS}}}\n")
        self.api = Memory()
        self.api.put(node(NODE))
        self.kubelet = PlayedKubelet(folder)
        self.core = AgentCore(VENDOR, no_registration)
        self.service = AgentService(
            self.core,
            self.api,  # type: ignore[arg-type]
            FakeCards(str(folder / "cards.yaml"), NODE),
            node=NODE,
            resource=RESOURCE,
            paths=AgentPaths(self.kubelet.plugins, self.kubelet.pod_resources, folder / "root"),
            settings=(AnswerSettings(), CardSettings()),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator["RunningAgent"]:
        await self.kubelet.start()
        stop = asyncio.Event()
        task = asyncio.ensure_future(self.service.run(stop.wait()))
        try:
            await until_true(lambda: self.kubelet.devices or task.done())
            yield self
        finally:
            stop.set()
            await task
            await self.kubelet.stop()

    async def come_and_go(self, names: list[str]) -> None:
        """Pods that get their cards, that are refused, and that the kubelet fails after the answer."""
        uuids = list(self.core.cards)
        for place, name in enumerate(names):
            is_forged, is_failed = place % 5 == 4, place % 5 == 3
            memory = 99999 if is_forged else 100
            plain = placed_pod(name, NODE, [[(uuids[place % CARDS], memory, 1)]])
            self.api.put(msgspec.convert(plain, Pod))
            made = self.api.pod(name)
            made["metadata"]["namespace"] = "default"
            try:
                await self.kubelet.admit(made)
                assert not is_forged
            except AdmissionError:
                assert is_forged
            if is_failed:
                status = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
                self.api.change(f"{PODS}/{name}", {"status": status})
        await until_true(lambda: all(_is_told_of(self.api.pod(name)) for name in names))
        for name in names:
            self.kubelet.remove(self.api.pod(name)["metadata"]["uid"])
            self.api.delete(name)
        await until_true(lambda: not self.core.pods)
        gc.collect()

    def sizes(self) -> dict[str, int]:
        return sizes({"service": self.service}, (*LOOKED_INTO, "grpclib.", "h2."))


def _is_told_of(pod: dict[str, Any]) -> bool:
    return pod["metadata"]["annotations"]["hami.io/bind-phase"] in ("success", "failed")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path: that of a socket has about a hundred characters at most."""
    with TemporaryDirectory(prefix="agent-") as made:
        yield Path(made)


def test_pods_that_came_and_went_leave_nothing_behind(folder: Path) -> None:
    async def scene() -> tuple[dict[str, int], dict[str, int]]:
        async with RunningAgent(folder).running() as agent:
            await agent.come_and_go([f"a{number}" for number in range(40)])
            before = agent.sizes()
            for turn in ("b", "c"):
                await agent.come_and_go([f"{turn}{number}" for number in range(40)])
            return before, agent.sizes()

    before, after = asyncio.run(scene())
    assert len(before) > 30
    assert any(path.endswith(CLOSED_STREAMS) for path in after), "connections are looked into"
    grown = {path: (before.get(path, 0), size) for path, size in after.items() if size > before.get(path, 0) + NOISE}
    assert {path: grew for path, grew in grown.items() if not path.endswith((CLOSED_STREAMS, FOLDERS))} == {}
