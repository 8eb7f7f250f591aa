"""What commands read: standard input, configurations; and how they end when it cannot be read."""

import io
import sys
from typing import TYPE_CHECKING, BinaryIO

import click

if TYPE_CHECKING:
    from tonnage.settings.load import Settings

STANDARD_INPUT = "-"


class BadInput(click.ClickException):
    """Input that cannot be read; ends the command with status 2."""

    exit_code = 2


def standard_input() -> BinaryIO:
    """Standard input; an empty one if the caller closed it."""
    return io.BytesIO() if sys.stdin is None else sys.stdin.buffer


def load_settings(file: str) -> "Settings":
    """The configuration in a file, or on standard input; SettingsError with all that is wrong."""
    from tonnage.settings.load import load_bytes, load_file

    return load_bytes(standard_input().read(), "standard input") if file == STANDARD_INPUT else load_file(file)
