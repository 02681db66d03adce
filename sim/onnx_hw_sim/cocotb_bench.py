"""Test bench that cocotb runs inside a simulator: the stimulus in the current folder, cycle by cycle
(``cocotb_engine``).
"""

from __future__ import annotations

import pickle
import select
import socket
from io import BufferedRWPair
from pathlib import Path
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

import cocotb
from onnx_hw_sim.circuit import RESET_CYCLES
from onnx_hw_sim.cocotb_engine import ENDED, STIMULUS
from onnx_hw_sim.environment import Environment

CYCLES_PER_LOOK = 1024
"""Cycles between two looks at whether the other side is still there: a second, at most."""


@cocotb.test()
async def run(dut: Any) -> None:
    """Run the stimulus from reset to its end, and send what is recorded of each window that is asked for."""
    circuit, stimulus, address, token = pickle.loads(Path(STIMULUS).read_bytes())
    environment, ports = Environment(circuit, stimulus, None), Ports(dut, circuit)
    with socket.create_connection(address) as connection, connection.makefile("rwb") as pipe:
        pipe.write(token)
        pipe.flush()
        Clock(dut.clk, 10, unit="ns").start()
        await ports.reset(environment)
        if stimulus.false_start:
            for _ in range(stimulus.false_start):
                await ports.cycle(environment)
            environment.begin()
            await ports.reset(environment)
        while (asked := _asked(pipe)) is not None:
            cycles, limit = asked
            environment.limit = stimulus.cycles if limit is None else limit
            until = environment.cycle + cycles
            while environment.cycle < until and not environment.ended:
                await ports.cycle(environment)
                if environment.cycle % CYCLES_PER_LOOK == 0 and select.select([connection], [], [], 0)[0]:
                    return  # the other side has gone: it says nothing else before it has its answer
            pickle.dump((not environment.ended, environment.recording()), pipe)
            pipe.flush()
            environment.forget()
    Path(ENDED).touch()


def _asked(pipe: BufferedRWPair) -> tuple[int, int | None] | None:
    """Return the cycles of the window that is asked for, and those of the run if they changed; None at the end."""
    try:
        asked: tuple[int, int | None] = pickle.load(pipe)
    except EOFError:
        return None
    return asked


class Ports:
    """Streams of a circuit, its clock and its reset."""

    def __init__(self, dut: Any, circuit: Any) -> None:
        def handles(streams: Any, signal: str) -> list[Any]:
            return [getattr(dut, f"{stream.name}_{signal}") for stream in streams]

        self.clk, self.rst, self.delay = dut.clk, dut.rst, circuit.reset_delay
        streams = (*circuit.sources, *circuit.sinks, *circuit.probes)
        self.payloads, self.valids, self.readies = (handles(streams, s) for s in ("payload", "valid", "ready"))
        self.sources = len(circuit.sources)
        self.sinks = len(circuit.sinks)
        self.fires = dut.fires if circuit.engines else None

    async def reset(self, environment: Environment) -> None:
        self.rst.value = 1
        self.drive(environment.driven(in_reset=True))
        for _ in range(RESET_CYCLES):
            await RisingEdge(self.clk)
        self.rst.value = 0
        for _ in range(self.delay):
            await RisingEdge(self.clk)

    async def cycle(self, environment: Environment) -> None:
        """Drive a cycle, and observe the ports at its end."""
        self.drive(environment.driven())
        await RisingEdge(self.clk)
        seen = _bits(self.valids) | _bits(self.readies) << len(self.valids)
        if self.fires is not None:
            seen |= int(self.fires.value) << 2 * len(self.valids)
        environment.observe(seen, self.payload)

    def drive(self, ends: tuple[list[int], int, int]) -> None:
        payloads, valids, readies = ends
        for k, payload in enumerate(payloads):
            self.payloads[k].value, self.valids[k].value = payload, valids >> k & 1
        for k in range(self.sinks):
            self.readies[self.sources + k].value = readies >> k & 1

    def payload(self, k: int) -> int:
        """Return a payload, with unknown bits as 0.

        Unknown bits belong to unused lanes, or they are wrong: then the comparison with the golden model shows it.
        """
        value = self.payloads[k].value
        try:
            return int(value)
        except ValueError:
            return int("".join(bit if bit in "01" else "0" for bit in str(value)), 2)


def _bits(handles: list[Any]) -> int:
    return sum((handle.value == 1) << k for k, handle in enumerate(handles))
