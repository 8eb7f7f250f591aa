"""The start of the servers: how their modules are imported quickly.

`python -m tonnage.cli.startup` compiles what commands import, and nothing else. It writes the bytecode at installation,
because later Python may not: PYTHONDONTWRITEBYTECODE may be set, as in many containers, or the folder may be another
user's. Without bytecode every start compiles all that it imports, which takes as long again.
"""

import gc
import os
import sys
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


def write_bytecode() -> None:
    """Import every module once, so that Python compiles it and what it imports."""
    import pkgutil
    from importlib import import_module

    import tonnage

    sys.dont_write_bytecode = False
    for module in pkgutil.walk_packages(tonnage.__path__, "tonnage."):
        if not module.name.endswith("__main__"):
            try:
                import_module(module.name)
            except ImportError:
                # An extra that is not installed.
                continue


if __name__ == "__main__":
    write_bytecode()
