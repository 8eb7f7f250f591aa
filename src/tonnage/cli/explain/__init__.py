"""`tonnage explain`: why a pod waits or is where it is, and what would help.

`command` reads the flags, `words` the question; `watch` answers again and again, `server` asks a running server, and
`text` writes the answer for people.
"""

from tonnage.cli.explain.command import command

__all__ = ["command"]
