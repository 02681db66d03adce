"""``o[channel]``: a channel of a pixel, less their mean or not, divided by the root of the sum of squares.

Three engines, one pixel behind the other:

* ``writer`` stores the elements, and adds them and their squares;
* ``root`` finds the inverse root of W = 4^finer · (weight · Q − S²) + epsilon, one bit per operation;
* ``reader`` multiplies d = 2^finer · (weight · x − S) by it, and pushes.

The state of ``root`` is in the stage ``root_stage`` of its operations, so that the sums, W and its leading zeros are
there; that of ``reader`` begins when its pixel's root is complete. ``half_bits`` is the greatest h with
4^(h − 1) ≤ W < 4^h; ``scale`` is how much smaller h is for a pixel.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from onnx_hw_rtl.arithmetic.constant_multiplier import ConstantMultiplier
from onnx_hw_rtl.arithmetic.inverse_root import root_in_steps
from onnx_hw_rtl.arithmetic.multiplier import WideMultiplier
from onnx_hw_rtl.arithmetic.rounded_shift import rounded_shift
from onnx_hw_rtl.arithmetic.soft_multiplier import SoftMultiplier
from onnx_hw_rtl.arithmetic.sum_tree import sum_tree
from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, Turn, choose, delayed
from onnx_hw_rtl.streams.pixel_buffer import PixelBuffer, chosen_for_pixel, kept_for_two_pixels
from onnx_hw_rtl.streams.shared_buffer import SharedBuffer
from onnx_hw_rtl.streams.stream import StreamShape, bits_of, groups_of

MULTIPLE_LATENCY = 3


class Normalize(Core):
    """Normalization over the channels of a pixel.

    Args:
        channels: number of channels of a pixel.
        i, o: the streams, with the same number of lanes.
        centered: whether the mean is subtracted.
        weight, epsilon, finer: constants of d and W.
        epsilon_bits: bits of an epsilon that is loaded; 0 for a constant.
        sums: shape of the sum of a pixel, and the greatest sum of its squares.
        half_bits: half of the bits of W, rounded up, at least 2.
        mantissa_bits: bits of a root.
        points: bound of |d| / √W; bits behind the point of a share of a power of two, and all its bits.
        shift: bits by which the product of a share and a root is shifted.
        capacity: beats of the buffer of elements.
        in_logic: whether products are made of look-up tables.
        depth: FIFO depth of the output.
    """

    def __init__(
        self,
        *,
        channels: int,
        i: StreamShape,
        o: StreamShape,
        centered: bool,
        weight: int,
        epsilon: int,
        epsilon_bits: int,
        finer: int,
        sums: tuple[Shape, int],
        half_bits: int,
        mantissa_bits: int,
        points: tuple[int, int, int],
        shift: int,
        capacity: int,
        in_logic: bool,
        depth: int,
    ) -> None:
        self.channels, self.lanes, self.chunks = channels, i.lanes, groups_of(channels, i.lanes)
        self.element, self.result = i.element, o.element
        self.centered, self.weight, self.capacity = centered, weight, capacity
        self.epsilon, self.epsilon_bits, self.finer = epsilon, epsilon_bits, finer
        self.sum_shape, self.greatest_square_sum = sums
        self.half_bits, self.mantissa_bits, self.shift, self.in_logic = half_bits, mantissa_bits, shift, in_logic
        self.distance_bound, self.point_bits, self.point_width = points
        self.root_steps = mantissa_bits + 2
        self.levels, self.scales = (i.lanes - 1).bit_length(), (half_bits - 1).bit_length()
        bits = i.bits
        self.square_latency = WideMultiplier.latency(bits, bits)
        self.sums_stage = 1 + self.square_latency + self.levels + 2
        width = self.sum_shape.width
        self.square_of_sum = WideMultiplier.latency(width, width) if centered else MULTIPLE_LATENCY
        self.root_stage = self.sums_stage + self.square_of_sum + 1 + self.scales
        self.read_stage = self.root_stage + 3
        self.multiple = MULTIPLE_LATENCY if weight & weight - 1 else 0
        product = WideMultiplier.latency(self.point_width, mantissa_bits + 1)
        self.latency = self.read_stage + self.multiple + 1 + self.scales + 1 + product + 1
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("writer", "root", "reader"))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        chunks, steps = self.chunks, self.root_steps
        elements = PixelBuffer(chunks, "elements", capacity=self.capacity, late=self.read_stage - 4)
        sums_span, roots_span = 4 * chunks + 1, 4 * steps + 1
        sums = SharedBuffer(2 * chunks, chunks, sums_span)
        roots = SharedBuffer(2 * steps, steps, roots_span)
        writer = Engine(
            m,
            "writer",
            {"chunk": chunks},
            pops=[(self.i, lambda turn: 1)],
            conditions=[elements.has_room, sums.has_room],
        )
        root = Engine(m, "root", {"step": steps}, conditions=[sums.has_beat, roots.has_room])
        reader = Engine(
            m,
            "reader",
            {"chunk": chunks},
            pushes=[(outbox, lambda turn: 1)],
            conditions=[elements.has_beat, roots.has_beat],
        )
        elements.count(m, writer, reader)
        _count(m, "sums", sums, (writer, root), chunks, sums_span)
        _count(m, "roots", roots, (root, reader), steps, roots_span)
        data = delayed(m, bits_of(self.i.payload), 1, "taken")
        word = elements.move(m, data, written=1, read=self.read_stage - 2)
        kept = self._roots(m, root, self._sums(m, writer, data))
        for lane, result in enumerate(self._results(m, reader, word, kept)):
            m.d.comb += outbox.data[lane].eq(result)
        self.arrives(m, "o", self.latency)
        self.report(m, writer, root, reader)
        return m

    # ---- the passes -------------------------------------------------------------------------------------------------

    def _sums(self, m: Module, engine: Engine, data: Value) -> list[Signal]:
        """Return the sums of either of two pixels in turn, that of squares in the lowest bits, in ``sums_stage``."""
        ends = engine.decode(engine.is_last("chunk"), 1, "ends")
        first = engine.decode(lambda turn: turn["chunk"] == 0, 1, "first")
        unused = delayed(m, ends, 1, "unused")
        elements = [self._used(unused, lane, element) for lane, element in enumerate(self._elements(m, data, "taken"))]
        squares = [self._product(m, f"square{k}", element, element).as_unsigned() for k, element in enumerate(elements)]
        stage = self.sums_stage - 2
        first = delayed(m, first, stage, "sum_first")
        there = delayed(m, engine.fire, stage, "sum_there", strobe=True)
        square_sum = Signal(range(self.greatest_square_sum + 1), name="square_sum", reset_less=True)
        part = sum_tree(m, squares, "squares")
        with m.If(there):
            m.d.sync += square_sum.eq(part + Mux(first, 0, square_sum))
        total: Value = Const(0, 0)
        if self.centered:
            total = Signal(self.sum_shape, name="total", reset_less=True)
            waiting = [delayed(m, element, self.square_latency, f"added{k}") for k, element in enumerate(elements)]
            part = sum_tree(m, waiting, "elements")
            with m.If(there):
                m.d.sync += total.eq(part + Mux(first, 0, total))
        both = Signal(len(square_sum) + len(total), name="both_sums")
        m.d.comb += both.eq(Cat(square_sum, total))
        return kept_for_two_pixels(m, "sums", engine, both, stage + 1, delayed(m, ends, stage, "sum_ends"))

    def _roots(self, m: Module, engine: Engine, sums: list[Signal]) -> list[Signal]:
        """Return (root, scale, sum) of either of two pixels in turn, in ``read_stage``."""
        ends = engine.decode(engine.is_last("step"), 1, "ends")
        begins = engine.decode(lambda turn: turn["step"] == 0, 1, "begins")
        both = chosen_for_pixel(m, "sums", engine, ends, sums, self.sums_stage - 1)
        squares = Signal(range(self.greatest_square_sum + 1), name="squares")
        total = Signal(self.sum_shape, name="sum")
        m.d.comb += Cat(squares, total).eq(both) if self.centered else squares.eq(both)
        multiplier = ConstantMultiplier(len(squares), self.weight, signed=False, latency=self.square_of_sum - 1)
        m.submodules.weighted = multiplier
        m.d.comb += multiplier.a.eq(squares)
        weighted = Signal(2 * self.half_bits, name="weighted_squares", reset_less=True)
        epsilon: Value | int = self.epsilon
        if self.epsilon_bits:
            epsilon = self.constants.number(m, "epsilon", Shape(self.epsilon_bits), self.epsilon)
        m.d.sync += weighted.eq((multiplier.p << 2 * self.finer) + epsilon)
        w = Signal(2 * self.half_bits, name="w", reset_less=True)
        square: Value = self._product(m, "square_of_sum", total, total) if self.centered else Const(0, 1)
        m.d.sync += w.eq(weighted - (square << 2 * self.finer))
        w, scale = self._without_zeros(m, w)
        stage = self.root_stage
        strobe = delayed(m, engine.fire, stage - 1, "root_there", strobe=True)
        first = delayed(m, begins, stage - 1, "root_first")
        root = root_in_steps(m, w, self.half_bits, self.mantissa_bits, first=first, strobe=strobe)
        held = Signal(len(scale) + self.sum_shape.width * self.centered, name="held", reset_less=True)
        with m.If(delayed(m, strobe & first, 1, "holds")):
            m.d.sync += held.eq(Cat(scale, total if self.centered else Const(0, 0)))
        complete = Signal(len(root) + len(held), name="complete")
        m.d.comb += complete.eq(Cat(root, delayed(m, held, 1, "held")))
        return kept_for_two_pixels(m, "roots", engine, complete, stage + 2, delayed(m, ends, stage + 1, "root_ends"))

    def _results(self, m: Module, engine: Engine, word: Value, kept: list[Signal]) -> list[Value]:
        """Return the results, ``latency`` cycles after an operation fired."""
        ends = engine.decode(engine.is_last("chunk"), 1, "ends")
        chosen = chosen_for_pixel(m, "roots", engine, ends, kept, self.read_stage - 1)
        root = chosen[: self.mantissa_bits + 1]
        scale = chosen[len(root) : len(root) + self.scales]
        total: Value = Const(0, 1)
        if self.centered:
            total = Signal(self.sum_shape, name="subtracted")
            m.d.comb += total.eq(chosen[len(root) + self.scales :])
            total = delayed(m, total, self.multiple, "subtracted")
        scales = copies(m, delayed(m, scale, self.multiple, "scale"), self.lanes, "scale")
        root = delayed(m, root, self.multiple + 1 + self.scales + 1, "root_waits")
        width = (self.distance_bound << self.half_bits).bit_length() + 1
        results: list[Value] = []
        for lane, (element, scale) in enumerate(zip(self._elements(m, word, "read"), scales, strict=True)):
            distance: Value = Signal(Shape(width, True), name=f"distance{lane}", reset_less=True)
            m.d.sync += distance.eq((self._multiple(m, f"multiple{lane}", element) - total) << self.finer)
            for level in range(self.scales):
                moved = Signal(Shape(width, True), name=f"distance{lane}_{level}", reset_less=True)
                m.d.sync += moved.eq(Mux(scale[level], (distance << (1 << level))[:width], distance))
                scale = delayed(m, scale, 1, f"scale{lane}_{level}")
                distance = moved
            share = rounded_shift(m, f"share{lane}", distance, self.half_bits - self.point_bits, self.point_width)
            product = self._product(m, f"product{lane}", share, root)
            results.append(rounded_shift(m, f"result{lane}", product, self.shift, self.result.width))
        return results

    # ---- parts ------------------------------------------------------------------------------------------------------

    def _elements(self, m: Module, word: Value, name: str) -> list[Value]:
        """Return the elements of a beat."""
        bits, elements = self.element.width, []
        for lane in range(self.lanes):
            element = Signal(self.element, name=f"{name}{lane}")
            m.d.comb += element.eq(word[lane * bits : (lane + 1) * bits])
            elements.append(element)
        return elements

    def _multiple(self, m: Module, name: str, element: Value) -> Value:
        """Return ``weight`` times an element, ``multiple`` cycles later."""
        if not self.multiple:
            return element << self.weight.bit_length() - 1
        multiplier = ConstantMultiplier(len(element), self.weight, signed=self.element.signed, latency=self.multiple)
        m.submodules[name] = multiplier
        m.d.comb += multiplier.a.eq(element)
        return multiplier.p

    def _used(self, ends: Value, lane: int, element: Value) -> Value:
        """Return an element, or 0 in a lane that the last beat of a pixel does not use."""
        if lane < self.channels - (self.chunks - 1) * self.lanes:
            return element
        used = Mux(ends, 0, element)
        return used.as_signed() if self.element.signed else used

    def _product(self, m: Module, name: str, a: Value, b: Value) -> Value:
        """Return a product after the cycles that hardware multipliers take."""
        shapes = a.shape(), b.shape()
        latency = WideMultiplier.latency(len(a), len(b))
        signed = {"a_signed": shapes[0].signed, "b_signed": shapes[1].signed}
        multiplier: WideMultiplier | SoftMultiplier
        if self.in_logic:
            multiplier = SoftMultiplier(len(a), len(b), **signed, latency=latency)
        else:
            multiplier = WideMultiplier(len(a), len(b), **signed)
        m.submodules[name] = multiplier
        m.d.comb += [multiplier.a.eq(a), multiplier.b.eq(b)]
        return multiplier.p

    def _without_zeros(self, m: Module, w: Value) -> tuple[Value, Value]:
        """Return w, shifted to the left by pairs of bits until the top pair is not 0, and the number of pairs."""
        scale: Value = Const(0, 0)
        for level in reversed(range(self.scales)):
            pairs = 1 << level
            zero = ~w[max(0, len(w) - 2 * pairs) :].any()
            shifted = Signal(len(w), name=f"w{level}", reset_less=True)
            m.d.sync += shifted.eq(Mux(zero, (w << 2 * pairs)[: len(w)], w))
            scale = Cat(
                delayed(m, zero, 1, f"scale_bit{level}"), delayed(m, scale, 1, f"scale{level}") if len(scale) else scale
            )
            w = shifted
        return w, scale


def _count(m: Module, name: str, shared: SharedBuffer, engines: tuple[Engine, Engine], beats: int, span: int) -> None:
    """Follow a writer and a reader that gives back all beats of a pixel with its last operation."""
    writer, reader = engines
    ends = reader.is_last(*reader.loops)

    def at_end(turn: Turn) -> Any:
        return choose(ends(turn), beats, 0)

    further = reader.decode(at_end, range(-span, span), f"{name}_further")
    released = reader.decode(at_end, range(span), f"{name}_released")
    shared.count(m, writer, reader, further=further, released=released)
