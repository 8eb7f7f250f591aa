"""Comparison: each pod is created, filtered, bound, read and deleted on one side, and then on the other.

Both sides watch the same cluster. A pod about which they agree stays for a while, so that the next ones meet it; any
other pod is deleted, so that both go on from the same state. A difference is looked at again after a pause, because
one side may not have seen yet what the other has written. Where nodes differ and HAMi's own log gives both the same
score it is a tie, which HAMi breaks by chance; then HAMi is asked about our node alone.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from peers.hami.known import PLACEMENTS, REVIEWS
from peers.hami.outcomes import Placement, Review, added, lowered, read_review
from peers.hami.report import EQUAL, TIE, UNEXPLAINED, Finding, HamiReport
from peers.hami.workload import Case

_CLOSE = 1e-4
"""Scores are printed in 32-bit floats."""


class Side(Protocol):
    """A scheduler that speaks the extender protocol."""

    def post(self, path: str, document: object) -> Any:
        """The answer to a request."""

    def scores(self, pod: str) -> dict[str, float]:
        """The node scores of a pod, by its namespace and name, as far as its log tells them."""


class World(Protocol):
    """The cluster that both sides watch."""

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        """Create a pod; as the API server has it then."""

    def read(self, pod: dict[str, Any]) -> dict[str, Any]:
        """A pod as it is now."""

    def run(self, pod: dict[str, Any], init_ends: bool) -> None:
        """Play the kubelet and the device plugin: the bound pod gets its devices, and its init containers may end."""

    def delete(self, pod: dict[str, Any]) -> None:
        """Delete a pod."""

    def settle(self, again: bool = False) -> None:
        """Wait until both sides have seen all of it; longer if something seemed to differ."""


class Comparison:
    """Asks both sides and keeps what it finds."""

    def __init__(self, world: World, ours: Side, theirs: Side, nodes: Sequence[str]) -> None:
        self._world = world
        self._ours = ours
        self._theirs = theirs
        self._nodes = list(nodes)
        self._staying: list[tuple[int, dict[str, Any]]] = []
        """Pods that both placed, with the number of the case before which they go."""
        self.findings: list[Finding] = []

    def report(self) -> HamiReport:
        return HamiReport(self.findings, {known.name: known.reason for known in (*PLACEMENTS, *REVIEWS)})

    # -- pods

    def place(self, cases: Iterable[Case]) -> None:
        """Ask both sides about pods."""
        for case in cases:
            self._end_before(case.number)
            finding = self._compare(case)
            if finding.verdict not in (EQUAL, TIE):
                self._world.settle(again=True)
                finding = self._compare(case)
            self.findings.append(finding)
        self._end_before(-1)

    def _end_before(self, number: int) -> None:
        """Delete pods whose time is up; all of them for -1."""
        over = [pod for until, pod in self._staying if number < 0 or until <= number]
        self._staying = [(until, pod) for until, pod in self._staying if 0 <= number < until]
        for pod in over:
            self._world.delete(pod)
        if over:
            self._world.settle()

    def _compare(self, case: Case) -> Finding:
        if case.templates:
            return self._judged(case, *(self._simulated(side, case) for side in (self._ours, self._theirs)))
        ours, pod = self._try(self._ours, case, self._nodes)
        self._world.delete(pod)
        self._world.settle()
        theirs, pod = self._try(self._theirs, case, self._nodes)
        finding = self._judged(case, ours, theirs)
        if finding.verdict == EQUAL and theirs.node and case.lasts:
            self._world.run(pod, case.init_ends)
            self._staying.append((case.number + case.lasts, pod))
        else:
            self._world.delete(pod)
        self._world.settle()
        return finding if finding.verdict == EQUAL else self._tie(case, ours, theirs) or finding

    def _try(self, side: Side, case: Case, nodes: Sequence[str]) -> tuple[Placement, dict[str, Any]]:
        """What a side makes of a pod, and the pod as it was created."""
        made = self._world.create(case.pod)
        # HAMi knows a pod that it binds from its watch alone.
        self._world.settle()
        answer = lowered(side.post("/filter", {"Pod": made, "NodeNames": list(nodes)}))
        named, error = answer.get("nodenames") or [], answer.get("error") or ""
        failed = {**(answer.get("failednodes") or {}), **(answer.get("failedandunresolvablenodes") or {})}
        if error or not named:
            return Placement(failed=failed, error=error), made
        metadata = made["metadata"]
        bound = lowered(
            side.post(
                "/bind",
                {
                    "PodName": metadata["name"],
                    "PodNamespace": metadata["namespace"],
                    "PodUID": metadata["uid"],
                    "Node": named[0],
                },
            )
        )
        written = added(made, self._world.read(made))
        return Placement(named[0], written, failed, frozenset(named), bound.get("error") or ""), made

    def _simulated(self, side: Side, case: Case) -> Placement:
        """What a side says about whole nodes."""
        pod = {**case.pod, "metadata": {**case.pod["metadata"], "uid": f"whole-{case.number}"}}
        answer = lowered(side.post("/filter", {"Pod": pod, "Nodes": {"items": list(case.templates)}}))
        items = (answer.get("nodes") or {}).get("items") or []
        failed = {**(answer.get("failednodes") or {}), **(answer.get("failedandunresolvablenodes") or {})}
        return Placement(
            "", (), failed, frozenset(item["metadata"]["name"] for item in items), answer.get("error") or ""
        )

    def _judged(self, case: Case, ours: Placement, theirs: Placement) -> Finding:
        if ours.equals(theirs):
            return Finding(case.name, EQUAL)
        evidence = f"ours: {_shown(ours)}\n  HAMi: {_shown(theirs)}\n  pod: {_asked(case)}"
        name = next((known.name for known in PLACEMENTS if known.explains(case, ours, theirs)), UNEXPLAINED)
        return Finding(case.name, name, evidence)

    def _tie(self, case: Case, ours: Placement, theirs: Placement) -> Finding | None:
        """Whether HAMi gave our node the same score as the one that it took, and the same cards there."""
        if not ours.node or not theirs.node or ours.node == theirs.node:
            return None
        scores = self._theirs.scores(f"{case.pod['metadata']['namespace']}/{case.pod['metadata']['name']}")
        if ours.node not in scores or abs(scores[ours.node] - scores.get(theirs.node, float("inf"))) > _CLOSE:
            return None
        there, pod = self._try(self._theirs, case, [ours.node])
        self._world.delete(pod)
        self._world.settle()
        same = (there.node, there.written, bool(there.error)) == (ours.node, ours.written, bool(ours.error))
        return Finding(case.name, TIE) if same else None

    # -- reviews

    def review(self, pods: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Ask both sides about new pods."""
        for name, pod in pods:
            ours, theirs = (self._reviewed(side, pod) for side in (self._ours, self._theirs))
            if ours == theirs:
                self.findings.append(Finding(name, EQUAL))
                continue
            verdict = next((known.name for known in REVIEWS if known.explains(pod, ours, theirs)), UNEXPLAINED)
            self.findings.append(Finding(name, verdict, f"ours: {ours}\n  HAMi: {theirs}\n  pod: {pod['spec']}"))

    def _reviewed(self, side: Side, pod: dict[str, Any]) -> Review:
        metadata = pod["metadata"]
        request = {
            "uid": "review",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": metadata["namespace"],
            "operation": "CREATE",
            "object": pod,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        return read_review(pod, side.post("/webhook", review))


def _shown(placement: Placement) -> str:
    if placement.error:
        return f"error: {placement.error}"
    if placement.node:
        return f"{placement.node} {dict(placement.written)}"
    return f"fitting {sorted(placement.fitting)}, failed {placement.failed}"


def _asked(case: Case) -> str:
    spec = case.pod["spec"]
    limits = [c["resources"].get("limits") for c in (*spec.get("initContainers", ()), *spec["containers"])]
    return f"{case.pod['metadata']['annotations']} {limits}"
