"""The explanation of a pod: the funnel of rules, the nearest nodes and who holds them, and what would help."""

import time

from tonnage.dashboard.templating import rendered
from tonnage.dashboard.views.details import DetailPage, PodPage
from tonnage.dashboard.views.view import Asked
from tonnage.explain.record import ExplainedKind, Explanation
from tonnage.server.copies import CopyError
from tonnage.server.explanations import BusyError, ExplainQuestion, Explanations, ScheduledCluster, UnknownThing
from tonnage.server.redaction import seen_by

KEPT_SECONDS = 10.0
"""How long an explanation is shown to others who ask the same."""
_MOST = 64


class ExplanationPage(DetailPage):
    """Why a pod waits, and what would let it run."""

    name, title = "explanation", "Explanation"

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, Explanation | str]] = {}
        self._explanations: Explanations | None = None

    async def prepare(self, asked: Asked) -> None:
        key = asked.params["name"]
        PodPage().task(asked, key)
        known = self._found.get(key)
        if known is not None and time.monotonic() < known[0] + KEPT_SECONDS:
            return
        found = await self._find(asked, key)
        while len(self._found) >= _MOST:
            del self._found[next(iter(self._found))]
        # What could not be found is asked for again by the next page.
        self._found[key] = 0.0 if isinstance(found, str) else time.monotonic(), found

    async def _find(self, asked: Asked, key: str) -> Explanation | str:
        source = asked.board.source
        if self._explanations is None:
            self._explanations = Explanations(
                lambda: ScheduledCluster(source.cluster, source.plugins, source.actions, source.now())
            )
        namespace, _, name = key.partition("/")
        question = ExplainQuestion(ExplainedKind.POD, name, namespace)
        try:
            found = await self._explanations.ask(question, is_tenant=not asked.viewer.sees_all)
        except BusyError:
            return "Other explanations are being found; try again."
        except CopyError as error:
            why = str(error) if asked.viewer.sees_all else "the log of the server says why"
            return f"There is no explanation: {why}."
        return "The pod has just gone." if isinstance(found, UnknownThing) else found

    def body(self, asked: Asked) -> str:
        key = asked.params["name"]
        PodPage().task(asked, key)
        found = self._found.get(key, (0.0, "This explanation is too old; reload the page."))[1]
        return rendered(
            "explanation.html",
            found=seen_by(asked.viewer, found) if isinstance(found, Explanation) else None,
            error=found if isinstance(found, str) else "",
            pod=key,
            base=asked.base,
            viewer=asked.viewer,
        )
