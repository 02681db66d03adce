"""Timestamps next to results: for drawn frames they are the cycles in which the frames began and ended."""

from __future__ import annotations

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from onnx_hw_rtl.link.timestamps import FrameTimestamps

BYTES = 9


@pytest.mark.parametrize("seed", range(3))
def test_times_are_those_of_the_frames(seed: int) -> None:
    """Check the times of overlapping frames. The bytes are read one after the other, as early as allowed, or later."""
    circuit, source = FrameTimestamps(), random.Random(seed)
    inside: deque[int] = deque()  # the cycles in which frames began
    records: list[tuple[int, int, list[int]]] = []  # (began, ended, bytes)

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        current: tuple[int, int, list[int]] | None = None
        for cycle in range(4000):
            begins = len(inside) < 5 and source.random() < 0.1
            ends = bool(inside) and current is None and cycle - inside[0] > 4 and source.random() < 0.2
            if ends:
                current = inside.popleft(), cycle, []
                records.append(current)
            if begins:
                inside.append(cycle)
            index = len(current[2]) if current else 0
            passes = current is not None and cycle >= current[1] + 2 + index and source.random() < 0.9
            for name, value in (("begins", begins), ("ends", ends), ("passes", passes)):
                context.set(getattr(circuit, name), value)
            if current is not None and passes:
                current[2].append(context.get(circuit.byte))
                current = current if len(current[2]) < BYTES else None
            await context.tick()

    simulator = Simulator(circuit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    whole = [(began, ended, bytes(text)) for began, ended, text in records if len(text) == BYTES]
    end_differences = [int.from_bytes(text[5:], "little") - ended for _, ended, text in whole]
    begin_differences = [int.from_bytes(text[1:5], "little") - began for began, _, text in whole if text[0] & 1]
    assert len(whole) > 100 and len(begin_differences) > 30
    assert {*end_differences, *begin_differences} == {end_differences[0]}  # the difference is the clock's own start
