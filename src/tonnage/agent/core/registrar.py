"""The registrar: when to register with the kubelet again.

The kubelet forgets a plugin when it restarts, and hangs up on a new plugin when the one that it replaced ends. So the
agent registers whenever the kubelet's socket is new and whenever the stream of devices ends without its own doing. A
plugin that another one replaces is not told: only the node's status shows it, and that the other one has left.
"""

import msgspec

REGISTER_AGAIN = 1.0
"""Seconds between two tries."""
_RIVALRY = 60.0
"""Seconds within which a second lost stream means that another plugin registers the resource."""


class Registrar(msgspec.Struct):
    """What is known about the kubelet, and when it was last tried."""

    socket: tuple[int, int] | None = None
    """Identity of the kubelet's socket; None while there is none."""
    is_connected: bool = False
    """Whether the kubelet reads the list of devices."""
    tried: float = -REGISTER_AGAIN
    registered_at: tuple[int, int] | None = None
    """The socket at which the agent has registered."""
    lost: float | None = None
    amount: int | None = None
    """What the node offered when that was last looked at, since it offered what the agent does."""
    is_replaced: bool = False
    """Whether another plugin took the agent's place and left it empty."""

    def socket_seen(self, socket: tuple[int, int] | None) -> bool:
        """Take over what the folder holds; whether the kubelet is another one than before."""
        is_new = socket is not None and socket != self.socket
        self.socket = socket
        if is_new:
            self.is_connected = False
            self.tried = -REGISTER_AGAIN
            self.amount = None
        return is_new

    def offer_changed(self) -> None:
        """The agent offers something else, which the node's status shows a while later."""
        self.amount = None

    def amount_seen(self, amount: int, ours: int) -> str:
        """Take over how many devices the node offers; a sentence if another plugin is at work."""
        before, is_settled = self.amount, amount == ours
        if is_settled or before is not None:
            self.amount = amount
        if is_settled or before in (None, amount) or not self.is_connected:
            return ""
        if amount:
            return f"the node offers {amount} devices and not {ours}: another plugin registers the same resource"
        self.is_replaced, self.is_connected, self.amount = True, False, None
        self.tried = -REGISTER_AGAIN
        return "the node offers no devices, though the kubelet did not hang up: another plugin came and left"

    def stream_opened(self) -> None:
        """The kubelet reads the list of devices."""
        self.is_connected = True

    def stream_ended(self, now: float) -> str:
        """The kubelet hung up; a sentence if it looks as if another plugin were at work."""
        self.is_connected = False
        self.tried = min(self.tried, now - REGISTER_AGAIN)
        rivalry = self.lost is not None and now - self.lost < _RIVALRY and self.socket == self.registered_at
        self.lost = now
        return (
            "the kubelet hung up twice within a minute: another plugin may register the same resource"
            if rivalry
            else ""
        )

    def is_due(self, now: float) -> bool:
        """Whether to register now."""
        return self.socket is not None and not self.is_connected and now - self.tried >= REGISTER_AGAIN

    def trying(self, now: float) -> None:
        """A registration begins."""
        self.tried = now
        self.registered_at = self.socket
        self.is_replaced = False
