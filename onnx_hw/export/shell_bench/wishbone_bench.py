"""Test bench of the network on a Wishbone bus, against golden frames; it needs only cocotb and numpy.

``frames.npz`` holds the bytes of frames, (frames, bytes), and which of them are used.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

import cocotb

FOLDER = Path(__file__).parent
FACTS = json.loads((FOLDER / "shell.json").read_text()) if (FOLDER / "shell.json").exists() else {}
STATUS, CONTROL = 2, 3  # words
FREE, READY, REFUSED = 1, 2, 4  # bits of the status
SEND, TAKE, RESTART = 1, 2, 4  # bits of the control
MAX_POLLS = 200_000  # of the status


class Bus:
    """Controller of the bus: classic cycles, with pauses; addresses count words."""

    def __init__(self, dut: Any) -> None:
        self.dut, self.random = dut, random.Random(1)

    async def __call__(self, address: int, data: int | None = None) -> int:
        dut = self.dut
        for _ in range(self.random.choice((0, 0, 3))):
            await RisingEdge(dut.clk)
        dut.wb_adr_i.value, dut.wb_sel_i.value = address, 15
        dut.wb_dat_i.value, dut.wb_we_i.value = data or 0, int(data is not None)
        dut.wb_cyc_i.value = dut.wb_stb_i.value = 1
        await RisingEdge(dut.clk)
        while dut.wb_ack_o.value != 1:
            await RisingEdge(dut.clk)
        word = str(dut.wb_dat_o.value).replace("x", "0").replace("z", "0")  # bytes that fill up a beat may be unknown
        dut.wb_cyc_i.value = dut.wb_stb_i.value = 0
        return int(word, 2)


async def start(dut: Any) -> Bus:
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    dut.wb_cyc_i.value = dut.wb_stb_i.value = 0
    for _ in range(3):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    for _ in range(8):
        await RisingEdge(dut.clk)
    return Bus(dut)


async def write(bus: Bus, frame: bytes) -> None:
    for at in range(0, len(frame), 4):
        await bus((FACTS["window"] + at) // 4, int.from_bytes(frame[at : at + 4], "little"))


async def compare(bus: Bus, number: int, expected: np.ndarray, used: np.ndarray) -> None:
    words = [await bus((2 * FACTS["window"] + at) // 4) for at in range(0, len(expected), 4)]
    results = np.frombuffer(b"".join(word.to_bytes(4, "little") for word in words), np.uint8)[: len(expected)]
    differ = (results ^ expected) & used
    assert not differ.any(), f"frame {number}, byte {differ.nonzero()[0][0]}"
    await bus(CONTROL, TAKE)


def arrays() -> tuple[np.ndarray, ...]:
    with np.load(FOLDER / "frames.npz") as file:
        return file["in"], file["out"], file["used_out"]


@cocotb.test()
async def frames_are_goldens(dut: Any) -> None:
    """Write frames while there is room, and read results as soon as they are ready."""
    bus = await start(dut)
    frames, expected, used = arrays()
    sent = taken = 0
    for _ in range(MAX_POLLS):
        status = await bus(STATUS)
        if status & FREE and sent < len(frames):
            await write(bus, frames[sent].tobytes())
            await bus(CONTROL, SEND)
            sent += 1
        elif status & READY:
            await compare(bus, taken, expected[taken], used)
            taken += 1
        if taken == len(frames):
            break
    assert taken == len(frames)
    assert not await bus(STATUS) & REFUSED


@cocotb.test()
async def a_frame_cut_short(dut: Any) -> None:
    """Stop in the middle of a frame, restart, and check that nothing is left over."""
    bus = await start(dut)
    frames, expected, used = arrays()
    await write(bus, bytes(len(frames[0])))
    await bus(CONTROL, SEND)
    await write(bus, frames[0].tobytes()[:-1])
    await bus(CONTROL, RESTART)
    for _ in range(8):
        await RisingEdge(dut.clk)
    await write(bus, frames[-1].tobytes())
    await bus(CONTROL, SEND)
    for _ in range(MAX_POLLS):
        if await bus(STATUS) & READY:
            break
    await compare(bus, len(frames) - 1, expected[-1], used)
