"""Schedules: what each engine of a core does in one frame, written as loop nests.

The firing law (``onnx_hw/timing.py``) turns schedules into cycles. An *engine* has a fixed list of operations per
frame; an operation pops at most one token of each input and pushes at most one on each output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


class Loops:
    """The index of every loop at every operation of a nest, outermost loop first.

    >>> nest = Loops(pixel=2, beat=3)
    >>> nest.operations
    6
    >>> nest.pixel.tolist(), nest.beat.tolist()
    ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
    >>> nest.where(nest.beat == 2).tolist()
    [2, 5]
    """

    def __init__(self, **counts: int):
        self.counts = counts
        self.operations = int(np.prod(list(counts.values()), dtype=np.int64))
        indices = np.indices(tuple(counts.values())).reshape(len(counts), -1)
        self._index = dict(zip(counts, indices, strict=True))

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.__dict__["_index"][name]
        except KeyError:
            raise AttributeError(name) from None

    def last(self, *names: str) -> np.ndarray:
        """True at operations in which each of the named loops is in its last turn."""
        return np.logical_and.reduce([self._index[name] == self.counts[name] - 1 for name in names])

    def where(self, condition: np.ndarray) -> np.ndarray:
        """The numbers of the operations that satisfy a condition."""
        return np.flatnonzero(condition)

    def all(self) -> np.ndarray:
        """The numbers of all operations."""
        return np.arange(self.operations)


@dataclass(frozen=True)
class Engine:
    """One engine of a core.

    Attributes:
        name: unique in the core.
        operations: how many per frame.
        latency: L of the law: pipeline stages behind the firing decision.
        pops: by input port, the operations that pop, ascending.
        pushes: by output port, the operations that push, ascending.
    """

    name: str
    operations: int
    latency: int
    pops: Mapping[str, np.ndarray] = field(default_factory=dict)
    pushes: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class SharedBuffer:
    """A memory between two engines of one core: every operation of the writer stores one beat.

    Attributes:
        writer, reader: names of the engines.
        capacity: beats it holds.
        needs: per reader operation, the beat of this frame it needs, or -1.
        released: per reader operation, how many beats of this frame are given back once it has fired; ascending, the
            last entry equals the writer's operations.
    """

    writer: str
    reader: str
    capacity: int
    needs: np.ndarray
    released: np.ndarray


@dataclass(frozen=True)
class Schedule:
    """All engines of a core."""

    engines: tuple[Engine, ...]
    buffer: SharedBuffer | None = None

    @property
    def interval(self) -> int:
        """Operations per frame of the busiest engine."""
        return max(engine.operations for engine in self.engines)
