"""Groups of commands that answer a mistyped name with the nearest ones, as click does for flags."""

from collections.abc import Iterable

import click


class SuggestingGroup(click.Group):
    """A group that knows the nearest names."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {args[0]!r}.{_nearest(args[0], known)}", ctx)
        return super().resolve_command(ctx, args)


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = [repr(one) for one in get_close_matches(name, known)]
    return f" Did you mean {' or '.join(near)}?" if near else f" There are {', '.join(known)}."
