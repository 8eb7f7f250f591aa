"""HAMi's scheduler and our extender, asked about the same pods and admission reviews in turn."""

from peers.hami.command import add_flags, run

__all__ = ["add_flags", "run"]
