"""Pool: ``result[pixel, c] = max``, ``min`` or ``sum`` of the image under the kernel, channel by channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.demand.blocks import accumulator, counted, decoded, delayed, maximum
from onnx_hw.ops.demand.sliding import Fetch, sliding_demand
from onnx_hw.ops.folding import SlidingFolding
from onnx_hw.ops.operator import Operator, lanes_beside, pixels_beside
from onnx_hw.ops.permutation import Permutation, of_channels, only_channels
from onnx_hw.ops.schedule import Engine, Schedule
from onnx_hw.ops.sliding import Sliding
from onnx_hw.ops.stream_order import Order, fewest_lanes
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component

FOLDS: Mapping[str, Callable[..., np.ndarray]] = {"max": np.max, "min": np.min, "sum": np.sum}
"""Functions that make one element of several, by ``kind``."""


@dataclass(frozen=True, repr=False)
class Pool(Operator[SlidingFolding]):
    """Windowed maximum, minimum, or sum (an average is a sum and a requantization).

    Attributes:
        operand: the image.
        kind: ``max``, ``min`` or ``sum``.
        kernel, strides, dilations: (rows, columns).
        pads: (top, left, bottom, right).
        pad_value: what lies outside the image: the lowest value for ``max``, the greatest for ``min``, the zero point
            for ``sum``.
        capacity: beats of the line buffer; None for those that full rate needs.
    """

    operand: Tensor
    kind: str
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    dilations: tuple[int, int] = (1, 1)
    capacity: int | None = None

    folding_type = SlidingFolding
    LATENCY = 7

    def __post_init__(self) -> None:
        self.sliding.check()
        if self.kind not in FOLDS:
            raise ValueError(f"a pool must be a max, a min or a sum, not {self.kind!r}")
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"a line buffer must hold at least one beat, not {self.capacity}")

    @property
    def sliding(self) -> Sliding:
        return Sliding(self.operand.shape, self.kernel, self.strides, self.pads, self.dilations)

    def operands(self) -> tuple[Tensor, ...]:
        return (self.operand,)

    def results(self) -> tuple[Tensor, ...]:
        shape = (*self.sliding.output, self.operand.channels)
        low, high = self.operand.range
        if any(self.pads):
            low, high = min(low, self.pad_value), max(high, self.pad_value)
        if self.kind != "sum":
            return (Tensor(shape, self.operand.dtype, low, high),)
        taps = self.sliding.taps
        return (Tensor(shape, Int.holding(taps * low, taps * high), taps * low, taps * high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        windows = self.sliding.windows(arrays[0], self.pad_value)
        return (FOLDS[self.kind](windows, axis=(3, 4)),)

    def reordered(self, port: str, order: Permutation) -> tuple[Pool, dict[str, Permutation]] | None:
        shapes = {"i": self.operand.shape, "o": self.results()[0].shape}
        channels = only_channels(order, shapes[port])
        return channels if channels is None else (self, {k: of_channels(shapes[k], channels) for k in shapes})

    def beats_per_pixel(self, folding: SlidingFolding) -> int:
        """Return the beats of the pixels that come side by side."""
        return self.input_orders(folding)[0].groups

    def grouped(self, folding: SlidingFolding) -> Sliding:
        """Return how the windows of a beat slide over the pixels of a beat."""
        return self.sliding.grouped(self.input_orders(folding)[0], self.output_orders(folding)[0])

    def illegal(self, folding: SlidingFolding) -> str:
        return super().illegal(folding) or self.sliding.illegal(folding.in_pixels, folding.out_pixels)

    def stored_beats(self, folding: SlidingFolding) -> int:
        """Return the capacity of the line buffer."""
        if self.capacity is not None:
            return self.capacity
        return self.grouped(folding).rate_capacity(self.beats_per_pixel(folding))

    def cycles(self, folding: SlidingFolding) -> int:
        return max(self.input_orders(folding)[0].beats, self.output_orders(folding)[0].beats * self.sliding.taps)

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[SlidingFolding]:
        (result,), channels, time = self.results(), self.operand.channels, interval // self.sliding.taps
        image = pixels_beside(self.operand, interval, given)
        for beside in self.sliding.side_by_side(image, pixels_beside(result, time, wanted)):
            least_in, least_out = map(fewest_lanes, (self.operand, result), (interval, time), beside)
            if least_in is not None and least_out is not None:
                entry = lanes_beside(least_in, given, channels)
                exits = {least_out, entry, lanes_beside(least_out, wanted, channels)}
                for lanes in sorted(lanes for lanes in exits if lanes >= least_out):
                    yield SlidingFolding(entry, lanes, *beside)

    def schedule(self, folding: SlidingFolding) -> Schedule:
        rows, columns = self.grouped(folding).output
        chunks, taps = self.output_orders(folding)[0].groups, self.sliding.taps
        beats, results = self.input_orders(folding)[0].beats, rows * columns * chunks
        return Schedule(
            (
                Engine("writer", beats, 0, pops={"i": AffineSequence.every(beats)}),
                Engine(
                    "reader", results * taps, self.LATENCY, pushes={"o": AffineSequence.every(results, taps, taps - 1)}
                ),
            ),
            (self.grouped(folding).buffer(chunks * taps, self.beats_per_pixel(folding), self.stored_beats(folding)),),
        )

    def demand(self, folding: SlidingFolding) -> Demand:
        taps, chunks = self.sliding.taps, self.output_orders(folding)[0].groups
        lanes, bits = folding.out_lanes * folding.out_pixels, self.operand.dtype.bits
        fetch = Fetch(
            self.sliding,
            folding,
            folding.out_lanes,
            bits,
            self.stored_beats(folding),
            (chunks, taps),
            taps=True,
            turns=1,
            pushes=taps == 1,
        )
        demand = sliding_demand(fetch, self.grouped(folding), self.input_orders(folding)[0])
        demand += delayed(1, 2 * self.LATENCY - 2) + delayed(2, 1).copied(lanes)
        demand += decoded((0, 1) if taps > 1 else (0,), counted(taps)) + delayed(1, self.LATENCY - 2)
        if self.kind != "sum":
            return demand + lanes * maximum(bits)
        return demand + lanes * accumulator(self.results()[0].dtype.bits)

    def core(self, folding: SlidingFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.pool import Pool as Circuit
        from onnx_hw_rtl.cores.window_geometry import WindowGeometry

        return Circuit(
            self.kind,
            WindowGeometry(self.operand.shape, self.kernel, self.strides, self.pads, self.dilations),
            **self.stream_shapes(folding),
            capacity=self.stored_beats(folding),
            pad_value=self.pad_value,
            depth=depths["o"],
        )

    def __repr__(self) -> str:
        return f"Pool {self.kind} {self.kernel[0]}×{self.kernel[1]}"
