"""``o[pixel, channel] = Σ weights[channel] · i`` under the kernel, channel by channel: a depthwise convolution.

This is a sliding window that multiplies and accumulates instead of emitting: for each output pixel and each chunk of
``out_lanes`` channels, one cycle per element of the kernel. Every lane has one multiplier, which is never idle. Windows
side by side have multipliers of their own, and the weights are fetched once for all of them. Latency 11.

    stage  1..6   the elements under the kernel (sliding.py)
           2      the address of the weights, a copy for every few block RAMs
           3..5   the weights (block RAM with its output register), in fabric
           6      both, in registers next to the multipliers
           7..10  the products (three registers in the multiplier, one in fabric; or look-up tables)
           11     the accumulator

With ``multiplier`` results per channel, result c reads channel c // multiplier. The lanes of a beat are cut so that one
element serves ``multiplier`` lanes side by side, or so that a single element serves all lanes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from amaranth.hdl import Module, Mux, Shape, Signal, Value

from onnx_hw_rtl.arithmetic.product import product
from onnx_hw_rtl.cores.sliding import SlidingBuffer
from onnx_hw_rtl.cores.weights import LATENCY as WEIGHTS_LATENCY
from onnx_hw_rtl.cores.weights import read_weights
from onnx_hw_rtl.cores.window_geometry import PixelGroups, Place, WindowGeometry, side_by_side
from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import Engine, delayed
from onnx_hw_rtl.streams.stream import StreamShape, groups_of


class Depthwise(Core):
    """Convolution in which every channel has a kernel of its own.

    Args:
        geometry: image and kernel.
        words: (chunks · rows · columns, out_lanes) integers: the weights of every cycle of an output pixel, for each
            chunk, for each element of the kernel; 0 in lanes beyond the last result.
        multiplier: results per channel.
        weight_bits, weight_signed: shape that holds every weight.
        i, o: the streams; results are wide enough for every final sum. With several results per channel, the lanes of
            ``o`` divide their number or are a multiple of it. Each element in a token of ``o`` has one multiplier.
        capacity: beats that the buffer holds.
        pad_value: value of elements outside the image.
        depth: FIFO depth of the output.
        in_logic: whether products are made of look-up tables.
    """

    PRODUCT_LATENCY = 4
    """Latency of a product, in cycles."""
    LATENCY = SlidingBuffer.LATENCY + PRODUCT_LATENCY + 1

    def __init__(
        self,
        geometry: WindowGeometry,
        words: np.ndarray,
        *,
        multiplier: int,
        weight_bits: int,
        weight_signed: bool,
        i: StreamShape,
        o: StreamShape,
        capacity: int,
        pad_value: int,
        depth: int,
        in_logic: bool = False,
    ) -> None:
        self.multiplier, (rows, columns) = multiplier, geometry.kernel
        self.taps, self.chunks = rows * columns, groups_of(geometry.shape[2] * multiplier, o.lanes)
        if words.shape != (self.chunks * self.taps, o.lanes):
            raise ValueError(f"words must be ({self.chunks} · {self.taps}, {o.lanes}), not {words.shape}")
        if o.lanes % self.multiplier and self.multiplier % o.lanes:
            raise ValueError(f"{o.lanes} lanes must divide {self.multiplier}, or be a multiple of it")
        self.words, self.geometry, self.capacity, self.pad_value = words, geometry, capacity, pad_value
        self.weight, self.element, self.result = Shape(weight_bits, weight_signed), i.element, o.element
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
            out_lanes=self.fetched,
            capacity=self.capacity,
            pad_value=self.pad_value,
            inner={"chunk": self.chunks, "tap": self.taps},
            places=self._places,
            pushes_at=lambda turn: turn["tap"] == self.taps - 1,
        )
        reader = buffer.reader
        weights = self._weights(m, reader)
        before = self.LATENCY - 2  # the stage before the accumulator's operands
        there = delayed(m, reader.fire, before, "there", strobe=True)
        first = delayed(m, reader.decode(lambda turn: turn["tap"] == 0, 1, "first"), before, "first")
        accumulate = Signal(2)
        m.d.comb += accumulate.eq(there | first << 1)
        controls = copies(m, accumulate, self.pixels.out_pixels * self.out_lanes, "accumulate")
        for lane, control in enumerate(controls):
            window, channel = divmod(lane, self.out_lanes)
            element, shapes = (
                buffer.beat[window * self.fetched + channel // self.multiplier],
                (self.element, self.weight),
            )
            term = product(
                m, f"{lane}", element, weights[channel], shapes, latency=self.PRODUCT_LATENCY, in_logic=self.in_logic
            )
            result = Signal(self.result, name=f"result{lane}", reset_less=True)
            with m.If(control[0]):
                m.d.sync += result.eq(Mux(control[1], 0, result) + term)
            m.d.comb += outbox.data[lane].eq(result)
        self.arrives(m, "o", self.LATENCY)
        self.report(m, buffer.writer, reader)
        return m

    def _places(self, turn: Mapping[str, int]) -> list[Place]:
        row, column = divmod(turn["tap"], self.geometry.kernel[1])
        first = turn["chunk"] * self.out_lanes // self.multiplier
        return side_by_side(
            self.pixels.place(window, row, column, c) if c < self.geometry.shape[2] else None
            for window in range(self.pixels.out_pixels)
            for c in range(first, first + self.fetched)
        )

    def _weights(self, m: Module, reader: Engine) -> list[Value]:
        """Return the weight of every lane of a window, in stage 6."""
        return read_weights(
            m, reader, self.words, self.weight, waits=SlidingBuffer.LATENCY - WEIGHTS_LATENCY, in_logic=self.in_logic
        )
