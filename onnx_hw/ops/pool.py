"""Pool: ``result[pixel, c] = max``, ``min`` or ``sum`` of the image under the kernel, channel by channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.demand.blocks import accumulator, counted, decoded, delayed, maximum
from onnx_hw.ops.demand.sliding import Fetch, sliding_demand
from onnx_hw.ops.driven_images import vectors_of_images
from onnx_hw.ops.folding import SlidingFolding
from onnx_hw.ops.operator import Component, lanes_beside, pixels_beside
from onnx_hw.ops.permutation import Permutation, of_channels, only_channels
from onnx_hw.ops.sliding_operator import SlidingOperator
from onnx_hw.ops.stream_order import Order, fewest_lanes
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import TestVectors
from onnx_hw_boards.demand import Demand

FOLDS: Mapping[str, Callable[..., np.ndarray]] = {"max": np.max, "min": np.min, "sum": np.sum}
"""Functions that make one element of several, by ``kind``."""


@dataclass(frozen=True, repr=False)
class Pool(SlidingOperator[SlidingFolding]):
    """Windowed maximum, minimum, or sum (an average is a sum and a requantization).

    Attributes:
        kind: ``max``, ``min`` or ``sum``.
        pad_value: what lies outside the image: the lowest value for ``max``, the greatest for ``min``, the zero point
            for ``sum``.
        others: as in ``SlidingOperator``.
    """

    operand: Tensor
    kind: str
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    pad_value: int = 0
    dilations: tuple[int, int] = (1, 1)
    capacity: int | None = None
    loads_pad: bool = False

    folding_type = SlidingFolding
    LATENCY = 7

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in FOLDS:
            raise ValueError(f"a pool must be a max, a min or a sum, not {self.kind!r}")

    def results(self) -> tuple[Tensor, ...]:
        shape = (*self.sliding.output, self.operand.channels)
        low, high = self.padded_range
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

    def demand(self, folding: SlidingFolding) -> Demand:
        taps, chunks = self.sliding.taps, self.chunks(folding)
        lanes, bits = folding.out_lanes * folding.out_pixels, self.operand.dtype.bits
        fetch = Fetch(
            self.sliding,
            folding,
            folding.out_lanes,
            bits,
            self.stored_beats(folding),
            (chunks, taps),
            taps=1,
            turns=1,
            pushes=taps == 1,
        )
        demand = sliding_demand(fetch, self.grouped(folding), self.input_orders(folding)[0])
        demand += self.loaded_pad_demand(folding, lanes)
        demand += delayed(1, 2 * self.LATENCY - 2) + delayed(2, 1).copied(lanes)
        demand += decoded((0, 1) if taps > 1 else (0,), counted(taps)) + delayed(1, self.LATENCY - 2)
        if self.kind != "sum":
            return demand + lanes * maximum(bits)
        return demand + lanes * accumulator(self.results()[0].dtype.bits)

    def loadable(self) -> Pool:
        """Return the operator whose pad value can be loaded at run time, if it is that of a zero point."""
        return self.with_pad(loads=self.kind == "sum" and self.has_zero_pads)

    def core(self, folding: SlidingFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.pool import Pool as Circuit

        return Circuit(
            self.kind,
            self.geometry,
            **self.stream_shapes(folding),
            capacity=self.stored_beats(folding),
            pad_value=self.pad_value,
            depth=depths["o"],
        )

    def test_vectors(self, folding: SlidingFolding) -> TestVectors:
        """Return the test vectors, of a few rows where the image has many: frames test the rows."""
        height, width, channels = self.operand.shape
        rows = self.dilations[0] * (self.kernel[0] - 1) + 1 + 2 * self.strides[0]
        low = replace(self, operand=replace(self.operand, shape=(min(height, rows), width, channels)))
        return vectors_of_images(self if low.illegal(folding) else low)

    def __repr__(self) -> str:
        return f"Pool {self.kind} {self.kernel[0]}×{self.kernel[1]}"
