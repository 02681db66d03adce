"""How fast circuits compile and simulate, by number of multipliers and with every edge recorded.

    python benchmarks/simulation_speed.py [--keep FOLDER] [--frames N] [NAME ...]

A circuit here is a chain of multiply-accumulate layers with the shapes of real ones: weights in memories, a line
buffer before each layer, a queue behind it, stalls at both ends.

Columns: seconds to build, with Verilator and for runs in lockstep; cycles a second, without and with stalls, of one run
by Verilator and of four in lockstep together; of one in Amaranth's simulator. All on one processor.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from amaranth.back import rtlil
from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from onnx_hw_sim import stalls
from onnx_hw_sim.circuit import Circuit, Simulator, Stimulus, Stream, run_together, runs_at_once
from onnx_hw_sim.compiled import CompiledSimulator
from onnx_hw_sim.interpreted import InterpretedSimulator
from onnx_hw_sim.lockstep.simulator import LockstepSimulator

BITS = 8
LATENCY = 5
QUEUE = 16


@dataclass(frozen=True)
class Shape:
    """A layer of ``ins * outs`` multipliers with ``words`` weights each and a line buffer of ``line`` tokens."""

    ins: int
    outs: int
    words: int = 256
    line: int = 512


NETS = {
    "one layer, 64 lanes": (Shape(8, 8),),
    "three layers, 96 lanes": (Shape(4, 8), Shape(8, 4), Shape(4, 8)),
    "ten layers, 100 lanes": (Shape(2, 5),) + (Shape(5, 2), Shape(2, 5)) * 4 + (Shape(5, 2),),
    "five layers, 320 lanes": (Shape(8, 8),) * 5,
}


class Layer(wiring.Component):
    """One token in, one token out; the accumulators run on for ``words`` tokens. A credit guards the queue."""

    def __init__(self, shape: Shape, seed: int):
        self.dimensions, self.seed = shape, seed
        super().__init__(
            {
                "i_payload": In(shape.ins * BITS),
                "i_valid": In(1),
                "i_ready": Out(1),
                "o_payload": Out(shape.outs * BITS),
                "o_valid": Out(1),
                "o_ready": In(1),
                "fire": Out(1),
            }
        )

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        shape = self.dimensions
        m.d.comb += [self.fire.eq(self.i_valid & self.i_ready)]
        pop = Signal()
        m.d.comb += pop.eq(self.o_valid & self.o_ready)
        credit = Signal(range(QUEUE + 1), init=QUEUE)
        m.d.sync += credit.eq(credit - self.fire + pop)
        m.d.comb += self.i_ready.eq(credit != 0)

        step, column = Signal(range(shape.words)), Signal(range(shape.line))
        with m.If(self.fire):
            m.d.sync += step.eq(Mux(step == shape.words - 1, 0, step + 1))
            m.d.sync += column.eq(Mux(column == shape.line - 1, 0, column + 1))

        lanes = data.ArrayLayout(signed(BITS), shape.ins * shape.outs)
        random = np.random.default_rng(self.seed)
        rows = random.integers(-128, 128, (shape.words, shape.ins * shape.outs))
        m.submodules.weights = weights = Memory(shape=lanes, depth=shape.words, init=[row.tolist() for row in rows])
        m.submodules.line = line = Memory(shape=shape.ins * BITS, depth=shape.line, init=[])
        read, before, write = weights.read_port(), line.read_port(), line.write_port()
        m.d.comb += [read.addr.eq(step), before.addr.eq(column), write.addr.eq(column)]
        m.d.comb += [write.data.eq(self.i_payload), write.en.eq(self.fire)]

        run = [Signal(name=f"run{k}") for k in range(LATENCY)]
        m.d.sync += Cat(*run).eq(Cat(self.fire, *run))
        current = Signal(shape.ins * BITS)
        m.d.sync += current.eq(self.i_payload)
        mixed = data.View(data.ArrayLayout(signed(BITS), shape.ins), current ^ before.data)
        results = []
        for out in range(shape.outs):
            products = [Signal(signed(16), name=f"p{out}_{k}") for k in range(shape.ins)]
            m.d.sync += [p.eq(mixed[k] * read.data[out * shape.ins + k]) for k, p in enumerate(products)]
            total, accumulator = Signal(signed(20), name=f"t{out}"), Signal(signed(28), name=f"a{out}")
            result = Signal(signed(BITS), name=f"r{out}")
            m.d.sync += total.eq(sum(products[1:], products[0]))
            with m.If(run[2]):
                m.d.sync += accumulator.eq(Mux(step == 0, 0, accumulator) + total)
            scaled = (accumulator * Const(1234567, signed(22))) >> 30
            m.d.sync += result.eq(Mux(scaled > 127, 127, Mux(scaled < -128, -128, scaled)))
            results.append(result)

        words = Signal(data.ArrayLayout(shape.outs * BITS, QUEUE))
        head, tail, level = Signal(range(QUEUE)), Signal(range(QUEUE)), Signal(range(QUEUE + 1))
        with m.If(run[-1]):
            m.d.sync += [words[tail].eq(Cat(*results)), tail.eq(tail + 1)]
        m.d.sync += [head.eq(head + pop), level.eq(level + run[-1] - pop)]
        m.d.comb += [self.o_valid.eq(level != 0), self.o_payload.eq(words[head])]
        return m


class Chain(wiring.Component):
    """Layers in a row, every edge visible."""

    def __init__(self, shapes: tuple[Shape, ...]):
        self.layers = [Layer(shape, seed) for seed, shape in enumerate(shapes)]
        ends = Stream("x", shapes[0].ins, BITS), Stream("y", shapes[-1].outs, BITS)
        self.probes = tuple(Stream(f"edge{k}", shape.outs, BITS) for k, shape in enumerate(shapes[:-1]))
        self.source, self.sink = ends
        ports = {"x_payload": In(self.source.width), "x_valid": In(1), "x_ready": Out(1)}
        ports |= {"y_payload": Out(self.sink.width), "y_valid": Out(1), "y_ready": In(1)}
        for probe in self.probes:
            ports |= {f"{probe.name}_payload": Out(probe.width)}
            ports |= {f"{probe.name}_valid": Out(1), f"{probe.name}_ready": Out(1)}
        super().__init__(ports | {"fires": Out(len(shapes))})

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules += self.layers
        before, after = self.layers[0], self.layers[-1]
        m.d.comb += self.fires.eq(Cat(*(layer.fire for layer in self.layers)))
        m.d.comb += [before.i_payload.eq(self.x_payload), before.i_valid.eq(self.x_valid)]
        m.d.comb += [self.x_ready.eq(before.i_ready), after.o_ready.eq(self.y_ready)]
        m.d.comb += [self.y_payload.eq(after.o_payload), self.y_valid.eq(after.o_valid)]
        for probe, left, right in zip(self.probes, self.layers, self.layers[1:], strict=False):
            m.d.comb += [right.i_payload.eq(left.o_payload), right.i_valid.eq(left.o_valid)]
            m.d.comb += left.o_ready.eq(right.i_ready)
            m.d.comb += [getattr(self, f"{probe.name}_payload").eq(left.o_payload)]
            m.d.comb += [getattr(self, f"{probe.name}_valid").eq(left.o_valid)]
            m.d.comb += [getattr(self, f"{probe.name}_ready").eq(left.o_ready)]
        return m

    def circuit(self) -> Circuit:
        engines = tuple(f"layer{k}" for k in range(len(self.layers)))
        return Circuit(rtlil.convert(self, name="top"), (self.source,), (self.sink,), self.probes, engines)


def stimulus(circuit: Circuit, tokens: int, stalled: bool) -> Stimulus:
    (source,), (sink,) = circuit.sources, circuit.sinks
    values = np.random.default_rng(1).integers(-128, 128, (tokens, source.lanes))
    offers = stalls.random_offers(tokens, 0.7, seed=1) if stalled else stalls.at_once(tokens)
    ready = stalls.random_ready(2 * tokens, 0.7, seed=2) if stalled else stalls.always()
    return Stimulus(
        {source.name: values}, {source.name: offers}, {sink.name: ready}, {sink.name: tokens}, cycles=100 * tokens
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=list(NETS), metavar="NAME", help=", ".join(NETS))
    parser.add_argument("--keep", type=Path, help="folder for the compiled circuits, kept; a second call reuses them")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        titles = ("Verilator", "with stalls", "lockstep", "with stalls", "interpreted")
        print(f"{'circuit':24} {'build':>8} {'build':>8} {' '.join(f'{title:>12}' for title in titles)}")
        for name in options.nets:
            chain = Chain(NETS[name])
            circuit = chain.circuit()
            builds, speeds = [], []
            for kind in (CompiledSimulator, LockstepSimulator):
                begin = time.perf_counter()
                simulator = kind.build(circuit, folder)
                builds.append(time.perf_counter() - begin)
                speeds += [speed(simulator, circuit, options.tokens, stalled) for stalled in (False, True)]
            speeds.append(
                speed(InterpretedSimulator(circuit, chain), circuit, min(options.tokens, 1000), stalled=False)
            )
            print(
                f"{name:24} {' '.join(f'{build:6.1f} s' for build in builds)} "
                f"{' '.join(f'{each / 1000:8,.0f} k/s' for each in speeds)}",
                flush=True,
            )


def speed(simulator: Simulator, circuit: Circuit, tokens: int, stalled: bool) -> float:
    """Cycles a second on one processor, of all runs together where several go at once."""
    given = [stimulus(circuit, tokens, stalled)] * runs_at_once(simulator)
    begin = time.perf_counter()
    recordings = run_together(simulator, given)
    seconds = time.perf_counter() - begin
    assert all(recording.finished for recording in recordings)
    return sum(recording.cycles for recording in recordings) / seconds


if __name__ == "__main__":
    main()
