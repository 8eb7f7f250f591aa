"""The node's annotations and labels about its cards.

Cards are in the order of their indexes, so that a text changes only when a card does.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tonnage.agent.core.cards import Card
from tonnage.agent.core.links import pair_scores
from tonnage.devices.codec import encode_node_json
from tonnage.devices.nvidia import REGISTER, SCORES
from tonnage.model.annotations import AGENT, INVENTED_CARDS
from tonnage.model.wire import encode


class NodeRegistration:
    """Makes the annotations of one process."""

    def __init__(self, agent: str, *, is_invented: bool = False) -> None:
        self._agent = agent
        """Version and boot, which tell schedulers that this node needs no lock."""
        self.labels: dict[str, str | None] = {INVENTED_CARDS: "true" if is_invented else None}
        """The node's labels; None for one that it must not have."""

    def annotations(self, cards: Sequence[Card], is_well: Callable[[str], bool]) -> dict[str, str | None]:
        """What the node must say."""
        ordered = sorted(cards, key=lambda card: card.device.index)
        devices = [replace(card.device, healthy=is_well(card.uuid)) for card in ordered]
        written: dict[str, str | None] = {REGISTER: encode_node_json(devices), AGENT: self._agent}
        scores, _ = pair_scores({card.uuid: card.links for card in ordered if card.links is not None})
        if scores:
            written[SCORES] = encode([{"uuid": uuid, "score": others} for uuid, others in scores.items()]).decode()
        return written
