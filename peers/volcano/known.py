"""Tests of Volcano's that hold with its scheduler and not with ours, each with the reason that its users get."""

KNOWN: dict[str, str] = {}
