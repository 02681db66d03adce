"""Interpolations that are a matrix of constants: GridSample with a constant grid, and cubic or antialiased Resize.

The matrix is what the operator makes of each element alone. A grid that only moves elements needs no product.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, composed
from onnx_hw.onnx.canonicalize.compositions.transforms import along_axis
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.evaluate import compute

MAX_WEIGHTS = 1 << 22
"""Greatest number of constants of a matrix."""


@composed("GridSample", meaning="as MatMul with a constant, or a move of elements, for a constant grid")
def grid_sample(composer: Composer, node: Node) -> str:
    data, grid = composer.real(node), composer.constant_input(1)
    before, after = composer.shape(data), composer.shape(node.outputs[0])
    size, results = prod(before[2:]), prod(after[2:])
    composer.require(before[0] == 1 and size * results <= MAX_WEIGHTS)
    alone = np.eye(size, dtype=np.float32).reshape(1, size, *before[2:])
    matrix = np.asarray(compute(node, [alone, grid])[0]).reshape(size, results)
    if np.isin(matrix, (0, 1)).all() and (matrix.sum(axis=0) <= 1).all():
        sources = np.where(matrix.any(axis=0), matrix.argmax(axis=0), -1)
        channels = np.arange(before[1])[:, None] * size
        return composer.gathered([data], np.where(sources < 0, -1, channels + sources).reshape(after))
    flat = composer.reshaped(data, (1, before[1], size))
    return composer.add("Reshape", along_axis(composer, flat, 2, matrix, 3), composer.lengths(after))


@composed("Resize", meaning="")
def resize(composer: Composer, node: Node) -> str:
    """Compose a cubic Resize, or one with antialias: a product along each axis."""
    attributes, data = node.attributes, composer.real(node)
    mode = str(attributes.get("mode", "nearest"))
    composer.require(mode == "cubic" or (mode == "linear" and bool(attributes.get("antialias", 0))))
    composer.require(str(attributes.get("coordinate_transformation_mode", "half_pixel")) != "tf_crop_and_resize")
    composer.require(str(attributes.get("keep_aspect_ratio_policy", "stretch")) == "stretch" and node.version >= 11)
    before, after = composer.shape(data), composer.shape(node.outputs[0])
    axes = [int(axis) % len(before) for axis in attributes.get("axes", range(len(before)))]
    composer.require(len(before) in (3, 4) and before[0] == 1 and before[:2] == after[:2])
    scales = {axis: after[axis] / before[axis] for axis in range(len(before))}
    if len(node.inputs) > 2 and node.inputs[2] and (given := composer.constant_input(2)).size:
        scales |= dict(zip(axes, map(float, given), strict=True))
    plain = {name: value for name, value in attributes.items() if name not in ("axes", "keep_aspect_ratio_policy")}
    for axis in range(2, len(before)):
        size, result = before[axis], after[axis]
        if scales[axis] == 1 and size == result:
            continue
        alone = replace(node, inputs=("x", "", "scales"), attributes=plain)
        image = np.eye(size, dtype=np.float32).reshape(1, size, size)
        scale = np.array([1, 1, scales[axis]], dtype=np.float32)
        matrix = np.asarray(compute(alone, [image, None, scale])[0])[0]
        composer.require(matrix.shape == (size, result))
        data = along_axis(composer, data, axis, matrix, len(before))
    composer.require(data != node.inputs[0])
    return data
