"""The start of the servers: how their modules are imported quickly."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import modules without looking for garbage in them, now or later: there is none, and there are many objects.

    NumPy's linear algebra gets no threads of its own, which it would start here and which nothing would use.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
