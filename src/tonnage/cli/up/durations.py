"""The virtual time of a run, as a clock shows it."""


def clock(seconds: float) -> str:
    """Hours, minutes and seconds, with days in front if there are any."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days}d " if days else "") + f"{hours:02d}:{minutes:02d}:{rest:02d}"
