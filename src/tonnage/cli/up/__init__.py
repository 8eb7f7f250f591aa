"""`tonnage up`: an invented cluster and workload, packed before one's eyes.

`options` reads the flags, `liverun` drives the replay by the wall clock, and `replaysource` gives it to the view of
`cli/terminal`.
"""

from tonnage.cli.up.options import command

__all__ = ["command"]
