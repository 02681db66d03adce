# amaranth: UnusedElaboratable=no
"""Outermost module: the circuit starts in reset, and the pad resets it two cycles late."""

from __future__ import annotations

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out
from amaranth.sim import Simulator

from onnx_hw_rtl.shells.shell import Shell


class Counter(Component):
    """Counter from 5 on, in steps of ``step``."""

    def __init__(self) -> None:
        super().__init__({"step": In(4), "count": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Signal(8, init=5)
        m.d.sync += count.eq(count + self.step)
        m.d.comb += self.count.eq(count)
        return m


def counts(reset: list[int]) -> list[int]:
    """Return the counter's value in every cycle, for the values of the reset pad."""
    shell = Shell(Counter())
    values: list[int] = []

    async def drive(context: object) -> None:
        context.set(shell.step, 3)
        for level in reset:
            context.set(shell.clk, 0)
            context.set(shell.rst, level)
            await context.delay(1e-6)
            values.append(context.get(shell.count))
            context.set(shell.clk, 1)
            await context.delay(1e-6)

    simulator = Simulator(shell)
    simulator.add_testbench(drive)
    simulator.run()
    return values


def test_the_circuit_starts_in_reset_whatever_the_pad_does() -> None:
    assert counts([0] * 6) == [5, 5, 5, 8, 11, 14]


def test_the_pad_resets_after_two_flip_flops() -> None:
    assert counts([0, 0, 0, 0, 1, 0, 0, 0, 0]) == [5, 5, 5, 8, 11, 14, 17, 5, 8]


def test_ports_that_cannot_be_pads_are_refused() -> None:
    class Streaming(Component):
        def __init__(self) -> None:
            super().__init__({"i": In(stream.Signature(8))})

    with pytest.raises(ValueError, match="port `i` cannot become a pad"):
        Shell(Streaming())

    class Clocked(Component):
        def __init__(self) -> None:
            super().__init__({"clk": In(1)})

    with pytest.raises(ValueError, match="port `clk`"):
        Shell(Clocked())
