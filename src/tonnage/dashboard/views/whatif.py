"""The what-if view: a policy or more nodes, tried on a copy of the present cluster."""

import asyncio
from collections import Counter
from typing import Any

from tonnage.dashboard.liveview import Parts
from tonnage.dashboard.templating import rendered
from tonnage.dashboard.trial import MOST_NODES, ClusterTrial, TrialResult, try_out
from tonnage.dashboard.views.view import Asked, View
from tonnage.server.copies import CopyError
from tonnage.simulator.policies import POLICIES, is_policy

SCOPES = {"waiting": "only waiting pods are placed", "all": "all pods are placed anew, the oldest first"}
_KEPT = 16


class WhatIfView(View):
    """Tries a change before anybody makes it."""

    name, title = "what-if", "What if"
    parameters = ("policy", "add", "like", "scope")
    needs_nodes = True

    def __init__(self) -> None:
        self._results: dict[tuple[str, ...], TrialResult | str] = {}
        self._running: dict[tuple[str, ...], asyncio.Task[None]] = {}

    async def prepare(self, asked: Asked) -> None:
        """Find the answer to what is asked, one at a time, unless nothing is."""
        key = _key(asked)
        if not (asked.params.get("policy") or asked.params.get("add", "0").strip("0")) or not asked.viewer.sees_all:
            return
        task = self._running.get(key)
        if task is None:
            if self._running:
                self._results[key] = "another trial runs; try again when it has ended"
                return
            task = self._running[key] = asyncio.create_task(self._find(key, asked))
            task.add_done_callback(lambda _: self._running.pop(key, None))
        await asyncio.shield(task)

    async def _find(self, key: tuple[str, ...], asked: Asked) -> None:
        self._results.pop(key, None)
        while len(self._results) >= _KEPT:
            del self._results[next(iter(self._results))]
        try:
            trial = _trial(asked)
            source = asked.board.source
            self._results[key] = await try_out(source.cluster, source.plugins, source.actions, trial)
        except CopyError as error:
            self._results[key] = str(error)

    def parts(self, asked: Asked) -> Parts:
        result = self._results.get(_key(asked))
        html = rendered(
            "whatif.html",
            result=result if isinstance(result, TrialResult) else None,
            error=result if isinstance(result, str) else "",
            may=asked.viewer.sees_all,
            base=asked.base,
        )
        return {"answer": {"answer-body": f'<div id="answer-body">{html}</div>'}}

    def around(self, asked: Asked) -> dict[str, Any]:
        kinds: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for node in asked.board.current.nodes:
            if node.cards:
                kind = f"{len(node.cards)} × {node.model}"
                kinds[kind] += 1
                examples.setdefault(kind, node.name)
        return {
            "policies": sorted(POLICIES),
            "policy": asked.params.get("policy", ""),
            "add": asked.params.get("add", "0"),
            "like": asked.params.get("like", ""),
            "kinds": [(kind, examples[kind], count) for kind, count in kinds.most_common(50)],
            "scope": asked.choice("scope", SCOPES, "waiting"),
            "scopes": SCOPES,
            "most": MOST_NODES,
        }


def _key(asked: Asked) -> tuple[str, ...]:
    return tuple(asked.params.get(name, "") for name in WhatIfView.parameters)


def _trial(asked: Asked) -> ClusterTrial:
    """The question; CopyError if it makes no sense."""
    policy, add = asked.params.get("policy", ""), asked.params.get("add", "0").strip() or "0"
    if policy and not is_policy(policy):
        raise CopyError(f"there is no policy {policy}; there are {', '.join(sorted(POLICIES))}")
    if not add.isdecimal() or len(add) > 6 or int(add) > MOST_NODES:
        raise CopyError(f"{add} is no number of nodes from 0 to {MOST_NODES}")
    like = asked.params.get("like", "") or next((row.name for row in asked.board.current.nodes if row.cards), "")
    return ClusterTrial(policy, int(add), like, asked.choice("scope", SCOPES, "waiting"))
