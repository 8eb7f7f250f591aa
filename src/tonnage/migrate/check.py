"""The check before a move: the installation, its pods replayed, and what waits, as one report."""

from tonnage.cluster.cluster import Cluster
from tonnage.live.cycle import dry_cycle
from tonnage.live.view import ClusterView, ObservedCluster
from tonnage.migrate.peer import Installation, PeerScheduler
from tonnage.migrate.peerobjects import PeerObjects
from tonnage.migrate.replay import replay
from tonnage.migrate.report import ExpectedDifference, MigrationReport

_MOST_PROBLEMS = 20


def check(
    peer: PeerScheduler, installation: Installation, objects: PeerObjects, live: ObservedCluster, place: str, last: int
) -> MigrationReport:
    """What the move would change; the cluster must be nobody else's."""
    cluster = live.cluster
    problems = [*objects.problems, *(f"{one.object} {one.field}: {one.message}" for one in live.problems())]
    counts, differs = replay(cluster, installation.plugins, installation.schedulers, last)
    ignored = sorted(cluster.claims.ignored)
    if ignored:
        what = "devices that these pods name and do not ask for, or did not have when they got their node, do not count"
        differs.append(ExpectedDifference(what, ignored[0], len(ignored)))
    same = [*installation.same, *_running(cluster, installation)]
    view = ClusterView(live, place, installation.plugins, installation.actions, peer.name)
    same += _waiting(view, installation)
    hidden = len(problems) - _MOST_PROBLEMS
    shown = problems[:_MOST_PROBLEMS] + ([f"{hidden} more"] if hidden > 0 else [])
    return MigrationReport(
        peer=peer.name,
        cluster=place,
        found=installation.found,
        replay=counts,
        same=same,
        differs=differs,
        unsupported=installation.unsupported,
        problems=shown,
        move=installation.move,
        back=installation.back,
    )


def _running(cluster: Cluster, installation: Installation) -> list[str]:
    own = [task for task in cluster.running.values() if task.pod.scheduler in installation.schedulers]
    return (
        [f"{len(own)} running pods stay where they are; what they hold counts from the first decision on"]
        if own
        else []
    )


def _waiting(view: ClusterView, installation: Installation) -> list[str]:
    """What the first cycle would do with the pods that wait now."""
    decided = dry_cycle(view)
    if decided.fault:
        return [f"what waits could not be decided: {decided.fault}"]
    own = {
        key: decision
        for decisions in (decided.placed, decided.waiting)
        for key, decision in decisions.items()
        if decision.task.pod.scheduler in installation.schedulers
    }
    placed = [key for key in own if key in decided.placed]
    return [f"of {len(own)} pods that wait, {len(placed)} would be placed at once"] if own else []
