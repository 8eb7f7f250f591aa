"""Lengths of virtual time in a few characters."""


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, with days in front if there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days}d " if days else "") + f"{hours:02d}:{minutes:02d}:{rest:02d}"


def span(seconds: float) -> str:
    """A length of time in its two largest units; seconds only matter in the first ten minutes."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    for unit, size, lower, lower_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            more = whole % size // lower_size if lower != "s" or whole < 600 else 0
            return f"{whole // size}{unit}" + (f"{more:02d}{lower}" if more else "")
    return "0s"
