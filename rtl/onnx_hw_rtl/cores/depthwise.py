"""``o[pixel, channel] = Σ weights[channel] · i`` under the kernel, channel by channel: a depthwise convolution.

This is a sliding window that multiplies and accumulates instead of emitting: for each output pixel and each chunk of
``out_lanes`` channels, one cycle per element of the kernel, or for a few of them side by side. Every product has a
multiplier of its own, which is never idle. Windows side by side have multipliers of their own, too, and the weights are
fetched once for all of them. Latency 11 + ceil(log2(elements side by side)), or less with products of look-up tables.

    stage  1..6   the elements under the kernel (sliding.py)
           2      the address of the weights, a copy for every few block RAMs
           3..5   the weights (block RAM with its output register), in fabric
           6      both, in registers next to the multipliers
           7..10  the products: three registers in the multiplier, one in fabric
           11..   the adder tree of elements side by side, one register a level; then the accumulator

With ``multiplier`` results per channel, result c reads channel c // multiplier. The lanes of a beat are cut so that one
element serves ``multiplier`` lanes side by side, or so that a single element serves all lanes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from amaranth.hdl import Module, Shape, Signal, Value

from onnx_hw_rtl.arithmetic.adder_tree import adder_tree
from onnx_hw_rtl.arithmetic.product import HARD_LATENCY, product, product_latency
from onnx_hw_rtl.arithmetic.running_sums import RunningSums
from onnx_hw_rtl.cores.sliding import SlidingBuffer
from onnx_hw_rtl.cores.weights import LATENCY as WEIGHTS_LATENCY
from onnx_hw_rtl.cores.weights import read_weights
from onnx_hw_rtl.cores.window_geometry import PixelGroups, Place, WindowGeometry, side_by_side
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed
from onnx_hw_rtl.streams.stream import StreamShape, groups_of


class Depthwise(Core):
    """Convolution in which every channel has a kernel of its own.

    Args:
        geometry: image and kernel.
        words: (chunks · steps, beside · out_lanes) integers: the weights of every cycle of an output pixel, for each
            chunk, for ``beside`` elements of the kernel at a time; 0 in lanes beyond the last result or element.
        multiplier: results per channel.
        beside: elements of the kernel side by side, whose products are added.
        weight_bits, weight_signed: shape that holds every weight.
        i, o: the streams; results are wide enough for every final sum. With several results per channel, the lanes of
            ``o`` divide their number or are a multiple of it. Each element in a token of ``o`` has one multiplier.
        capacity: beats that the buffer holds.
        pad_value: value of elements outside the image.
        depth: FIFO depth of the output.
        in_logic: whether products are made of look-up tables.
    """

    LATENCY = SlidingBuffer.LATENCY + HARD_LATENCY + 1
    """Latency with hardware multipliers, without the levels of the adder tree."""

    def __init__(
        self,
        geometry: WindowGeometry,
        words: np.ndarray,
        *,
        multiplier: int,
        beside: int = 1,
        weight_bits: int,
        weight_signed: bool,
        i: StreamShape,
        o: StreamShape,
        capacity: int,
        pad_value: int,
        depth: int,
        in_logic: bool = False,
    ) -> None:
        self.multiplier, self.beside, (rows, columns) = multiplier, beside, geometry.kernel
        self.taps, self.chunks = rows * columns, groups_of(geometry.shape[2] * multiplier, o.lanes)
        self.steps = groups_of(self.taps, beside)
        if words.shape != (self.chunks * self.steps, beside * o.lanes):
            raise ValueError(f"words must be ({self.chunks} · {self.steps}, {beside} · {o.lanes}), not {words.shape}")
        if o.lanes % self.multiplier and self.multiplier % o.lanes:
            raise ValueError(f"{o.lanes} lanes must divide {self.multiplier}, or be a multiple of it")
        self.words, self.geometry, self.capacity, self.pad_value = words, geometry, capacity, pad_value
        self.weight, self.element, self.result = Shape(weight_bits, weight_signed), i.element, o.element
        self.product_latency = product_latency(self.element, self.weight, in_logic=in_logic)
        self.latency = self.LATENCY - HARD_LATENCY + self.product_latency + (beside - 1).bit_length()
        self.in_lanes, self.out_lanes = i.lanes, o.lanes
        self.fetched = max(1, o.lanes // self.multiplier)
        self.in_logic = in_logic
        self.pixels = PixelGroups(geometry, i.lanes, i.pixels, o.pixels)
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("writer", "reader"))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        buffer = SlidingBuffer(
            m,
            self.pixels,
            source=self.i,
            outbox=outbox,
            bits=self.element.width,
            out_lanes=self.beside * self.fetched,
            uncut=self.fetched,
            capacity=self.capacity,
            pad_value=self.pad_value,
            constants=self.constants,
            inner={"chunk": self.chunks, "step": self.steps},
            places=self._places,
            pushes_at=lambda turn: turn["step"] == self.steps - 1,
        )
        reader = buffer.reader
        weights = self._weights(m, reader)
        before = self.latency - 2  # the stage before the accumulator's operands
        there = delayed(m, reader.fire, before, "there", strobe=True)
        first = delayed(m, reader.decode(lambda turn: turn["step"] == 0, 1, "first"), before, "first")
        count = self.pixels.out_pixels * self.out_lanes
        sums = RunningSums(m, platform, there=there, first=first, count=count)
        for lane in range(count):
            window, channel = divmod(lane, self.out_lanes)
            terms = []
            for tap in range(self.beside):
                name = f"{lane}_{tap}" if self.beside > 1 else f"{lane}"
                element = buffer.beat[(window * self.beside + tap) * self.fetched + channel // self.multiplier]
                weight, shapes = weights[tap * self.out_lanes + channel], (self.element, self.weight)
                terms.append(
                    product(m, name, element, weight, shapes, latency=self.product_latency, in_logic=self.in_logic)
                )
            term = adder_tree(m, terms, self.result.width, str(lane))
            result = Signal(self.result, name=f"result{lane}", reset_less=True)
            sums.add(m, lane, result, term)
            m.d.comb += outbox.data[lane].eq(result)
        self.arrives(m, "o", self.latency)
        self.report(m, buffer.writer, reader)
        return m

    def _places(self, turn: Mapping[str, int]) -> list[Place]:
        columns, taps = self.geometry.kernel[1], range(turn["step"] * self.beside, (turn["step"] + 1) * self.beside)
        first = turn["chunk"] * self.out_lanes // self.multiplier
        return side_by_side(
            self.pixels.place(window, tap // columns, tap % columns, c)
            if c < self.geometry.shape[2] and tap < self.taps
            else None
            for window in range(self.pixels.out_pixels)
            for tap in taps
            for c in range(first, first + self.fetched)
        )

    def _weights(self, m: Module, reader: Engine) -> list[Value]:
        """Return the weight of every product of a window, in stage 6."""
        return read_weights(
            m,
            reader,
            self.words,
            self.weight,
            self.constants,
            waits=SlidingBuffer.LATENCY - WEIGHTS_LATENCY,
            in_logic=self.in_logic,
        )
