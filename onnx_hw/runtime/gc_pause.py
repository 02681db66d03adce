"""Work that makes millions of small values, without looking for dead ones among them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Python looks for values that refer to each other in circles the more often the more there are.

    Where nearly all of them live to the end, as the parts of a circuit or the demands of a search, looking takes long:
    a fifth of a search. Afterwards they count as old, so that the first look is no longer for the pause.
    """
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            if not gc.get_freeze_count():  # else values that a caller froze would be thawed
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()
