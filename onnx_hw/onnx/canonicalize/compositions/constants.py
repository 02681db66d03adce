"""Constants that are joined to data, or that data is broadcast to."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, composed
from onnx_hw.onnx.graph.model import Node


@composed("Add", "Sub", "Mul", "Div", "Pow", "PRelu", meaning="")
def broadcast(composer: Composer, node: Node) -> str:
    """Expand data to the shape of a constant that is larger."""
    constants = [composer.is_constant(name) for name in node.inputs]
    composer.require(len(constants) == 2 and constants[0] != constants[1] and "axis" not in node.attributes)
    k = constants.index(False)
    shape = composer.shape(node.outputs[0])
    composer.require(prod(composer.shape(node.inputs[k])) < prod(shape))
    inputs = list(node.inputs)
    inputs[k] = composer.add("Expand", inputs[k], composer.lengths(shape))
    return composer.add(node.op_type, *inputs, version=node.version, **node.attributes)


@composed("Concat", meaning="", need=Need.LEADING)
def concat(composer: Composer, node: Node) -> str:
    """Surround data with zeros in place of the constants, and add these place by place."""
    shapes = [composer.shape(name) for name in node.inputs]
    parts = [composer.numbers(name) for name in node.inputs]
    data = [name for name, part in zip(node.inputs, parts, strict=True) if part is None]
    composer.require(composer.is_float(node.outputs[0]) and bool(data) and any(p is not None and p.size for p in parts))
    axis = int(node.attributes.get("axis", 1)) % len(shapes[0])
    zeros = np.concatenate([np.zeros(n) if p is None else p for n, p in zip(shapes, parts, strict=True)], axis)
    composer.require(bool(np.isfinite(zeros).all()))
    of_data = [k for k, part in enumerate(parts) if part is None]
    if of_data[-1] - of_data[0] == len(data) - 1:
        whole = data[0] if len(data) == 1 else composer.add("Concat", *data, axis=axis)
        before = sum(shape[axis] for shape in shapes[: of_data[0]])
        behind = sum(shape[axis] for shape in shapes[of_data[-1] + 1 :])
        pads = np.zeros((2, zeros.ndim), dtype=np.int64)
        pads[:, axis] = before, behind
        whole = composer.add("Pad", whole, composer.lengths(pads.reshape(-1).tolist()))
    else:
        origins, count = [], 0
        for shape, part in zip(shapes, parts, strict=True):
            origins.append(np.full(shape, -1) if part is not None else count + np.arange(prod(shape)).reshape(shape))
            count += prod(shape) if part is None else 0
        whole = composer.gathered(data, np.concatenate(origins, axis))
    return composer.add("Add", whole, composer.constant(zeros)) if zeros.any() else whole
