"""The heap: what it holds without need is given back to the system.

An agent makes few objects that last, so Python looks for garbage among old ones once in thousands of pods. And free
pieces of memory lie between those in use; the GNU C library gives whole pages of them back only on request.
"""

import ctypes
import gc
from collections.abc import Callable


def give_back() -> None:
    """Free what nobody refers to, and give free pages back where the C library can."""
    gc.collect()
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
