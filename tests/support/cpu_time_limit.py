"""How long a call keeps the processor, for limits that only what would never end, or nearly, passes."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def own_seconds() -> Iterator[Callable[[], float]]:
    """Seconds of the processor since it began: for what is called, and not for what other tests left behind.

    Python looks for dead values among all that live. After thousands of tests one look takes seconds, and falls on
    whoever makes the next value.
    """
    gc.freeze()
    try:
        started = time.process_time()
        yield lambda: time.process_time() - started
    finally:
        gc.unfreeze()
