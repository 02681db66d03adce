"""Allowance for the computing that a model may cost: a file of a few bytes may ask for any amount of memory and time.

Before a node is computed, its results' size is known from its type rule; operators that need more room or time than
their inputs and results say so themselves, with ``hold`` and ``spend``. What is refused is refused before it is tried.
The limits are those of a computer that shall still be of use meanwhile; no network for a chip comes near them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

MAX_VALUE_BYTES = 1 << 29
"""Greatest size of one tensor, or of what an operator holds while it computes."""

MAX_HELD_BYTES = 3 << 28
"""Greatest total size of the tensors that are computed and still needed."""

MAX_STEPS = 1 << 32
"""Greatest number of elements read, written or computed, in one run of a graph with all its subgraphs: some seconds."""

PRODUCTS_PER_STEP = 16
"""Products of a matrix product that count as one step: BLAS is that much faster than numpy with single elements."""

STEPS_PER_CALL = 1 << 16
"""Steps that any operator takes, however small its tensors."""


class CostExceeded(ValueError):
    """Error: a node asks for memory or time that it must not take; the text says what must be and what would be."""


@dataclass
class Allowance:
    """Steps that are left to be spent, and the bytes of the tensors that are needed now."""

    steps: int = MAX_STEPS
    held: int = 0

    def require_steps(self, steps: int) -> None:
        if steps > self.steps:
            raise CostExceeded(
                f"a run must take at most {MAX_STEPS:,} steps (elements, or {PRODUCTS_PER_STEP} products)"
            )

    def spend(self, steps: int) -> None:
        self.require_steps(steps)
        self.steps -= steps

    def take(self, size: int) -> None:
        """Keep this number of bytes more; a negative number lets bytes go."""
        self.held += size
        if self.held > MAX_HELD_BYTES:
            raise CostExceeded(
                f"the tensors that are needed at one time must have at most {MAX_HELD_BYTES >> 20} MiB together"
            )


_CURRENT: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def limited(allowance: Allowance) -> Iterator[None]:
    """Make ``spend`` take from this allowance within the context."""
    token = _CURRENT.set(allowance)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def spend(steps: int, *, calls: int = 0, products: int = 0) -> None:
    """Spend the time that an operator is about to take: for elements, calls of numpy, and products in a matrix product.

    Raises:
        CostExceeded: it is more than is left.
    """
    allowance = _CURRENT.get() or Allowance()
    allowance.spend(steps + calls * (STEPS_PER_CALL >> 3) + products // PRODUCTS_PER_STEP)


def require_steps(steps: int) -> None:
    """Raise ``CostExceeded`` unless this number of steps is left; they will be spent one after the other."""
    (_CURRENT.get() or Allowance()).require_steps(steps)


def hold(shape: tuple[int, ...] | list[int], dtype: Any = np.float64) -> None:
    """Raise ``CostExceeded`` where an operator is about to take one array of a shape that is too large."""
    size = prod(int(length) for length in shape) * np.dtype(dtype).itemsize
    if size > MAX_VALUE_BYTES:
        lengths = "×".join(f"{int(length):,}" for length in shape)
        raise CostExceeded(
            f"no array may be larger than {MAX_VALUE_BYTES >> 20} MiB; one of {lengths} numbers is needed"
        )


def bytes_of(value: Any) -> int:
    """Return the size of an array, or of a sequence of arrays."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(bytes_of, value)) if isinstance(value, list) else 0
