"""Linear Resize by whole factors: pixels are repeated, then each result is a sum under one small kernel.

For s times the pixels, let z[n] = x[⌊n / s⌋], with both ends repeated without end. Linear interpolation is then

    asymmetric:       y[n] = Σ_j z[n + j] / s,                   0 ≤ j < s
    half_pixel:       y[n] = Σ_j z[n + j] / s,                   -(s-1)/2 ≤ j ≤ (s-1)/2     s odd
                      y[n] = Σ_j k_j · z[n + j] / (2s),          -s/2 ≤ j ≤ s/2             s even

with k = 1, 2, ..., 2, 1: the mean of the two boxes next to the middle. Each phase of n gives the weights of the formula
in ONNX's specification, as a test checks. For 1/s of the pixels, a result is one pixel or the mean of two.
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

QDQ_HINT = "use onnxruntime's QuantFormat.QDQ, which resizes numbers: what it rounds of integers depends on its floats"
"""Next step for a Resize of integers."""


@dataclass(frozen=True)
class Taps:
    """Taps of the interpolation along one axis.

    Attributes:
        sources: index in the data of every element under the kernel, repetitions included.
        kernel: integer weights of a sum; a sum begins at every ``stride``-th element.
        stride: distance of two sums, in elements.
    """

    sources: np.ndarray
    kernel: tuple[int, ...] = (1,)
    stride: int = 1

    def weights(self, size: int) -> np.ndarray:
        """Return the weight of every element of the data, float64 (size of the result, size of the data)."""
        windows = np.lib.stride_tricks.sliding_window_view(self.sources, len(self.kernel))[:: self.stride]
        weights = np.zeros((len(windows), size))
        np.add.at(weights, (np.arange(len(windows))[:, None], windows), np.array(self.kernel) / sum(self.kernel))
        return weights


def interpolate(builder: Builder, node: Node) -> None:
    """Lower a Resize or Upsample of mode linear; raise ``Obstacle`` unless it has one of the formulas above."""
    before, after = builder.shape(node.inputs[0]), builder.shape(node.outputs[0])
    rows, columns = _taps(builder, node, before, after)
    real = summed(builder, node)
    origin = np.arange(real.where.size).reshape(before[1], *_space(before))
    origin = origin[:, rows.sources[:, None], columns.sources[None, :]]
    repeated = before[:2] + origin.shape[1:]
    real = builder.moved(real, origin.reshape(-1), repeated, node, image_layout(repeated))
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
    """Return taps of rows and columns that agree with the operator for random numbers, or raise ``Obstacle``."""
    if len(before) not in (3, 4) or before[:2] != after[:2]:
        raise Obstacle(
            "resize-axes", f"a linear {node.op_type} must resize images, not {list(before)} to {list(after)}"
        )
    samples = np.random.default_rng(0).random((1, before[1], *before[2:])).astype(np.float32)
    expected = _run(builder, node, samples).reshape(before[1], *_space(after))
    for taps_of in (_half_pixel_taps, _asymmetric_taps):
        rows, columns = (taps_of(size, new) for size, new in zip(_space(before), _space(after), strict=True))
        if rows is None or columns is None:
            continue
        image = samples.reshape(before[1], *_space(before))
        interpolated = rows.weights(image.shape[1]) @ image @ columns.weights(image.shape[2]).T
        if np.allclose(interpolated, expected, rtol=0, atol=1e-5):
            return rows, columns
    raise Obstacle(
        "resize-mode",
        f"a linear {node.op_type} must be by whole factors, with the coordinates half_pixel, pytorch_half_pixel or "
        f"asymmetric and without antialias; this one resizes {list(before[2:])} to {list(after[2:])}",
        "" if builder.graph.values[node.outputs[0]].element_type == "float" else QDQ_HINT,
    )


def _half_pixel_taps(size: int, new: int) -> Taps | None:
    """Return the taps of the coordinates half_pixel, which keep the middle of the data; None for other factors."""
    if new % size == 0:
        factor = new // size
        kernel = (1,) * factor if factor % 2 else (1, *(2,) * (factor - 1), 1)
        positions = np.arange(-(len(kernel) // 2), new + len(kernel) // 2)
        return Taps(np.clip(positions // factor, 0, size - 1), kernel)
    if size % new == 0:
        factor = size // new
        middle = np.arange(new)[:, None] * factor + factor // 2
        return Taps(middle[:, 0]) if factor % 2 else Taps((middle + [-1, 0]).reshape(-1), (1, 1), 2)
    return None


def _asymmetric_taps(size: int, new: int) -> Taps | None:
    """Return the taps of the coordinates asymmetric, which keep the first element; None for other factors."""
    if new % size == 0:
        factor = new // size
        return Taps(np.minimum(np.arange(new + factor - 1) // factor, size - 1), (1,) * factor)
    return Taps(np.arange(new) * (size // new)) if size % new == 0 else None


def _space(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return height and width of a shape; a signal is an image of height 1."""
    height, width = (1, *shape[2:])[-2:]
    return height, width


def _run(builder: Builder, node: Node, data: np.ndarray) -> np.ndarray:
    constants = [builder.constant(name) if name else None for name in node.inputs[1:]]
    if any(name and constant is None for name, constant in zip(node.inputs[1:], constants, strict=True)):
        raise Obstacle("not-constant", f"all inputs of {node.op_type} but the first must be constant")
    (result,) = compute(node, [data, *constants])
    return np.asarray(result)
