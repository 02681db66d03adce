"""Test bench of the network between AXI4-Streams, against golden frames; it needs only cocotb and numpy.

``frames.npz`` holds the bytes of every stream, (frames, bytes), and which of them are used.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import Combine, RisingEdge, with_timeout

import cocotb

FOLDER = Path(__file__).parent
FACTS = json.loads((FOLDER / "shell.json").read_text()) if (FOLDER / "shell.json").exists() else {}
PATIENCE_MS = 200


def frames(name: str) -> np.ndarray:
    with np.load(FOLDER / "frames.npz") as file:
        return file[name]


def pins(dut: Any, prefix: str, stream: dict[str, Any]) -> tuple[Any, ...]:
    """Return the signals ``tdata``, ``tvalid``, ``tready`` and ``tlast`` of a stream."""
    return tuple(getattr(dut, f"{prefix}_{stream['name']}_t{part}") for part in ("data", "valid", "ready", "last"))


async def send(dut: Any, stream: dict[str, Any], rows: list[bytes], willing: float, seed: int) -> None:
    """Send packets, with ``tlast`` at the end of each; offer every beat until it is taken."""
    data, valid, ready, last = pins(dut, "s_axis", stream)
    hesitates, size = random.Random(seed), stream["beat_bytes"]
    for row in rows:
        for at in range(0, len(row), size):
            while hesitates.random() > willing:
                await RisingEdge(dut.clk)
            data.value, valid.value = int.from_bytes(row[at : at + size], "little"), 1
            last.value = int(at + size == len(row))
            await RisingEdge(dut.clk)
            while ready.value != 1:
                await RisingEdge(dut.clk)
            valid.value = 0


async def expect(dut: Any, stream: dict[str, Any], count: int, willing: float, skip: int = -1) -> None:
    """Take frames and compare each with golden, but for the one that is skipped; check ``tlast`` of all."""
    data, valid, ready, last = pins(dut, "m_axis", stream)
    hesitates, size = random.Random(99), stream["beat_bytes"]
    expected, used = frames(f"out_{stream['name']}"), frames(f"used_out_{stream['name']}")
    for number in range(count):
        row = bytearray()
        for beat in range(stream["beats"]):
            while True:
                ready.value = int(hesitates.random() < willing)
                await RisingEdge(dut.clk)
                if ready.value == 1 and valid.value == 1:
                    break
            word = str(data.value).replace("x", "0").replace("z", "0")  # bytes that fill up a beat may be unknown
            row += int(word, 2).to_bytes(size, "little")
            assert last.value == (beat == stream["beats"] - 1), f"tlast of beat {beat}, frame {number}"
        differ = (np.frombuffer(row, np.uint8) ^ expected[number]) & used
        assert number == skip or not differ.any(), f"frame {number} of {stream['name']}, byte {differ.nonzero()[0][0]}"
    ready.value = 0


async def run(dut: Any, willing: float, cut: int = -1) -> None:
    """Send all frames and compare the results.

    Args:
        willing: probability that an end is willing in a cycle, 0..1.
        cut: number of the frame of the first input that lacks its last beat; -1 for none.
    """
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    for stream in FACTS["inputs"]:
        data, valid, _, last = pins(dut, "s_axis", stream)
        data.value = valid.value = last.value = 0
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    count, tasks = 0, []
    for k, stream in enumerate(FACTS["inputs"]):
        rows = [row.tobytes() for row in frames(f"in_{stream['name']}")]
        count = len(rows)
        if k == 0 and 0 <= cut < count:
            rows[cut] = rows[cut][: -stream["beat_bytes"]]
        tasks.append(cocotb.start_soon(send(dut, stream, rows, willing, k)))
    tasks += [cocotb.start_soon(expect(dut, stream, count, willing, cut)) for stream in FACTS["outputs"]]
    await with_timeout(Combine(*tasks), PATIENCE_MS, "ms")
    await RisingEdge(dut.clk)
    assert dut.wrong.value == (1 if cut >= 0 else 0)


@cocotb.test()
async def without_pauses(dut: Any) -> None:
    await run(dut, 1.0)


@cocotb.test()
async def with_pauses(dut: Any) -> None:
    await run(dut, 0.6)


@cocotb.test(skip=not FACTS or FACTS["inputs"][0]["beats"] < 2)
async def a_frame_cut_short(dut: Any) -> None:
    """Check that a short frame does not shift those behind it, and is reported on ``wrong``."""
    await run(dut, 0.8, cut=0)
