"""A float model becomes a QDQ model: int8 data with one scale, int8 weights with one per output channel.

QuantizeLinear and DequantizeLinear go behind chosen values, for all who read them but what quantizes them already.
Biases and other constants stay float: the requantization takes their exact value. Weights that are quantized already
keep their integers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from onnx_hw.errors import user_error
from onnx_hw.onnx.model import Model, Node, Value
from onnx_hw.onnx.operators.facts import OF_SCALES, Effect, Weights
from onnx_hw.onnx.operators.registry import facts_of, place
from onnx_hw.onnx.unused_name import unused_name
from onnx_hw.quantize.calibrate import Range

VERSION = 13
"""Opset of the inserted nodes: the first with scales along an axis."""


def is_quantized(model: Model) -> bool:
    """Whether the model brings integers of its own for its data; weights alone do not count."""
    constants = model.graph.constants
    rows = ((node, facts_of(node)) for node in model.graph.nodes)
    return any(
        facts.takes_integers or (facts.effect in OF_SCALES and node.inputs[0] not in constants) for node, facts in rows
    )


def insert_quantization(
    model: Model, points: Collection[str], ranges: Mapping[str, Range], head: Collection[str] = ()
) -> Model:
    """The QDQ model of a folded model of float values; ``ranges`` are those of ``calibrate``.

    Args:
        points: the values to quantize.
        head: values that the host computes, from floats.
    """
    graph = model.graph
    outputs = {value.name for value in graph.outputs}
    rewriter = _Rewriter(dict(graph.constants), dict(graph.values))
    nodes: list[Node] = []
    renamed: dict[str, str] = {}
    for value in graph.inputs:
        if value.name in points:
            renamed[value.name] = rewriter.data(nodes, value.name, value.name, ranges[value.name])
    for node in graph.nodes:
        plain = facts_of(node).effect is Effect.QUANTIZES or any(name in head for name in node.outputs)
        inputs = [name if plain else renamed.get(name, name) for name in node.inputs]
        facts = facts_of(node)
        if facts.effect is Effect.SUMS and (at := facts.weights) is not None and inputs[at.at] in rewriter.constants:
            inputs[at.at] = rewriter.weights(nodes, node, inputs[at.at], at)
        results = list(node.outputs)
        for k, name in enumerate(results):
            if name in points and name in outputs:  # the graph's output keeps its name: it is the dequantized value
                results[k] = rewriter.named(f"{name}/float", graph.values[name])
                after: list[Node] = []
                rewriter.data(after, results[k], name, ranges[name], result=name)
                renamed[name] = name
                nodes.append(replace(node, inputs=tuple(inputs), outputs=tuple(results)))
                nodes += after
                break
        else:
            nodes.append(replace(node, inputs=tuple(inputs), outputs=tuple(results)))
            for name in results:
                if name in points:
                    renamed[name] = rewriter.data(nodes, name, name, ranges[name])
    rewritten = replace(graph, nodes=tuple(nodes), constants=rewriter.constants, values=rewriter.values)
    return replace(model, graph=rewritten, opsets={**model.opsets, "": max(VERSION, model.opsets.get("", VERSION))})


class _Rewriter:
    """Adds constants and pairs of QuantizeLinear and DequantizeLinear."""

    def __init__(self, constants: dict[str, np.ndarray], values: dict[str, Value]) -> None:
        self.constants, self.values = constants, values

    def named(self, name: str, like: Value) -> str:
        name = unused_name(name, self.values, self.constants)
        self.values[name] = replace(like, name=name)
        return name

    def constant(self, name: str, array: np.ndarray, element_type: str) -> str:
        name = unused_name(name, self.values, self.constants)
        self.constants[name] = array
        self.values[name] = Value(name, element_type, tuple(array.shape))
        return name

    def data(self, nodes: list[Node], source: str, name: str, span: Range, result: str = "") -> str:
        """Quantize and dequantize a value; the dequantized one's name. int8, asymmetric, 0 is exact."""
        low, high = min(span.low, 0.0), max(span.high, 0.0)
        scale = np.float32((high - low) / 255) if high > low else np.float32(1)
        if scale == 0:
            scale = np.finfo(np.float32).tiny
        zero = int(np.clip(round(-128 - low / float(scale)), -128, 127))
        scale_name = self.constant(f"{name}/scale", np.array(scale, dtype=np.float32), "float")
        zero_name = self.constant(f"{name}/zero_point", np.array(zero, dtype=np.int8), "int8")
        stored = self.named(f"{name}/int8", replace(self.values[source], element_type="int8"))
        result = result or self.named(f"{name}/dequantized", self.values[source])
        nodes.append(Node(stored, "QuantizeLinear", "", VERSION, (source, scale_name, zero_name), (stored,)))
        nodes.append(Node("", "DequantizeLinear", "", VERSION, (stored, scale_name, zero_name), (result,)))
        return result

    def weights(self, nodes: list[Node], node: Node, name: str, at: Weights) -> str:
        """int8 weights, symmetric, with a scale per output channel."""
        weights = self.constants[name]
        if not np.isfinite(weights).all():
            raise user_error(
                "weights-not-finite",
                f"weights must be finite numbers; those of {node.op_type} hold NaN or infinity",
                where=place(node),
                hint="look at the weights, and at the constants and attributes of the nodes around it",
                stage="quantize",
            )
        axis = at.axis_of_outputs(node, weights.ndim)
        others = tuple(k for k in range(weights.ndim) if k != axis)
        largest = np.abs(weights).max(axis=others)
        scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
        spread = scale.reshape([-1 if k == axis else 1 for k in range(weights.ndim)])
        stored = np.clip(np.rint(weights / spread), -127, 127).astype(np.int8)
        prefix = f"{name}/{node.label}"
        stored_name = self.constant(f"{prefix}/int8", stored, "int8")
        scale_name = self.constant(f"{prefix}/scale", scale, "float")
        zero_name = self.constant(f"{prefix}/zero_point", np.zeros(len(scale), dtype=np.int8), "int8")
        result = self.named(f"{prefix}/dequantized", Value(name, "float", tuple(weights.shape)))
        nodes.append(
            Node("", "DequantizeLinear", "", VERSION, (stored_name, scale_name, zero_name), (result,), {"axis": axis})
        )
        return result
