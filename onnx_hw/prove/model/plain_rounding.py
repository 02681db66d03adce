"""Plain rounding of a float model: the yardstick that quantization is judged by (link 2).

Every tensor that the quantizer gave integers is rounded here to as many levels between the extremes that the float
model makes of the samples, and the weights of every product between theirs, output by output. Nothing of
``onnx_hw.quantization`` is used: no grid, no correction, no search. What a quantizer chooses must lose less, or hardly
more, than this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from re import sub
from typing import Any

import numpy as np

from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect

Frame = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class ChosenGrid:
    """Grid that the quantizer chose for a tensor of the float model.

    Attributes:
        tensor: name in the float model.
        low, high: the least and the greatest number of the grid.
        step: distance of two numbers.
    """

    tensor: str
    low: float
    high: float
    step: float

    @property
    def levels(self) -> int:
        return round((self.high - self.low) / self.step)

    def rounded(self, numbers: np.ndarray) -> np.ndarray:
        """Round numbers to the grid."""
        steps = np.rint((np.clip(numbers, self.low, self.high) - self.low) / self.step)
        return np.asarray(self.low + steps * self.step)


@dataclass
class SeenTensor:
    """Numbers of a tensor on samples, with what rounding costs.

    Attributes:
        low, high: least and greatest.
        values: numbers; of many, some of each sample.
    """

    low: float = inf
    high: float = -inf
    values: list[np.ndarray] = field(default_factory=list)


MAX_KEPT = 4096
"""Numbers of a tensor that are kept of a sample, evenly chosen, its extremes besides."""


def chosen_grids(quantized: Model, prepared: Model) -> dict[str, ChosenGrid]:
    """Return the grids with one scale that a quantized model has for tensors of the float model, by their names."""
    constants, producers = quantized.graph.constants, {out: n for n in quantized.graph.nodes for out in n.outputs}
    made = {name for node in prepared.graph.nodes for name in node.outputs} | {v.name for v in prepared.graph.inputs}
    grids = {}
    for node in quantized.graph.nodes:
        if facts_of(node).effect is not Effect.QUANTIZES or node.inputs[0] in constants:
            continue
        scale, zero = (constants.get(name) for name in (*node.inputs[1:], "", "")[:2])
        name = sub(r"/u?int\d+$", "", node.outputs[0])
        if scale is None or zero is None or scale.size != 1 or zero.size != 1 or name not in made:
            continue
        if node.outputs[0] in made or prepared.graph.values[name].element_type != "float":  # the model brings them
            continue
        element = BY_NAME[quantized.graph.values[node.outputs[0]].element_type]
        least = -(1 << element.bits - 1) if element.dtype.kind == "i" else 0
        step, middle = float(scale.reshape(())), int(zero.reshape(()))
        low, high = ((end - middle) * step for end in (least, least + (1 << element.bits) - 1))
        before = producers.get(node.inputs[0])
        if before is not None and before.op_type == "Clip" and all(end in constants for end in before.inputs[1:3]):
            ends = [float(constants[end].reshape(())) for end in before.inputs[1:3]]
            low, high = max(low, ends[0]), min(high, ends[1])
        grids[name] = ChosenGrid(name, low, high, step)
    return grids


def see_tensors(model: Model, frames: Sequence[Frame], names: Sequence[str]) -> dict[str, SeenTensor]:
    """Return the numbers of tensors on samples."""
    seen = {name: SeenTensor() for name in names}

    def observe(name: str, value: Any) -> None:
        if name in seen and isinstance(value, np.ndarray) and value.size:
            one, flat = seen[name], value.reshape(-1).astype(np.float64)
            one.low, one.high = min(one.low, float(flat.min())), max(one.high, float(flat.max()))
            one.values += [flat[:: -(-flat.size // MAX_KEPT)], np.array([flat.min(), flat.max()])]

    for frame in frames:
        reference.run(model, frame, observe=observe)
    return seen


def plain_grid(grid: ChosenGrid, low: float, high: float) -> ChosenGrid:
    """Return the grid of as many levels between the extremes, with 0 among its numbers."""
    low, high = min(low, 0.0), max(high, 0.0)
    step = max((high - low) / max(1, grid.levels), 1e-30)
    least = np.rint(low / step) * step
    return ChosenGrid(grid.tensor, least, least + grid.levels * step, step)


def plainly_rounded(prepared: Model, quantized: Model, grids: Mapping[str, ChosenGrid]) -> Model:
    """Return the float model with its tensors and its weights rounded plainly.

    Args:
        grids: the plain grids, by tensor.
    """
    graph = prepared.graph
    constants, nodes = dict(graph.constants), list[Node]()
    renamed = {name: f"{name}/plain" for name in grids}
    bits = _weight_bits(quantized)
    for name in grids:
        if any(value.name == name for value in graph.inputs):
            nodes += _rounding(grids[name], constants)
    for node in graph.nodes:
        inputs = [renamed.get(name, name) for name in node.inputs]
        weights = facts_of(node).weights
        if weights is not None and len(inputs) > weights.at and inputs[weights.at] in constants:
            array, count = constants[inputs[weights.at]], bits.get(node.outputs[0])
            if count is not None and array.dtype.kind == "f":
                axis = weights.axis_of_outputs(node, array.ndim)
                inputs[weights.at] = f"{node.outputs[0]}/plain_weights"
                constants[inputs[weights.at]] = _rounded_weights(array, axis, count)
        nodes.append(replace(node, inputs=tuple(inputs)))
        for name in node.outputs:
            if name in grids:
                nodes += _rounding(grids[name], constants)
    outputs = {value.name for value in graph.outputs}
    kept = {name: value for name, value in graph.values.items() if name in outputs or name not in constants}
    kept = {name: value for name, value in kept.items() if not name.endswith("/plain")}
    return replace(prepared, graph=replace(graph, nodes=tuple(nodes), constants=constants, values=kept))


def _rounding(grid: ChosenGrid, constants: dict[str, np.ndarray]) -> list[Node]:
    """Return the nodes that round a tensor to a grid."""
    name = grid.tensor
    numbers = {"low": grid.low, "high": grid.high, "step": grid.step}
    constants |= {f"{name}/plain_{key}": np.array(number, dtype=np.float32) for key, number in numbers.items()}
    low, high, step = (f"{name}/plain_{key}" for key in numbers)
    within, counted, whole = (f"{name}/plain_{key}" for key in ("within", "counted", "whole"))
    return [
        Node("", "Clip", "", 13, (name, low, high), (within,)),
        Node("", "Div", "", 13, (within, step), (counted,)),
        Node("", "Round", "", 11, (counted,), (whole,)),
        Node("", "Mul", "", 13, (whole, step), (f"{name}/plain",)),
    ]


def _weight_bits(quantized: Model) -> dict[str, int]:
    """Return the bits of the integers that the weights of each product come from, by the product's result."""
    graph = quantized.graph
    producers = {name: node for node in graph.nodes for name in node.outputs}
    bits = {}
    for node in graph.nodes:
        weights = facts_of(node).weights
        if weights is None or len(node.inputs) <= weights.at:
            continue
        name = node.inputs[weights.at]
        while (maker := producers.get(name)) is not None:
            name = maker.inputs[0]
        array = graph.constants.get(name)
        if array is not None and array.dtype.kind in "iu":
            least, most = int(array.min(initial=0)), int(array.max(initial=0))
            bits[node.outputs[0]] = max(abs(least).bit_length(), most.bit_length()) + 1
    return bits


def _rounded_weights(weights: np.ndarray, axis: int, bits: int) -> np.ndarray:
    """Round weights to integers of a scale for each output, the greatest of which is the greatest integer."""
    others = tuple(k for k in range(weights.ndim) if k != axis)
    step = np.abs(weights).max(axis=others, keepdims=True).astype(np.float64) / ((1 << bits - 1) - 1 or 1)
    step = np.where(step == 0, 1.0, step)
    return np.asarray((np.rint(weights / step) * step).astype(weights.dtype))
