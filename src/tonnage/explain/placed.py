"""Explanation of a pod with a node: the scores of that node beside the others, and what the pod cost in fragmentation.

The decision itself is past. The pod is taken off its node for a moment and decided about anew, so the scores are those
of today.
"""

from tonnage.cluster.task import Task
from tonnage.explain.holders import age_of, share_of_card
from tonnage.explain.queues import queue_explanation
from tonnage.explain.record import ExplainedKind, Explanation, FragmentationCost
from tonnage.explain.rehearsal import Rehearsal
from tonnage.framework.decision import GrantedDevice
from tonnage.framework.session import Session
from tonnage.plugins.fragmentation.usablecards import UsableCards


def explain_placed(rehearsal: Rehearsal, task: Task) -> Explanation:
    """Why a pod is where it is."""
    cluster = rehearsal.cluster
    cluster.settle()
    node, job = cluster.holders[task.key], cluster.groups.job_of(task)
    state = cluster.nodes.get(node)
    devices = [
        GrantedDevice("", cluster.vendors[use.vendor].name, card.uuid, card.memory, card.cores)
        for use in (state.uses(task.key) if state is not None else ())
        for card in use.cards
    ]
    with Session(cluster, rehearsal.plugins) as session:
        share = queue_explanation(session, job.queue, rehearsal.actions) if session.queues.figures() else None
        before = task.key in cluster.leaving
        session.evict(task)
        with session.looking_ahead():
            decision = session.decide(task)
        if not before:
            session.restore(task)
    cost = _cost_of_running(rehearsal, task)
    leads = decision.ranking[0] if decision.ranking else ""
    if not decision.ranking or node not in decision.ranking:
        again = f"today {leads} would be the best" if leads else "today no node would fit"
        sentence = f"runs on {node}; {again}"
    elif leads == node:
        others = len(decision.ranking) - 1
        sentence = (
            f"runs on {node}, the best of {others + 1} nodes that would fit today"
            if others
            else (f"runs on {node}, the only node that would fit today")
        )
    else:
        sentence = f"runs on {node}; today {leads} would score higher"
    held = ", ".join(f"{one.uuid} ({share_of_card(one.amount, one.cores)})" for one in devices)
    return Explanation(
        ExplainedKind.POD,
        task.key,
        f"{sentence}; it holds {held}" if held else sentence,
        job=job.key,
        queue=job.queue,
        node=node,
        devices=devices,
        age=age_of(cluster, task.created),
        nodes=cluster.columns.size,
        share=share,
        scores=decision.scores,
        fragmentation=cost,
        notes=["it is being deleted"] if task.key in cluster.leaving else [],
    )


def _cost_of_running(rehearsal: Rehearsal, task: Task) -> FragmentationCost:
    cluster = rehearsal.cluster
    usable = UsableCards(cluster, rehearsal.plugins)
    after = usable.measure().fragmentation
    evicted = cluster.evict(task.key)
    cluster.look_ahead(True)
    before = usable.count().fragmentation
    cluster.look_ahead(False)
    if evicted:
        cluster.restore(task.key)
    return FragmentationCost(before, after)


def fragmentation_cost(rehearsal: Rehearsal, session: Session, key: str) -> FragmentationCost | None:
    """What the place of a pod that an open session has just placed costs; the pod has its place afterwards, too."""
    cluster = rehearsal.cluster
    held, task = cluster.held(key), cluster.reserved.get(key)
    if held is None or task is None or cluster.is_ahead:
        return None
    usable = UsableCards(cluster, rehearsal.plugins)
    after = usable.measure().fragmentation
    session.unplace(key)
    before = usable.count().fragmentation
    session.put_back(task, held)
    return FragmentationCost(before, after)
