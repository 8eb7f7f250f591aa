"""Flags of servers in the syntax of Go programs: switches with or without a value, addresses and durations."""

from collections.abc import Callable
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def switch(name: str, default: bool, help_: str) -> Decorator:
    """A flag that may be given alone or, as in Go, with `=true` or `=false`."""
    return click.option(
        name, callback=parsed("truth"), is_flag=False, flag_value="true", default=str(default).lower(),
        show_default=True, metavar="[true|false]", help=help_,
    )  # fmt: skip


def parsed(kind: str | Callable[[Any], object]) -> Callable[[click.Context, click.Parameter, Any], object]:
    """A callback that turns a text into what it means; a name is one of the flag values, imported when it is needed."""

    def callback(ctx: click.Context, parameter: click.Parameter, text: Any) -> object:
        if text is None:
            return None
        parse: Callable[[Any], object]
        if isinstance(kind, str):
            from tonnage.server import flagvalues

            parse = getattr(flagvalues, kind)
        else:
            parse = kind
        try:
            return parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, parameter) from error

    return callback
