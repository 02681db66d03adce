"""What holds for every ``Schedule``, whatever operator states it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from onnx_hw.ops.affine_ranges import Numbers
from onnx_hw.ops.schedule import Dependency, Engine, Schedule, SharedBuffer


def faults_of_schedule(schedule: Schedule, takes: Mapping[str, int], gives: Mapping[str, int]) -> Iterator[str]:
    """Everything that is wrong with a schedule, one sentence each.

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


def _operations(where: str, numbers: Numbers, engine: Engine, by: int = 1) -> Iterator[str]:
    """Numbers of operations of an engine, in order; ``by`` is 0 where one may be there several times."""
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
