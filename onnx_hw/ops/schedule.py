"""Schedules: what each engine of a core does in one frame, as turns of loops.

The firing law (``onnx_hw/timing/``) turns schedules into cycles. An *engine* has a fixed list of operations per
frame; an operation pops at most one token of each input and pushes at most one on each output.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from onnx_hw.ops.affine_ranges import Numbers, Turns


@dataclass(frozen=True)
class Dependency:
    """A loop-carried dependency: operations of an engine that need its own earlier results.

    It never reaches into the frame before: state that a frame begins with is set at its start.

    Attributes:
        waits: numbers of the operations that need a result.
        needs: for each of them the number of an earlier operation of the frame, whose result it is.
        delay: cycles from an operation until one that needs its result may fire.
    """

    waits: Numbers
    needs: Numbers
    delay: int


@dataclass(frozen=True)
class Engine:
    """One engine of a core.

    Attributes:
        name: unique in the core.
        operations: how many per frame.
        latency: L of the law: pipeline stages behind the firing decision.
        pops: by input port, the numbers of the operations that pop.
        pushes: by output port, those of the operations that push.
        once: operations before the first frame, after every reset; they wait for nothing, pop and push nothing.
        dependencies: on its own earlier results.
    """

    name: str
    operations: int
    latency: int
    pops: Mapping[str, Numbers] = field(default_factory=dict)
    pushes: Mapping[str, Numbers] = field(default_factory=dict)
    once: int = 0
    dependencies: tuple[Dependency, ...] = ()

    @property
    def cycles(self) -> int:
        """From one frame to the next where nobody else makes it wait."""
        waits = sorted(
            (wait, need, dependency.delay)
            for dependency in self.dependencies
            for wait, need in zip(
                np.asarray(dependency.waits).tolist(), np.asarray(dependency.needs).tolist(), strict=True
            )
        )
        from_operation, late = [0], [0]  # from which operation on, how many cycles after its number it fires
        for wait, need, delay in waits:
            fired = need + late[bisect_right(from_operation, need) - 1]
            if fired + delay - wait > late[-1]:
                from_operation.append(wait)
                late.append(fired + delay - wait)
        return self.operations + late[-1]


@dataclass(frozen=True)
class SharedBuffer:
    """A memory between two engines of one core: every operation of the writer stores one beat.

    An engine may write or read several of them: an operation of a reader waits until each has what it needs, one of a
    writer until each has room.

    Attributes:
        writer, reader: names of the engines, which differ.
        capacity: beats it holds.
        waits: numbers of the reader's operations that need a later beat of this frame than all before them.
        needs: those beats, one for each.
        releases: for each beat of a frame, the number of the reader's operation after which it is given back.
        name: what it is called where somebody waits for it; one that no other buffer of the core has.
    """

    writer: str
    reader: str
    capacity: int
    waits: Numbers
    needs: Numbers
    releases: Numbers
    name: str = "the buffer"

    @classmethod
    def of_turns(cls, capacity: int, turns: int, needs: np.ndarray, released: np.ndarray) -> SharedBuffer:
        """Between a "writer" and a "reader" that do the same in every turn.

        Args:
            needs: per operation of the reader in a turn, the last beat that it or one before it needs.
            released: how many beats of the turn are given back after it, in the end all.
        """
        later = np.flatnonzero(np.diff(needs, prepend=-1))
        given_back = np.searchsorted(released, np.arange(released[-1]), side="right")

        def every_turn(step: int, pattern: np.ndarray) -> Numbers:
            return Numbers((Turns(0, turns, step, pattern.astype(np.int64)),))

        waits, releases = every_turn(len(needs), later), every_turn(len(needs), given_back)
        return cls("writer", "reader", capacity, waits, every_turn(int(released[-1]), needs[later]), releases)


@dataclass(frozen=True)
class Schedule:
    """All engines of a core, and the memories between them; ``faults_of_schedule`` says what must hold."""

    engines: tuple[Engine, ...]
    buffers: tuple[SharedBuffer, ...] = ()

    @property
    def interval(self) -> int:
        """Cycles per frame of the busiest engine."""
        return max(engine.cycles for engine in self.engines)
