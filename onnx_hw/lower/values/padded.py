"""Numbers of another value at other positions, with one constant between or around them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import prod
from typing import ClassVar

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.network_builder import Bound, IntegerStream, LoweredValue, NetworkBuilder, StreamValue
from onnx_hw.lower.quantizers import Quantizer
from onnx_hw.lower.values.quantized_by import quantized_by
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node


@dataclass(frozen=True)
class PendingPad(LoweredValue):
    """Real numbers of another value at other positions, with one constant between or around them.

    Attributes:
        value: the other value.
        origin: flat index in ``value`` of each element, or -1 for the constant; it has the shape of the whole.
        fill: the constant; it may be infinite.
    """

    value: LoweredValue
    origin: np.ndarray = field(repr=False)
    fill: Fraction | float

    is_pending: ClassVar[bool] = True
    quantizes_inside: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.origin.shape

    def streams(self) -> list[StreamValue]:
        return self.value.streams()

    def clip(self, low: Bound, high: Bound) -> PendingPad:
        fill = self.fill if low is None else max(self.fill, low)
        fill = fill if high is None else min(fill, high)
        return replace(self, value=self.value.clip(low, high), fill=fill)

    def quantized(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        inside = self.value.quantized(builder, node, grid)
        return builder.placed(inside, self.origin, node, fill=grid.integer(self.fill))

    def quantized_in_steps(self, builder: NetworkBuilder, node: Node, quantizer: Quantizer) -> IntegerStream:
        fill = quantizer.fill(self.fill)
        if fill is None:
            raise builder.obstacle(node)
        inside = quantized_by(builder, node, self.value, quantizer)
        return builder.moved(inside, self.origin.reshape(-1), self.shape, node, fill=fill)

    def on_stream(self, builder: NetworkBuilder, node: Node) -> Real | None:
        """Build numbers with zeros around them, on integers whose 0 stands for the number 0.

        None for other constants, and for numbers without such integers.
        """
        inside = Real.cast(self.value)
        if inside is None or self.fill != 0 or inside.zero is None:
            return None
        image = inside.counted_from_zero(builder, node, f"{node.label}/from_zero")
        return image and builder.moved(image, self.origin.reshape(-1), self.shape, node)

    def without_pads(self, builder: NetworkBuilder) -> tuple[LoweredValue, tuple[int, int, int, int]] | None:
        pads = pads_of_image(self.origin, self.value.shape) if self.fill <= self.value.least(builder) else None
        return None if pads is None else (self.value, pads)


def pads_of_image(origin: np.ndarray, shape: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    """Return (top, left, bottom, right) where rows and columns of pixels surround all of an image [1, channels, ...].

    None where elements are at other positions, or some are missing.

    Args:
        origin: flat index in the image of every element, or -1.
        shape: shape of the image.
    """
    if origin.ndim not in (3, 4) or len(origin) != 1 or not np.array_equal(origin[origin >= 0], np.arange(prod(shape))):
        return None
    inside = (origin >= 0)[0]
    if inside.ndim == 2:
        inside = inside[:, None, :]
    pixels = inside.any(axis=0)
    rows, columns = (pixels.any(axis=axis).nonzero()[0] for axis in (1, 0))
    box = np.zeros_like(pixels)
    box[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    if (inside != box).any():
        return None
    height, width = box.shape
    return int(rows[0]), int(columns[0]), height - 1 - int(rows[-1]), width - 1 - int(columns[-1])
