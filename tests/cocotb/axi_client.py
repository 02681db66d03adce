"""A foreign AXI4-Stream client at a network's shell, both of whose ends pause at random: runs inside a simulator."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge, with_timeout
from cocotbext.axi import AxiStreamBus, AxiStreamSink, AxiStreamSource

import cocotb

PATIENCE_MS = 5


def pauses(seed: int) -> Iterator[bool]:
    source = random.Random(seed)
    while True:
        yield source.random() < 0.4


@cocotb.test()
async def frames_pass(dut: Any) -> None:
    with np.load(os.environ["FRAMES"]) as stored:
        inputs, wanted, used = {name: stored[name] for name in ("a", "b")}, stored["sum_o"], stored["used"]
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    sources = {
        name: AxiStreamSource(AxiStreamBus.from_prefix(dut, f"s_axis_{name}"), dut.clk, dut.rst) for name in inputs
    }
    sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_sum_o"), dut.clk, dut.rst)
    for seed, end in enumerate((*sources.values(), sink)):
        end.set_pause_generator(pauses(seed))
    for _ in range(4):
        await RisingEdge(dut.clk)
    dut.rst.value = 0
    for name, frames in inputs.items():
        for frame in frames:
            await sources[name].send(frame.tobytes())
    for number, frame in enumerate(wanted):
        came = await with_timeout(sink.recv(), PATIENCE_MS, "ms")
        assert not ((np.frombuffer(bytes(came.tdata), dtype=np.uint8) ^ frame) & used).any(), f"frame {number}"
    await RisingEdge(dut.clk)
    assert sink.empty() and dut.wrong.value == 0
