"""The view of a cluster on a terminal, over any source: an invented cluster, a live one, or files.

`frames` draws and reads keys, `controls` keeps what keys change, `screen` makes the lines of one frame from what a
`source` says.
"""
