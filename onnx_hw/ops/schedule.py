"""Schedules: what each engine of a core does in one frame, as turns of loops.

The firing law (``onnx_hw/timing/``) turns schedules into cycles. An *engine* has a fixed list of operations per
frame; an operation pops at most one token of each input and pushes at most one on each output.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence, LoopTurns


@dataclass(frozen=True)
class Dependency:
    """A loop-carried dependency: operations of an engine that need its own earlier results.

    It never reaches into the frame before: state that a frame begins with is set at its start.

    Attributes:
        waits: numbers of the operations that need a result.
        needs: for each of them the number of an earlier operation of the frame, whose result it is.
        delay: cycles from an operation until one that needs its result may fire.
    """

    waits: AffineSequence
    needs: AffineSequence
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
    pops: Mapping[str, AffineSequence] = field(default_factory=dict)
    pushes: Mapping[str, AffineSequence] = field(default_factory=dict)
    once: int = 0
    dependencies: tuple[Dependency, ...] = ()

    @property
    def cycles(self) -> int:
        """Cycles from one frame to the next where no other core makes it wait."""
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
    waits: AffineSequence
    needs: AffineSequence
    releases: AffineSequence
    name: str = "the buffer"

    @classmethod
    def of_turns(cls, capacity: int, turns: int, needs: np.ndarray, released: np.ndarray) -> SharedBuffer:
        """Return the schedule of a "writer" and a "reader" that do the same in every turn.

        Args:
            needs: per operation of the reader in a turn, the last beat that it or one before it needs.
            released: how many beats of the turn are given back after it, in the end all.
        """
        later = np.flatnonzero(np.diff(needs, prepend=-1))
        given_back = np.searchsorted(released, np.arange(released[-1]), side="right")

        def every_turn(step: int, pattern: np.ndarray) -> AffineSequence:
            return AffineSequence((LoopTurns(0, turns, step, pattern.astype(np.int64)),))

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


def faults_of_schedule(schedule: Schedule, takes: Mapping[str, int], gives: Mapping[str, int]) -> Iterator[str]:
    """Return everything that is wrong with a schedule, one sentence each.

    Every token of every port is popped or pushed once, in order, by one engine, which needs its own results only after
    it made them; a buffer lies between two engines, its reader waits for beats in order and gives back all of them.

    Args:
        takes, gives: tokens of a frame, by input port and by output port.
    """
    for engine in schedule.engines:
        yield from _engine(engine)
    for what, tokens, listed in (
        ("popped", takes, [engine.pops for engine in schedule.engines]),
        ("pushed", gives, [engine.pushes for engine in schedule.engines]),
    ):
        used = Counter(port for ports in listed for port in ports)
        for port in {**tokens, **used}:
            if used[port] != 1 or port not in tokens:
                known = used[port] if port in tokens else "there is no such port"
                yield f"the port `{port}` must be {what} by one engine, not {known}"
            elif (count := sum(len(ports[port]) for ports in listed if port in ports)) != tokens[port]:
                yield f"{tokens[port]} tokens of `{port}` must be {what} in a frame, not {count}"
    engines = {engine.name: engine for engine in schedule.engines}
    if len(engines) < len(schedule.engines):
        yield f"engines must have names of their own, not {[engine.name for engine in schedule.engines]}"
    if len({buffer.name for buffer in schedule.buffers}) < len(schedule.buffers):
        yield f"shared buffers must have names of their own, not {[buffer.name for buffer in schedule.buffers]}"
    for buffer in schedule.buffers:
        yield from (f"{buffer.name}: {fault}" for fault in _buffer(buffer, engines))


def _engine(engine: Engine) -> Iterator[str]:
    if engine.operations < 1 or min(engine.latency, engine.once) < 0:
        yield (
            f"`{engine.name}` must have 1 operation or more, 0 or more of them once and a latency of 0 or more, not "
            f"{engine.operations}, {engine.once} and {engine.latency}"
        )
    for port, numbers in (*engine.pops.items(), *engine.pushes.items()):
        yield from _operations(f"`{engine.name}`, `{port}`", numbers, engine)
    for dependency in engine.dependencies:
        yield from (f"`{engine.name}`, its own results: {fault}" for fault in _dependency(dependency, engine))


def _operations(where: str, numbers: AffineSequence, engine: Engine, by: int = 1) -> Iterator[str]:
    """Check the numbers of operations of an engine, which ascend; ``by`` is 0 where one may be there several times."""
    if len(numbers) and not (numbers.rises(by) and numbers.ends[0] >= 0 and numbers.ends[1] < engine.operations):
        yield f"{where}: operations must be numbers from 0 to {engine.operations - 1} in order, not {numbers!r}"


def _dependency(dependency: Dependency, engine: Engine) -> Iterator[str]:
    waits, needs = dependency.waits, dependency.needs
    yield from _operations("those that wait", waits, engine)
    yield from _operations("those that are needed", needs, engine)
    if len(waits) != len(needs):
        yield f"{len(waits)} operations wait, so that many must be needed, not {len(needs)}"
    elif (np.asarray(needs) >= np.asarray(waits)).any():
        yield "an operation must need the result of an earlier one"
    if dependency.delay < 1:
        yield f"a result must take 1 cycle or more, not {dependency.delay}"


def _buffer(buffer: SharedBuffer, engines: Mapping[str, Engine]) -> Iterator[str]:
    writer, reader = engines.get(buffer.writer), engines.get(buffer.reader)
    if writer is None or reader is None or writer is reader:
        yield f"it must lie between two engines, not {buffer.writer} and {buffer.reader}"
        return
    if buffer.capacity < 1:
        yield f"it must hold 1 beat or more, not {buffer.capacity}"
    yield from _operations("those that wait", buffer.waits, reader)
    yield from _operations("the beats that are needed", buffer.needs, writer)
    if len(buffer.waits) != len(buffer.needs):
        yield f"{len(buffer.waits)} operations wait, so that many beats must be needed, not {len(buffer.needs)}"
    yield from _operations("those that give back", buffer.releases, reader, 0)
    if len(buffer.releases) != writer.operations:
        yield f"all {writer.operations} beats of a frame must be given back, not {len(buffer.releases)}"
