"""The tables of the view: nodes, GPUs, pods and queues, made from the rows of an overview."""

from typing import NamedTuple

from rich.text import Text

from tonnage.cli.terminal.drawing import ALERT, QUIET, bar, shade, short_model
from tonnage.cli.terminal.itemtable import ItemTable, TableColumn
from tonnage.model.duration import format_seconds
from tonnage.overview.noderows import CardRow, NodeRow
from tonnage.overview.podrows import STATES, WAITING, PodRow
from tonnage.overview.queuerows import QueueResource, QueueRow
from tonnage.overview.usage import percent

_GIB, _BYTES = 1024, 2**30
_WHOLE = 100
_BAR = 8


class CardItem(NamedTuple):
    """A card and its node."""

    node: NodeRow
    card: CardRow

    @property
    def key(self) -> str:
        return f"{self.node.name}/{self.card.index}"


# -- nodes


def _node_memory(row: NodeRow) -> float:
    return percent(sum([card.memory_used for card in row.cards]), sum([card.memory for card in row.cards]))


def _node_cells(row: NodeRow) -> list[str | Text]:
    bars = Text()
    for card in row.cards:
        bars.append_text(card_bar(card, 1))
    memory = _node_memory(row)
    cores = percent(sum([card.cores_used for card in row.cards]), sum([card.cores for card in row.cards]))
    return [
        row.name,
        Text(short_model(row.model) if row.cards else "no cards", QUIET),
        bars,
        Text(f"{memory:.0f}%", shade(memory / _WHOLE) if memory else QUIET),
        f"{cores:.0f}%",
        f"{sum([card.free for card in row.cards]):.1f}",
        Text(f"{row.stranded:,}" if row.stranded else "", ALERT),
        f"{row.pods:,}",
        f"{row.cpu_free / 1000:.0f}/{row.cpu / 1000:.0f}" if row.cpu else "",
        f"{row.ram_free / _BYTES:.0f}/{row.ram / _BYTES:.0f}" if row.ram else "",
        Text(row.trouble, ALERT),
    ]


NODES: ItemTable[NodeRow] = ItemTable(
    "nodes",
    (
        TableColumn("node"),
        TableColumn("cards", from_width=80),
        TableColumn("GPUs"),
        TableColumn("memory", is_number=True),
        TableColumn("cores", is_number=True, from_width=90),
        TableColumn("free", is_number=True),
        TableColumn("stranded", is_number=True, from_width=70),
        TableColumn("pods", is_number=True),
        TableColumn("CPU free", is_number=True, from_width=110),
        TableColumn("GiB free", is_number=True, from_width=120),
        TableColumn("state"),
    ),
    {
        "name": lambda row: row.name,
        "fullest": lambda row: (-_node_memory(row), row.name),
        "most free": lambda row: (-sum([card.free for card in row.cards]), row.name),
        "most stranded": lambda row: (-row.stranded, row.name),
        "most pods": lambda row: (-row.pods, row.name),
    },
    lambda row: row.name,
    lambda row: f"{row.name} {row.model} {row.trouble}",
    _node_cells,
)

# -- GPUs


def card_bar(card: CardRow, width: int) -> Text:
    """How much of a card's memory is allocated; one that only looks free is marked."""
    share = card.memory_used / card.memory if card.memory else float(card.slots_used > 0)
    drawn = bar(share, width, card.slots_used > 0)
    return Text(drawn.plain.replace("·", "x"), ALERT) if card.stranded and not card.slots_used else drawn


def card_state(card: CardRow) -> str:
    """What keeps pods from what is left of a card."""
    return card.health or card.stranded


def _card_cells(item: CardItem) -> list[str | Text]:
    card = item.card
    return [
        item.key,
        Text(short_model(card.model), QUIET),
        card_bar(card, _BAR),
        f"{card.memory_used / _GIB:.1f}/{card.memory / _GIB:.0f}",
        f"{percent(card.cores_used, card.cores):.0f}%",
        f"{card.slots_used}/{card.slots}",
        Text(card_state(card), ALERT),
        ", ".join([holder.pod for holder in card.holders]),
    ]


