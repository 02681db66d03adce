"""What cocotb runs inside a simulator: the stimulus in the current folder, cycle by cycle; see ``cocotb_engine``."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

import cocotb
from onnx_hw_sim.circuit import RESET_CYCLES
from onnx_hw_sim.cocotb_engine import RECORDING, STIMULUS
from onnx_hw_sim.environment import Outside


@cocotb.test()
async def run(dut: Any) -> None:
    """From reset to the end of the stimulus."""
    circuit, stimulus = pickle.loads(Path(STIMULUS).read_bytes())
    outside, ports = Outside(circuit, stimulus, None), Ports(dut, circuit)
    Clock(dut.clk, 10, unit="ns").start()
    await ports.reset(outside)
    if stimulus.false_start:
        for _ in range(stimulus.false_start):
            await ports.cycle(outside)
        outside.begin()
        await ports.reset(outside)
    while not outside.ended:
        await ports.cycle(outside)
    Path(RECORDING).write_bytes(pickle.dumps(outside.recording()))


class Ports:
    """The streams of a circuit, and its clock and reset."""

    def __init__(self, dut: Any, circuit: Any) -> None:
        def handles(streams: Any, signal: str) -> list[Any]:
            return [getattr(dut, f"{stream.name}_{signal}") for stream in streams]

        self.clk, self.rst, self.delay = dut.clk, dut.rst, circuit.reset_delay
        streams = (*circuit.sources, *circuit.sinks, *circuit.probes)
        self.payloads, self.valids, self.readies = (handles(streams, s) for s in ("payload", "valid", "ready"))
        self.sources = len(circuit.sources)
        self.sinks = len(circuit.sinks)
        self.fires = dut.fires if circuit.engines else None

    async def reset(self, outside: Outside) -> None:
        self.rst.value = 1
        self.drive(outside.driven(in_reset=True))
        for _ in range(RESET_CYCLES):
            await RisingEdge(self.clk)
        self.rst.value = 0
        for _ in range(self.delay):
            await RisingEdge(self.clk)

    async def cycle(self, outside: Outside) -> None:
        """Drive a cycle, and see at its end what it was."""
        self.drive(outside.driven())
        await RisingEdge(self.clk)
        seen = _bits(self.valids) | _bits(self.readies) << len(self.valids)
        if self.fires is not None:
            seen |= int(self.fires.value) << 2 * len(self.valids)
        outside.observe(seen, self.payload)

    def drive(self, ends: tuple[list[int], int, int]) -> None:
        payloads, valids, readies = ends
        for k, payload in enumerate(payloads):
            self.payloads[k].value, self.valids[k].value = payload, valids >> k & 1
        for k in range(self.sinks):
            self.readies[self.sources + k].value = readies >> k & 1

    def payload(self, k: int) -> int:
        """Unknown bits are of lanes that nobody uses, or wrong: golden tells."""
        value = self.payloads[k].value
        try:
            return int(value)
        except ValueError:
            return int("".join(bit if bit in "01" else "0" for bit in str(value)), 2)


def _bits(handles: list[Any]) -> int:
    return sum((handle.value == 1) << k for k, handle in enumerate(handles))
