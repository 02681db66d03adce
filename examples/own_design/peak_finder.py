"""A core of onnx-hw in one's own Amaranth design: a bank of filters, and behind it a detector of the loudest one.

    pip install onnx-hw
    python peak_finder.py

Simulates the design, compares it with numpy, and writes peak_finder.il, which yosys reads, into the current folder.
"""

from pathlib import Path

import numpy as np
from amaranth.back import rtlil
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped
from amaranth.sim import Simulator

from onnx_hw.exact.integers import Int
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.streams.stream import signature

TAPS, FILTERS = 16, 4

# The operator: 16 samples of 8 bits times the taps of 4 filters. It says its meaning, its cycles and its circuit.
tones = np.cos(np.outer(2 * np.pi * np.array([1, 2, 3, 5]) / TAPS, np.arange(TAPS)))
filters = MatMul(Tensor((1, 1, TAPS), Int(8)), np.rint(31 * tones).astype(np.int64))
folding = MatMulFolding(in_lanes=4, out_lanes=1)  # four products in a cycle, one filter after the other
(sums,) = filters.results()
(samples,) = filters.input_orders(folding)
print(f"{filters!r}: {filters.cycles(folding)} cycles a window, {sums!r} out")


class PeakFinder(wiring.Component):
    """Windows of samples in, the number of the filter with the largest magnitude out."""

    samples: In(signature(lanes=samples.width, bits=8))
    peak: Out(stream.Signature(range(FILTERS)))

    def elaborate(self, platform):
        m = Module()
        m.submodules.filters = core = filters.core(folding, {"o": 8})
        connect(m, flipped(self.samples), core.i)
        number, best, largest = Signal(range(FILTERS)), Signal(range(FILTERS)), Signal(sums.dtype.bits)
        level = abs(core.o.payload[0])
        louder = (number == 0) | (level > largest)
        last = number == FILTERS - 1
        m.d.comb += [
            self.peak.payload.eq(Mux(louder, number, best)),
            self.peak.valid.eq(core.o.valid & last),
            core.o.ready.eq(~last | self.peak.ready),
        ]
        with m.If(core.o.valid & core.o.ready):
            m.d.sync += number.eq(Mux(last, 0, number + 1))
            with m.If(louder):
                m.d.sync += [best.eq(number), largest.eq(level)]
        return m


finder = PeakFinder()
Path("peak_finder.il").write_text(rtlil.convert(finder, name="peak_finder"))

# Each window is a tone of one of the filters, and noise.
random = np.random.default_rng(0)
played = random.integers(0, FILTERS, 40)
windows = np.rint(90 * tones[played] + random.normal(0, 10, (40, TAPS))).astype(np.int64)
heard = []


async def send(ctx):
    for beat in windows.reshape(-1, samples.width).tolist():
        ctx.set(finder.samples.payload, beat)
        ctx.set(finder.samples.valid, 1)
        await ctx.tick().until(finder.samples.ready)
    ctx.set(finder.samples.valid, 0)


async def receive(ctx):
    ctx.set(finder.peak.ready, 1)
    for _ in windows:
        (number,) = await ctx.tick().sample(finder.peak.payload).until(finder.peak.valid)
        heard.append(number)


simulator = Simulator(finder)
simulator.add_clock(1e-6)
simulator.add_testbench(send)
simulator.add_testbench(receive)
simulator.run()

(wanted,) = filters.golden(windows.reshape(-1, 1, 1, TAPS))
by_numpy = np.abs(wanted.reshape(-1, FILTERS)).argmax(axis=1)
print(f"{(np.array(heard) == by_numpy).sum()} of {len(windows)} windows as numpy computes them")
print(f"{(by_numpy == played).sum()} of {len(windows)} tones found")