GPUS: ItemTable[CardItem] = ItemTable(
    "GPUs",
    (
        TableColumn("GPU"),
        TableColumn("model", from_width=90),
        TableColumn("memory"),
        TableColumn("GiB used", is_number=True),
        TableColumn("cores", is_number=True, from_width=70),
        TableColumn("slots", is_number=True, from_width=100),
        TableColumn("state"),
        TableColumn("held by"),
    ),
    {
        "name": lambda item: (item.node.name, item.card.index),
        "fullest": lambda item: (-percent(item.card.memory_used, item.card.memory), item.node.name, item.card.index),
        "most free": lambda item: (-item.card.free, item.node.name, item.card.index),
        "stranded": lambda item: (not card_state(item.card), item.node.name, item.card.index),
    },
    lambda item: item.key,
    lambda item: (
        " ".join([item.key, item.card.uuid, item.card.model, card_state(item.card)])
        + " ".join([holder.pod for holder in item.card.holders])
    ),
    _card_cells,
)

# -- pods


def pod_table(now: float) -> ItemTable[PodRow]:
    """The table of pods, whose ages are those at some time."""

    def cells(row: PodRow) -> list[str | Text]:
        return [
            row.pod,
            Text(row.state, ALERT if row.state == WAITING else ""),
            row.asks,
            Text(row.queue, QUIET),
            row.node,
            "" if row.since is None else format_seconds(max(now - row.since, 0.0)),
            Text(row.reason, ALERT),
        ]

    return ItemTable(
        "pods",
        (
            TableColumn("pod"),
            TableColumn("state"),
            TableColumn("wants", from_width=70),
            TableColumn("queue", from_width=110),
            TableColumn("node"),
            TableColumn("age", is_number=True),
            TableColumn("reason"),
        ),
        {
            "waiting first": lambda row: (STATES.index(row.state), row.since or 0.0, row.pod),
            "name": lambda row: row.pod,
            "oldest": lambda row: (row.since is None, row.since or 0.0, row.pod),
            "largest": lambda row: (-row.gpus, row.pod),
            "node": lambda row: (not row.node, row.node, row.pod),
        },
        lambda row: row.pod,
        lambda row: f"{row.pod} {row.state} {row.asks} {row.queue} {row.node} {row.reason}",
        cells,
    )


# -- queues


def cards_of(row: QueueRow) -> QueueResource | None:
    """What a queue has of cards, if a plugin gives queues shares of them."""
    return next((part for part in row.resources if part.name not in ("cpu", "memory", "pods")), None)


def _amount(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:g}"


def _queue_cells(row: QueueRow) -> list[str | Text]:
    share = cards_of(row)
    return [
        row.name,
        Text(row.parent, QUIET),
        f"{row.cards:.1f}",
        "" if share is None else _amount(share.deserved),
        "" if share is None else _amount(share.fair_share),
        Text(f"{share.borrowed:g}" if share is not None and share.borrowed else "", ALERT),
        f"{row.running:,}",
        Text(f"{row.waiting:,}" if row.waiting else "", ALERT),
        f"{row.waiting_cards:,}" if row.waiting_cards else "",
    ]


QUEUES: ItemTable[QueueRow] = ItemTable(
    "queues",
    (
        TableColumn("queue"),
        TableColumn("parent", from_width=100),
        TableColumn("GPUs", is_number=True),
        TableColumn("deserved", is_number=True),
        TableColumn("fair share", is_number=True, from_width=90),
        TableColumn("borrowed", is_number=True),
        TableColumn("running", is_number=True),
        TableColumn("waiting", is_number=True),
        TableColumn("GPUs wanted", is_number=True),
    ),
    {
        "name": lambda row: row.name,
        "most GPUs": lambda row: (-row.cards, row.name),
        "most borrowed": lambda row: (-(part.borrowed if (part := cards_of(row)) else 0.0), row.name),
        "most waiting": lambda row: (-row.waiting, row.name),
    },
    lambda row: row.name,
    lambda row: f"{row.name} {row.parent}",
    _queue_cells,
)
