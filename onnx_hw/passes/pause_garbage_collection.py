"""A search without the search for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Python looks for values that refer to each other in circles the more often the more there are. A search for
    foldings makes millions, none of them in a circle; not to look takes a fifth off its time.
    """
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()
