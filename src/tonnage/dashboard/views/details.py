"""Pages about one thing: a node, a card, a pod, a queue or a decision."""

from abc import abstractmethod
from difflib import get_close_matches

from tonnage.cluster.jobs.job import PodStatus
from tonnage.cluster.task import Task
from tonnage.dashboard.decisionlog import seen_record
from tonnage.dashboard.liveview import Parts
from tonnage.dashboard.templating import rendered
from tonnage.dashboard.tiles import drawing, holder_name, painter, share_of_card
from tonnage.dashboard.timeplot import POINTS, TimePlot
from tonnage.dashboard.views.queues import gpu_share, held_by
from tonnage.dashboard.views.view import Asked, UnknownThingError, View
from tonnage.model.timestamp import known_timestamp
from tonnage.overview.noderows import CardRow, NodeRow
from tonnage.overview.podwants import asks
from tonnage.server.redaction import seen_sentence

_STATUSES = {
    PodStatus.WAITING: "waits",
    PodStatus.PLACED: "has a reserved place",
    PodStatus.PIPELINED: "waits for others to leave its place",
    PodStatus.RUNNING: "is on its node",
    PodStatus.LEAVING: "is leaving",
    PodStatus.SUCCEEDED: "has succeeded",
}


class DetailPage(View):
    """A page about one thing, whose name is a parameter."""

    parameters = ("name",)

    def heading(self, asked: Asked) -> str:
        return asked.params["name"]

    def parts(self, asked: Asked) -> Parts:
        return {"detail": {"detail-body": f'<div id="detail-body">{self.body(asked)}</div>'}}

    @abstractmethod
    def body(self, asked: Asked) -> str:
        """All that the page says."""


class NodePage(DetailPage):
    """One node, with all its cards."""

    name, title, needs_nodes = "node", "Node", True

    def body(self, asked: Asked) -> str:
        node = _node(asked)
        return rendered("node.html", node=node, cards=[_card(asked, one) for one in node.cards], **_common(asked))


class CardPage(DetailPage):
    """One card."""

    name, title, needs_nodes = "card", "GPU", True

    def body(self, asked: Asked) -> str:
        wanted = asked.params["name"]
        for node in asked.board.current.nodes:
            for card in node.cards:
                if card.uuid == wanted:
                    return rendered("card.html", node=node, card=_card(asked, card), **_common(asked))
        known = [card.uuid for node in asked.board.current.nodes for card in node.cards]
        raise UnknownThingError("GPU", wanted, get_close_matches(wanted, known[:5000], 5))


class PodPage(DetailPage):
    """One pod: where it is or why it waits."""

    name, title = "pod", "Pod"

    def task(self, asked: Asked, key: str) -> Task:
        """A pod that the caller may see; UnknownThingError if there is none."""
        cluster = asked.board.source.cluster
        task = cluster.waiting.get(key) or cluster.reserved.get(key) or cluster.running.get(key)
        if task is None or not asked.viewer.sees(key):
            raise UnknownThingError("pod", key, _near_pods(asked, key))
        return task

    def body(self, asked: Asked) -> str:
        key, cluster, source = asked.params["name"], asked.board.source.cluster, asked.board.source
        task = self.task(asked, key)
        decision = source.decision_of(task) if key in cluster.waiting or key in cluster.pipelined else None
        if decision is not None:
            record, sentence = decision.record(), seen_sentence(asked.viewer, decision)
        elif key not in cluster.waiting:
            made = source.placement_of(key)
            record, sentence = made.record() if made is not None else seen_record(cluster, task), ""
        else:
            record, sentence = None, ""
        return rendered(
            "pod.html",
            pod=key,
            status=_STATUSES[cluster.status(key)],
            is_waiting=key in cluster.waiting or key in cluster.pipelined,
            record=record,
            sentence=sentence,
            history=asked.board.decisions.of_pod(key),
            **_facts(asked, task),
            **_common(asked),
        )


class QueuePage(DetailPage):
    """One queue."""

    name, title, needs_queues = "queue", "Queue", True

    def body(self, asked: Asked) -> str:
        wanted, current = asked.params["name"], asked.board.current
        row = next((one for one in current.queues if one.name == wanted), None)
        if row is None:
            raise UnknownThingError("queue", wanted, get_close_matches(wanted, [one.name for one in current.queues], 5))
        waiting = [
            one for group in current.waiting for one in group.pods if one.queue == wanted and asked.viewer.sees(one.pod)
        ]
        waiting.sort(key=lambda one: one.since if one.since is not None else float("inf"))
        return rendered(
            "queue.html", queue=row, share=gpu_share(row), plot=_held_over_time(asked, wanted), waiting=waiting[:200],
            waiting_count=len(waiting), colour=asked.board.queue_colours.of(wanted), **_common(asked),
        )  # fmt: skip


def _held_over_time(asked: Asked, queue: str) -> str:
    look = asked.board.queue_colours.named.get(queue, 0)
    plot = TimePlot("held", "GPUs held", "over the last day, by all pods of the queue", " GPUs", 1, look)
    return plot.figure(held_by(asked, queue, POINTS))


class DecisionPage(DetailPage):
    """One decision with its record."""

    name, title = "decision", "Decision"

    def heading(self, asked: Asked) -> str:
        return f"Decision {asked.params['name']}"

    def body(self, asked: Asked) -> str:
        wanted = asked.params["name"]
        found = asked.board.decisions.get(int(wanted)) if wanted.isdecimal() and len(wanted) < 12 else None
        if found is None or not asked.viewer.sees(found.record.pod):
            raise UnknownThingError("decision", wanted, [])
        return rendered("decision.html", one=found, record=found.record, sentence="", **_common(asked))


def _common(asked: Asked) -> dict[str, object]:
    return {"base": asked.base, "viewer": asked.viewer, "shown": lambda pod: holder_name(asked.viewer, pod)}


def _node(asked: Asked) -> NodeRow:
    wanted = asked.params["name"]
    nodes = {row.name: row for row in asked.board.current.nodes}
    if wanted not in nodes:
        raise UnknownThingError("node", wanted, get_close_matches(wanted, nodes, 5))
    return nodes[wanted]


def _card(asked: Asked, card: CardRow) -> dict[str, object]:
    paint = painter(asked.board, "queue", asked.viewer)
    return {
        "row": card,
        "drawing": drawing((card,), paint, "queue"),
        "holders": [(one, share_of_card(card, one), paint(card, one)) for one in card.holders],
    }


def _facts(asked: Asked, task: Task) -> dict[str, object]:
    job = asked.board.source.cluster.groups.job_of(task)
    return {
        "job": job.key,
        "job_pods": len(job.tasks),
        "job_minimum": job.minimum,
        "queue": job.queue,
        "asks": asks(task),
        "priority": task.priority,
        "created": known_timestamp(task.created),
    }


def _near_pods(asked: Asked, key: str) -> list[str]:
    cluster = asked.board.source.cluster
    known = [one for one in cluster.pods() if asked.viewer.sees(one)]
    name = key.rpartition("/")[2]
    same = [one for one in known if one.rpartition("/")[2] == name]
    return sorted(same)[:5] or get_close_matches(key, sorted(known)[:5000], 5)
