"""A dashboard over a scenario, asked without a network."""

import asyncio
import gzip
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.dashboard.played import PlayedSource
from tests.scenario import session
from tonnage.cluster.cluster import Cluster
from tonnage.cluster.task import Task
from tonnage.dashboard.app import Dashboard
from tonnage.dashboard.board import Board
from tonnage.dashboard.source import ClusterSource
from tonnage.framework.decision import Decision, QueueFigures
from tonnage.server.access import ViewerOf

NOW = 1_790_000_000.0


class ScenarioSource(PlayedSource):
    """A cluster that the test changes."""

    title = "a scenario"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, NOW)
        self.said = ""
        self.shares: Mapping[str, Mapping[str, QueueFigures]] = {}

    @property
    def trouble(self) -> str:
        return self.said

    def decision_of(self, task: Task) -> Decision | None:
        with session(self._cluster) as open_session:
            return open_session.decide(task)

    def figures(self) -> Mapping[str, Mapping[str, QueueFigures]]:
        return self.shares


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Asked:
    """A board and its pages."""

    def __init__(self, source: ClusterSource, viewer_of: ViewerOf | None = None, hosts: Sequence[str] = ()) -> None:
        self.source = source
        self.clock = 0.0
        """The seconds that have passed, as far as the board knows."""
        self.board = Board(source, lambda: self.clock)
        self.app = Dashboard(self.board, viewer_of).app(hosts)

    def get(self, path: str, method: str = "GET", client: str = "127.0.0.1", **headers: str) -> Answer:
        """One answer; what streams is cut off after its first piece."""
        return asyncio.run(self.ask(path, method, client, **headers))

    async def ask(self, path: str, method: str = "GET", client: str = "127.0.0.1", **headers: str) -> Answer:
        where, _, query = path.partition("?")
        names = {"host": "localhost", **{name.lower().replace("_", "-"): value for name, value in headers.items()}}
        scope = {
            "type": "http", "method": method, "path": where, "raw_path": where.encode(), "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in names.items()], "root_path": "",
            "scheme": "http", "server": ("localhost", 80), "client": (client, 1), "http_version": "1.1",
        }  # fmt: skip
        sent: list[Any] = []
        enough = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if message["type"] == "http.response.body" and message.get("body"):
                enough.set()

        await asyncio.wait_for(self.app(scope, receive, send), 60)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in sent[1:])
        body = gzip.decompress(body) if found.get("content-encoding") == "gzip" else body
        return Answer(sent[0]["status"], found, body.decode())
