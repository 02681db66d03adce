"""Linear Resize by whole factors: pixels are put side by side, then each result is a sum under one small kernel.

With s times as many pixels, let z[n] = x[⌊n / s⌋], the ends repeated for ever. Linear interpolation is then

    asymmetric:       y[n] = Σ_j z[n + j] / s,                   0 ≤ j < s
    half_pixel:       y[n] = Σ_j z[n + j] / s,                   -(s-1)/2 ≤ j ≤ (s-1)/2     s odd
                      y[n] = Σ_j k_j · z[n + j] / (2s),          -s/2 ≤ j ≤ s/2             s even

with k = 1, 2, ..., 2, 1: the mean of the two boxes beside the middle. Each phase of n gives the weights of the formula
in ONNX's specification, as the test says. With a k-th of the pixels, a result is one pixel or the mean of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import image_layout
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.values.real import Real, summed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool


@dataclass(frozen=True)
class Taps:
    """One axis.

    Attributes:
        sources: index in the data of every element that is put side by side.
        kernel: integers under which they are summed, from every ``stride``-th element on.
    """

    sources: np.ndarray
    kernel: tuple[int, ...] = (1,)
    stride: int = 1

    def weights(self, size: int) -> np.ndarray:
        """(size of the result, size of the data) float64: how much each element of the data counts."""
        windows = np.lib.stride_tricks.sliding_window_view(self.sources, len(self.kernel))[:: self.stride]
        found = np.zeros((len(windows), size))
        np.add.at(found, (np.arange(len(windows))[:, None], windows), np.array(self.kernel) / sum(self.kernel))
        return found


def interpolate(builder: Builder, node: Node) -> None:
    """A Resize or Upsample of mode linear.

    Raises:
        Obstacle: it is not of the formulas above.
    """
    before, after = builder.shape(node.inputs[0]), builder.shape(node.outputs[0])
    rows, columns = _taps(builder, node, before, after)
    real = summed(builder, node)
    origin = np.arange(real.where.size).reshape(before[1], *_space(before))
    origin = origin[:, rows.sources[:, None], columns.sources[None, :]]
    side_by_side = before[:2] + origin.shape[1:]
    real = builder.moved(real, origin.reshape(-1), side_by_side, node, image_layout(side_by_side))
    kernel, strides = np.outer(rows.kernel, columns.kernel), (rows.stride, columns.stride)
    stream, tensor = real.tensor, builder.tensors[real.tensor]
    operator: Operator
    if kernel.size > 1:
        if (kernel == 1).all():
            operator = Pool(tensor, "sum", kernel.shape, strides)
        else:
            operator = Depthwise(tensor, np.repeat(kernel[None], tensor.channels, axis=0), strides)
        stream = builder.add(node.label, operator, [stream], node, output=node.outputs[0])
    slope = tuple(s / Fraction(int(kernel.sum())) for s in real.slope)
    builder.values[node.outputs[0]] = Real(
        stream, after, image_layout(after).where, slope, real.offset, error=real.error
    )


def _taps(builder: Builder, node: Node, before: tuple[int, ...], after: tuple[int, ...]) -> tuple[Taps, Taps]:
    """Of rows and columns: those that give what the operator itself gives for drawn numbers."""
    if len(before) not in (3, 4) or before[:2] != after[:2]:
        raise Obstacle(
            "resize-axes", f"a linear {node.op_type} must resize images, not {list(before)} to {list(after)}"
        )
    drawn = np.random.default_rng(0).random((1, before[1], *before[2:])).astype(np.float32)
    wanted = _run(builder, node, drawn).reshape(before[1], *_space(after))
    for candidate in (_around, _ahead):
        rows, columns = (candidate(size, new) for size, new in zip(_space(before), _space(after), strict=True))
        if rows is None or columns is None:
            continue
        image = drawn.reshape(before[1], *_space(before))
        found = rows.weights(image.shape[1]) @ image @ columns.weights(image.shape[2]).T
        if np.allclose(found, wanted, rtol=0, atol=1e-5):
            return rows, columns
    raise Obstacle(
        "resize-mode",
        f"a linear {node.op_type} must be by whole factors, with the coordinates half_pixel, pytorch_half_pixel or "
        f"asymmetric and no antialias, not from {list(before[2:])} to {list(after[2:])} as here",
    )


def _around(size: int, new: int) -> Taps | None:
    """half_pixel: the middle of the whole stays where it is."""
    if new % size == 0:
        times = new // size
        kernel = (1,) * times if times % 2 else (1, *(2,) * (times - 1), 1)
        places = np.arange(-(len(kernel) // 2), new + len(kernel) // 2)
        return Taps(np.clip(places // times, 0, size - 1), kernel)
    if size % new == 0:
        apart = size // new
        middle = np.arange(new)[:, None] * apart + apart // 2
        return Taps(middle[:, 0]) if apart % 2 else Taps((middle + [-1, 0]).reshape(-1), (1, 1), 2)
    return None


def _ahead(size: int, new: int) -> Taps | None:
    """asymmetric: the first element stays where it is."""
    if new % size == 0:
        times = new // size
        return Taps(np.minimum(np.arange(new + times - 1) // times, size - 1), (1,) * times)
    return Taps(np.arange(new) * (size // new)) if size % new == 0 else None


def _space(shape: tuple[int, ...]) -> tuple[int, int]:
    """(height, width); a signal is an image of height 1."""
    height, width = (1, *shape[2:])[-2:]
    return height, width


def _run(builder: Builder, node: Node, data: np.ndarray) -> np.ndarray:
    constants = [builder.constant(name) if name else None for name in node.inputs[1:]]
    if any(name and constant is None for name, constant in zip(node.inputs[1:], constants, strict=True)):
        raise Obstacle("not-constant", f"what {node.op_type} does must be constant")
    (result,) = compute(node, [data, *constants])
    return np.asarray(result)
