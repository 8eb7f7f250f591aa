"""`tonnage plan`: what would be better, at what price."""

import click

from tonnage.cli.group import SuggestingGroup
from tonnage.cli.plan.defrag import defrag


@click.group("plan", cls=SuggestingGroup)
def command() -> None:
    """Plan changes of a cluster, with their price and their gain: which pods to move."""


command.add_command(defrag)

__all__ = ["command"]
