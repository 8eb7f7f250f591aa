"""Cases that hold with KAI's scheduler and not with ours, each with the reason that its users get."""

KNOWN: dict[str, str] = {}
