"""The clock beside results: of drawn frames, the cycles that it tells are those in which they began and ended."""

from __future__ import annotations

import random
from collections import deque

import pytest
from amaranth.sim import Simulator

from onnx_hw_rtl.link.timestamps import FrameTimestamps

BYTES = 9


@pytest.mark.parametrize("seed", range(3))
def test_times_are_those_of_the_frames(seed: int) -> None:
    """Frames overlap; a frame's bytes are asked for one cycle after the other, as soon as they may be, or later."""
    circuit, source = FrameTimestamps(), random.Random(seed)
    inside: deque[int] = deque()  # the cycles in which frames began
    told: list[tuple[int, int, list[int]]] = []  # (began, ended, bytes)

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        asked: tuple[int, int, list[int]] | None = None
        for cycle in range(4000):
            begins = len(inside) < 5 and source.random() < 0.1
            ends = bool(inside) and asked is None and cycle - inside[0] > 4 and source.random() < 0.2
            if ends:
                asked = inside.popleft(), cycle, []
                told.append(asked)
            if begins:
                inside.append(cycle)
            index = len(asked[2]) if asked else 0
            passes = asked is not None and cycle >= asked[1] + 2 + index and source.random() < 0.9
            for name, value in (("begins", begins), ("ends", ends), ("passes", passes)):
                context.set(getattr(circuit, name), value)
            if asked is not None and passes:
                asked[2].append(context.get(circuit.byte))
                asked = asked if len(asked[2]) < BYTES else None
            await context.tick()

    simulator = Simulator(circuit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    whole = [(began, ended, bytes(text)) for began, ended, text in told if len(text) == BYTES]
    ends_told = [int.from_bytes(text[5:], "little") - ended for _, ended, text in whole]
    begins_told = [int.from_bytes(text[1:5], "little") - began for began, _, text in whole if text[0] & 1]
    assert len(whole) > 100 and len(begins_told) > 30
    assert {*ends_told, *begins_told} == {ends_told[0]}  # the clock's own beginning
