"""`tonnage up`: an invented cluster and workload, packed before one's eyes.

`options` reads the flags, `liverun` drives the replay by the wall clock, and `watch` shows it on a terminal, where
`keyboard` reads keys, `controls` keeps what they change, and `screen` draws.
"""

from tonnage.cli.up.options import command

__all__ = ["command"]
