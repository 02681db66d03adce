"""Products of floats on one thread.

A network is thousands of products, most of them small or cut into blocks that fit a cache. The threads of a BLAS
library wait actively for each other between them: where other programs run, two threads take 5 to 25 times the
processor time of one. On one thread the sums are also the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let numpy's products take one thread."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    """Return the controller of the libraries that numpy has loaded; to find them takes milliseconds."""
    return ThreadpoolController()
