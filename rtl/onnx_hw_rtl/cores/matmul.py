"""``o[pixel] = weights · i[pixel]``: ``in_lanes × out_lanes`` products per cycle, never idle.

The input vector of a pixel arrives once, in beats of ``in_lanes``, and is replayed from a buffer for every further
group of ``out_lanes`` results. Per group, ``ceil(inputs / in_lanes)`` cycles; latency 10 + ceil(log2(in_lanes)), or
less with products of look-up tables: those of 8 × 8 bits take two cycles. Several pixels may be held
at a time, a *tile*: then each group of results is made for all of them before the next one.

    stage  1     the beat, the address of its weights
           2..4  the buffer's copy of the beat; the weights (block RAM with its output register)
           5     both, in registers next to the multipliers
           6..9  the products: three registers in the multiplier, one in fabric
           10..  the adder tree, one register a level; then the accumulator
"""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Cat, Module, Mux, ResetSignal, Shape, Signal, Value
from amaranth.lib import memory

from onnx_hw_rtl.arithmetic.adder_tree import adder_tree
from onnx_hw_rtl.arithmetic.product import product, product_latency
from onnx_hw_rtl.arithmetic.running_sums import RunningSums
from onnx_hw_rtl.cores.tile_weights import TileWeightBuffer, place_in_tile
from onnx_hw_rtl.cores.weights import LATENCY as WEIGHTS_LATENCY
from onnx_hw_rtl.cores.weights import Streamed, WeightBuffer, read_weights
from onnx_hw_rtl.parts.block_rom import IN_BLOCK
from onnx_hw_rtl.parts.fanout import copies, memory_parts, spread
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed
from onnx_hw_rtl.streams.stream import beat, bits_of

RESULTS_PER_VECTOR_COPY = 4


