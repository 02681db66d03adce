"""Norms and other reductions, as sums of functions; sums and means of several tensors."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, composed
from onnx_hw.onnx.graph.model import Node


def _total(composer: Composer, node: Node, data: str) -> str:
    """Add the ReduceSum over a node's axes."""
    attributes: dict[str, Any] = {
        name: node.attributes[name] for name in ("keepdims", "noop_with_empty_axes") if name in node.attributes
    }
    axes = list(node.inputs[1:2])
    if "axes" in node.attributes:
        axes = [composer.lengths(tuple(node.attributes["axes"]))]
    return composer.add("ReduceSum", data, *axes, **attributes)


@composed("ReduceL1", meaning="as ReduceSum of Abs")
def reduce_l1(composer: Composer, node: Node) -> str:
    return _total(composer, node, composer.add("Abs", composer.real(node)))


@composed("ReduceSumSquare", meaning="as ReduceSum of squares")
def reduce_sum_square(composer: Composer, node: Node) -> str:
    return _total(composer, node, composer.add("Mul", composer.real(node), node.inputs[0]))


@composed("ReduceL2", meaning="as Sqrt of ReduceSum of squares")
def reduce_l2(composer: Composer, node: Node) -> str:
    return composer.add("Sqrt", reduce_sum_square(composer, node))


@composed("ReduceLogSum", meaning="as Log of ReduceSum")
def reduce_log_sum(composer: Composer, node: Node) -> str:
    return composer.add("Log", _total(composer, node, composer.real(node)))


@composed("ReduceLogSumExp", meaning="as Log of ReduceSum of Exp")
def reduce_log_sum_exp(composer: Composer, node: Node) -> str:
    return composer.add("Log", _total(composer, node, composer.add("Exp", composer.real(node))))


@composed("GlobalLpPool", "LpPool", meaning="as a root of a sum of powers")
def lp_pool(composer: Composer, node: Node) -> str:
    """Compose a pool (Σ |x|^p)^(1/p): the sum is a mean times the size of the window."""
    data, order = composer.real(node), int(node.attributes.get("p", 2))
    composer.require(order >= 1)
    if order == 1:
        powers = composer.add("Abs", data)
    elif order == 2:
        powers = composer.add("Mul", data, data)
    else:
        powers = composer.add("Pow", composer.add("Abs", data), composer.constant(float(order)))
    if node.op_type == "GlobalLpPool":
        axes = composer.lengths(range(2, len(composer.shape(data))))
        total = composer.add("ReduceSum", powers, axes)
    else:
        kernel = node.attributes["kernel_shape"]
        window = {name: value for name, value in node.attributes.items() if name != "p"}
        mean = composer.add("AveragePool", powers, version=19, **window, count_include_pad=1)
        total = composer.add("Mul", mean, composer.constant(float(prod(kernel))))
    if order == 1:
        return total
    if order == 2:
        return composer.add("Sqrt", total)
    return composer.add("Pow", total, composer.constant(np.float32(1 / order)))


@composed("Sum", "Mean", meaning="as Add, and a factor for Mean")
def sum_of_tensors(composer: Composer, node: Node) -> str:
    """Compose a sum of any number of tensors."""
    count = len(node.inputs)
    composer.require(composer.is_float(node.outputs[0]) and (node.op_type == "Mean" or count != 2))
    total = node.inputs[0]
    for name in node.inputs[1:]:
        total = composer.add("Add", total, name)
    if node.op_type == "Mean" and count > 1:
        return composer.add("Mul", total, composer.constant(np.float32(1 / count)))
    return total


@composed("Max", "Min", meaning="")
def extremum_with_constants(composer: Composer, node: Node) -> str:
    """Take the extremum of several tensors and constants in two nodes."""
    constants = [name for name in node.inputs if composer.is_constant(name)]
    data = [name for name in node.inputs if name not in constants]
    composer.require(len(data) > 1 and bool(constants) and composer.is_float(node.outputs[0]))
    result = composer.add(node.op_type, *data)
    for name in constants:
        array = composer.numbers(name)
        composer.require(array is not None)
        assert array is not None
        if array.size == 1:
            bounds = (name,) if node.op_type == "Max" else ("", name)
            result = composer.add("Clip", result, *(composer.reshaped(n, ()) if n else "" for n in bounds))
        else:
            result = composer.add(node.op_type, result, name)
    return result


@composed("PRelu", meaning="")
def prelu(composer: Composer, node: Node) -> str:
    """Compose a PRelu whose slopes are data: max(x, 0) + s·min(x, 0)."""
    data, slopes = node.inputs
    composer.require(not composer.is_constant(slopes) and not composer.is_constant(data))
    zero = composer.constant(0.0)
    below = composer.add("Mul", composer.add("Min", data, zero), slopes)
    return composer.add("Add", composer.add("Relu", data), below)


@composed("CastLike", meaning="as Cast, between real numbers")
def cast_like(composer: Composer, node: Node) -> str:
    """Compose a CastLike that keeps the type."""
    composer.require(composer.type_of(node.inputs[0]) == composer.type_of(node.outputs[0]) != "")
    return composer.add("Identity", composer.real(node))
