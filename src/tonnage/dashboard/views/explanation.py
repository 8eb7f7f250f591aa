"""The explanation of a pod: the funnel of rules, the nearest nodes and who holds them, and what would help."""

import asyncio
import time
from functools import partial

from tonnage.cluster.cluster import Cluster
from tonnage.dashboard.copies import CopyError, in_copy
from tonnage.dashboard.source import ClusterSource
from tonnage.dashboard.templating import rendered
from tonnage.dashboard.views.details import DetailPage, PodPage
from tonnage.dashboard.views.view import Asked
from tonnage.explain.explain import Explainer
from tonnage.explain.record import ExplainedKind, Explanation

SECONDS = 20.0
"""How long an explanation may take."""
KEPT_SECONDS = 10.0
"""How long it is shown to others who ask the same."""
AT_ONCE = 2
_MOST = 64


class ExplanationPage(DetailPage):
    """Why a pod waits, and what would let it run."""

    name, title, needs_nodes = "explanation", "Explanation", True

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, Explanation | str]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    async def prepare(self, asked: Asked) -> None:
        key = asked.params["name"]
        PodPage().task(asked, key)
        known = self._found.get(key)
        if not asked.viewer.sees_all or (known is not None and time.monotonic() < known[0] + KEPT_SECONDS):
            return
        task = self._running.get(key)
        if task is None:
            if len(self._running) >= AT_ONCE:
                self._found[key] = 0.0, "other explanations are being found; try again"
                return
            task = self._running[key] = asyncio.create_task(self._find(key, asked.board.source))
            task.add_done_callback(lambda _: self._running.pop(key, None))
        await asyncio.shield(task)

    async def _find(self, key: str, source: ClusterSource) -> None:
        try:
            work = partial(_explained, source.cluster, source, key)
            found: Explanation | str = await in_copy(work, Explanation, SECONDS)
        except CopyError as error:
            found = f"There is no explanation: {error}."
        while len(self._found) >= _MOST:
            del self._found[next(iter(self._found))]
        self._found[key] = time.monotonic(), found

    def body(self, asked: Asked) -> str:
        found = self._found.get(asked.params["name"], (0.0, "It takes the right to see all nodes and pods."))[1]
        return rendered(
            "explanation.html",
            found=found if isinstance(found, Explanation) and asked.viewer.sees_all else None,
            error=found if isinstance(found, str) else "",
            pod=asked.params["name"],
            base=asked.base,
            viewer=asked.viewer,
        )


def _explained(cluster: Cluster, source: ClusterSource, key: str) -> Explanation:
    cluster.now = source.now()
    namespace, _, name = key.partition("/")
    return Explainer(cluster, source.plugins, source.actions).explain(ExplainedKind.POD, name, namespace)
