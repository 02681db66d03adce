"""Window: ``result[pixel] = flatten(image under the kernel)``, the input side of a convolution (im2col)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw.ops.demand.blocks import delayed
from onnx_hw.ops.demand.sliding import Fetch, sliding_demand
from onnx_hw.ops.folding import SlidingFolding
from onnx_hw.ops.operator import Component, lanes_beside, pixels_beside
from onnx_hw.ops.permutation import Permutation, of_channels, only_channels
from onnx_hw.ops.sliding_operator import SlidingOperator
from onnx_hw.ops.stream_order import Order, fewest_lanes
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Demand


@dataclass(frozen=True, repr=False)
class Window(SlidingOperator[SlidingFolding]):
    """Elements of a window leave in (kernel row, kernel column, channel) order, as channels of the result.

    Attributes are those of ``SlidingOperator``; outside the image lies the zero point of the operand.
    """

    operand: Tensor
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    pad_value: int = 0
    capacity: int | None = None
    loads_pad: bool = False

    folding_type = SlidingFolding
    LATENCY = 6

    @property
    def elements(self) -> int:
        """Elements of one window."""
        return self.sliding.taps * self.operand.channels

    def results(self) -> tuple[Tensor, ...]:
        low, high = self.padded_range
        return (Tensor((*self.sliding.output, self.elements), self.operand.dtype, low, high),)

    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        (image,) = arrays
        windows = self.sliding.windows(image, self.pad_value)
        return (windows.reshape(*windows.shape[:3], self.elements),)

    def reordered(self, port: str, order: Permutation) -> tuple[Window, dict[str, Permutation]] | None:
        """Return the reordered operator: channels change places, in every place of the kernel alike."""
        (result,) = self.results()
        count, taps = self.operand.channels, np.arange(self.sliding.taps)[:, None]
        whole = only_channels(order, self.operand.shape if port == "i" else result.shape)
        if whole is None:
            return None
        channels = whole[:count]
        inside = (taps * count + channels).reshape(-1)
        if port == "o" and (channels.max() >= count or not np.array_equal(whole, inside)):
            return None
        return self, {"i": of_channels(self.operand.shape, channels), "o": of_channels(result.shape, inside)}

    def steps(self, folding: SlidingFolding) -> int:
        """Return one cycle, for all elements of an output beat come together."""
        return 1

    def foldings(
        self, interval: int, given: Order | None = None, wanted: Order | None = None
    ) -> Iterator[SlidingFolding]:
        (result,) = self.results()
        image = pixels_beside(self.operand, interval, given)
        for beside in self.sliding.side_by_side(image, pixels_beside(result, interval, wanted)):
            least_in, least_out = map(fewest_lanes, (self.operand, result), (interval, interval), beside)
            if least_in is not None and least_out is not None:
                entry = lanes_beside(least_in, given, self.operand.channels)
                yield SlidingFolding(entry, lanes_beside(least_out, wanted, self.elements), *beside)

    def demand(self, folding: SlidingFolding) -> Demand:
        fetch = Fetch(
            self.sliding,
            folding,
            folding.out_lanes,
            self.operand.dtype.bits,
            self.stored_beats(folding),
            (self.chunks(folding),),
            taps=0,
            turns=1,
            pushes=True,
        )
        demand = sliding_demand(fetch, self.grouped(folding), self.input_orders(folding)[0])
        pad = self.loaded_pad_demand(folding, self.output_orders(folding)[0].width)
        return demand + delayed(1, self.LATENCY) + pad

    def loadable(self) -> Window:
        """Return the operator whose pad value can be loaded at run time, if it has one."""
        return self.with_pad(loads=self.has_zero_pads)

    def core(self, folding: SlidingFolding, depths: Mapping[str, int]) -> Component:
        from onnx_hw_rtl.cores.window import Window as Circuit

        return Circuit(
            self.geometry,
            **self.stream_shapes(folding),
            capacity=self.stored_beats(folding),
            pad_value=self.pad_value,
            depth=depths["o"],
        )

    def __repr__(self) -> str:
        rows, columns = self.kernel
        return f"Window {rows}×{columns}" + (f" stride {self.strides}" if self.strides != (1, 1) else "")
