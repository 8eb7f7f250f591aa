"""Queues: whose jobs take turns."""

import msgspec

DEFAULT_QUEUE = "default"


class Queue(msgspec.Struct, gc=False, frozen=True):
    """Jobs that are served together; without any queue given all jobs are in the default one."""

    name: str
    created: str = ""
