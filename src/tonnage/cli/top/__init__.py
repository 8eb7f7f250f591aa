"""`tonnage top`: nodes, GPUs, pods and queues of a cluster, live in the terminal.

`options` reads the flags, `livesource` gives the cluster to the view of `cli/terminal`, and `plain` prints it once.
"""

from tonnage.cli.top.options import command

__all__ = ["command"]