class MatMul(Core):
    """Product of a matrix and a vector.

    Args:
        words: (groups · beats, out_lanes · in_lanes) integers: the weights of each cycle of a vector, for each group
            of results, for each beat of the vector. Within a word, results are the outer axis and inputs the inner one;
            lanes without a result or an input hold 0.
        groups: beats of the results of a vector.
        weight_bits, weight_signed: shape that holds every weight.
        bits, signed: shape of an input element.
        out_bits: width of a result, signed; wide enough for every final sum.
        in_lanes, out_lanes: channels per beat.
        pixels: vectors side by side in a beat; the number of multipliers is the product of the three.
        tile: vectors, or as many times those side by side, that are held; more than one where weights come on a stream.
        depth: FIFO depth of the output.
        in_logic: whether products are made of look-up tables.
        in_block: whether memories are made of block RAM, however small they are.
    """

    def __init__(
        self,
        words: np.ndarray | Streamed,
        *,
        groups: int,
        weight_bits: int,
        weight_signed: bool,
        bits: int,
        signed: bool,
        out_bits: int,
        out_signed: bool,
        in_lanes: int,
        out_lanes: int,
        pixels: int = 1,
        tile: int = 1,
        depth: int,
        in_logic: bool = False,
        in_block: bool = False,
    ) -> None:
        count, lanes = (words.words, out_lanes * in_lanes) if isinstance(words, Streamed) else words.shape
        if lanes != out_lanes * in_lanes or (tile == 1 and count % groups):
            raise ValueError(f"words must be (n · {groups}, {out_lanes} · {in_lanes}), not ({count}, {lanes})")
        if tile > 1 and not isinstance(words, Streamed):
            raise ValueError("several pixels are held only where weights come on a stream")
        self.words, self.groups, self.tile = words, groups, tile
        self.beats = count if tile > 1 else count // groups
        self.weight, self.element, self.result = (
            Shape(weight_bits, weight_signed),
            Shape(bits, signed),
            Shape(out_bits, out_signed),
        )
        self.in_lanes, self.out_lanes, self.pixels = in_lanes, out_lanes, pixels
        self.in_logic, self.in_block = in_logic, in_block
        self.product_latency = product_latency(self.element, self.weight, in_logic=in_logic)
        self.latency = 6 + self.product_latency + (in_lanes - 1).bit_length()
        super().__init__(
            {
                "i": beat(pixels * in_lanes, bits, signed),
                **({"w": beat(words.lanes, weight_bits, weight_signed)} if isinstance(words, Streamed) else {}),
            },
            {"o": (beat(pixels * out_lanes, out_bits, out_signed), depth)},
            ("weights", "matmul") if isinstance(words, Streamed) else ("matmul",),
        )

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox, buffer = self.outboxes["o"], self._buffer(m)
        engine = Engine(
            m,
            "matmul",
            self._loops(buffer),
            pops=[(self.i, lambda turn: turn["group"] == 0)],
            pushes=[(outbox, lambda turn: turn["beat"] == self.beats - 1)],
            conditions=(buffer.has_word,) if buffer else (),
        )
        vectors = self._vectors(m, engine)
        weights = self._weights(m, engine, buffer)
        before = self.latency - 2  # the stage before that of the adder tree's result
        there = delayed(m, engine.fire, before, "there", strobe=True)
        first = delayed(m, engine.decode(lambda turn: turn["beat"] == 0, 1, "first"), before, "first")
        count = self.pixels * self.out_lanes
        sums = RunningSums(m, platform, there=there, first=first, count=count)
        for place in range(count):
            pixel, row = divmod(place, self.out_lanes)
            size = self.in_lanes * self.element.width
            vector = vectors[row // RESULTS_PER_VECTOR_COPY][pixel * size : (pixel + 1) * size]
            total = self._dot(m, place, vector, weights[row])
            result = Signal(self.result, name=f"result{place}", reset_less=True)
            sums.add(m, place, result, total)
            m.d.comb += outbox.data[place].eq(result)
        self.arrives(m, "o", self.latency)
        self.report(m, *([buffer.writer] if buffer else []), engine)
        return m

    def _loops(self, buffer: WeightBuffer | None) -> dict[str, int]:
        """Return the loops of the multipliers, the outermost first."""
        if self.tile > 1:
            return {"group": self.groups, "pixel": self.tile, "beat": self.beats}
        return {**(buffer.loops if buffer else {}), "group": self.groups, "beat": self.beats}

    def _buffer(self, m: Module) -> WeightBuffer | None:
        """Return the buffer of weights that come on a stream; None for constant weights."""
        if not isinstance(self.words, Streamed):
            return None
        kind = TileWeightBuffer if self.tile > 1 else WeightBuffer
        return kind(m, self.w, self.words, beats=self.beats, in_lanes=self.in_lanes, weight=self.weight)

    def _vectors(self, m: Module, engine: Engine) -> list[Value]:
        """Return the input beat, fresh or replayed, in stage 5: one copy for every few results."""
        is_fresh = engine.decode(lambda turn: turn["group"] == 0, 1, "fresh")
        fresh = delayed(m, is_fresh, 1, "fresh")
        x = delayed(m, bits_of(self.i.payload), 1, "x")
        if self.groups > 1:
            replayed = delayed(m, self._replayed(m, engine, engine.fire & is_fresh, x), 1, "replayed")
            x4 = Signal(len(x), reset_less=True)
            passed = delayed(m, x, 2, "x")
            for bits, its_own in spread(m, delayed(m, fresh, 1, "fresh"), len(x), "fresh"):
                m.d.sync += x4[bits].eq(Mux(its_own, passed[bits], replayed[bits]))
        else:
            x4 = delayed(m, x, 3, "x")
        return copies(m, x4, -(-self.out_lanes // RESULTS_PER_VECTOR_COPY), "vector")

    def _replayed(self, m: Module, engine: Engine, takes: Value, x: Value) -> Value:
        """Return the vector's beat stored last at the operation's place, in stage 2, where x is stored."""
        slots = self.tile * self.beats
        slot = place_in_tile(m, engine, slots) if self.tile > 1 else self._place_in_vector(engine)
        control = Cat(Mux(ResetSignal(allow_reset_less=True), 0, takes), slot)
        parts = memory_parts(len(x), slots)
        words_read, attributes = [], IN_BLOCK if self.in_block else {}
        for bits, its_own in zip(parts, copies(m, control, len(parts), "slot"), strict=True):
            part = x[bits]
            vector = memory.Memory(shape=len(part), depth=max(2, slots), init=[], attrs=attributes)
            m.submodules[f"vector{bits.start}"] = vector
            write_port, read_port = vector.write_port(), vector.read_port()
            m.d.comb += [
                write_port.addr.eq(its_own[1:]),
                write_port.data.eq(part),
                write_port.en.eq(its_own[0]),
                read_port.addr.eq(its_own[1:]),
            ]
            words_read.append(read_port.data)
        return Cat(*words_read)

    def _place_in_vector(self, engine: Engine) -> Signal:
        """Return the operation's beat of the vector."""
        return engine.decode(lambda turn: turn["beat"], range(max(2, self.beats)), "beat")

    def _weights(self, m: Module, engine: Engine, buffer: WeightBuffer | None) -> list[list[Value]]:
        """Return the weight of every lane, by result and input lane, in stage 5."""
        if buffer is not None:
            lanes = buffer.read(engine, self.out_lanes * self.in_lanes)
        else:
            assert isinstance(self.words, np.ndarray)
            lanes = read_weights(
                m,
                engine,
                self.words,
                self.weight,
                self.constants,
                waits=5 - WEIGHTS_LATENCY,
                in_logic=self.in_logic,
                in_block=self.in_block,
            )
        return [lanes[row * self.in_lanes : (row + 1) * self.in_lanes] for row in range(self.out_lanes)]

    def _dot(self, m: Module, place: int, vector: Value, weights: list[Value]) -> Value:
        """Build the products and the adder tree of one result."""
        terms: list[Value] = []
        width = self.element.width
        for k, weight in enumerate(weights):
            element, shapes = vector[k * width : (k + 1) * width], (self.element, self.weight)
            name, latency = f"{place}_{k}", self.product_latency
            terms.append(product(m, name, element, weight, shapes, latency=latency, in_logic=self.in_logic))
        return adder_tree(m, terms, self.result.width, str(place))
