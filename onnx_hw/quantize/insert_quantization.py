"""A float model becomes a QDQ model: int8 data with one scale, int8 weights with one per output channel.

Where QuantizeLinear and DequantizeLinear go:

* behind every graph input that hardware reads;
* behind every result of a product or an average, but not between it and what only changes its meaning: an addition or
  multiplication with a constant, Relu, Clip. Those are absorbed by the requantization;
* behind every sum of two tensors, but not between it and a Relu or Clip;
* behind what changes the meaning of integers: a Relu of a tensor that others read too, a constant added to an input.
  A factor alone only changes their scale;
* nowhere else: a maximum or a change of layout keeps integers and scale.

Biases and other constants stay float: the requantization takes their exact value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnx_hw.onnx.fold_constants import fold
from onnx_hw.onnx.infer_shapes import infer
from onnx_hw.onnx.model import Model, Node, Value
from onnx_hw.quantize.calibrate import Range

PRODUCTS = {"Conv": 0, "MatMul": -1, "Gemm": -1}
"""Operators with weights at input 1, and the axis of their output channels (of a Gemm without transB)."""

ACCUMULATES = frozenset((*PRODUCTS, "AveragePool", "GlobalAveragePool"))
ABSORBED = frozenset(("Add", "Sub", "Mul", "Div", "Relu", "Clip"))
BOUNDS = frozenset(("Relu", "Clip"))
KEEPS = frozenset(("MaxPool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Transpose"))
"""Operators whose results are some of the integers they are given."""

VERSION = 13
"""Opset of the inserted nodes: the first with scales along an axis."""


def is_quantized(model: Model) -> bool:
    """Whether the model brings its own integers."""
    return any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in model.graph.nodes)


def insert_quantization(model: Model, ranges: Mapping[str, Range]) -> Model:
    """The QDQ model; ``ranges`` are those of ``calibrate``."""
    model = fold(infer(model))
    graph = model.graph
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    outputs = {value.name for value in graph.outputs}
    points = _quantized_values(model, readers, outputs)
    rewriter = _Rewriter(dict(graph.constants), dict(graph.values))
    nodes: list[Node] = []
    renamed: dict[str, str] = {}
    for value in graph.inputs:
        if value.name in points:
            renamed[value.name] = rewriter.data(nodes, value.name, value.name, ranges[value.name])
    for node in graph.nodes:
        inputs = [renamed.get(name, name) for name in node.inputs]
        if node.op_type in PRODUCTS and inputs[1] in rewriter.constants:
            inputs[1] = rewriter.weights(nodes, node, inputs[1])
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


def _quantized_values(model: Model, readers: Mapping[str, Sequence[Node]], outputs: set[str]) -> set[str]:
    """The values that get integers of their own."""
    points: set[str] = set()
    integers: set[str] = set()  # the points, and what has the same integers
    for value in model.graph.inputs:
        if value.element_type == "float" and _reaches_hardware(value.name, readers, model):
            points.add(value.name)
    integers |= points
    for node in model.graph.nodes:
        if _keeps_integers(node, integers, model):
            integers.add(node.outputs[0])
            continue
        absorbs_integers = any(name in integers and _absorbs(node, name, model) for name in node.inputs)
        if node.op_type in ACCUMULATES or absorbs_integers:
            absorbed = ABSORBED
        elif _adds_two_tensors(node, model) and integers.issuperset(node.inputs):
            absorbed = BOUNDS
        else:
            continue
        name = node.outputs[0]
        while name not in outputs:
            following = readers.get(name, [])
            if len(following) != 1 or following[0].op_type not in absorbed or not _absorbs(following[0], name, model):
                break
            name = following[0].outputs[0]
        points.add(name)
        integers.add(name)
    return points


def _keeps_integers(node: Node, integers: set[str], model: Model) -> bool:
    """Whether the result has some of the integers of the data, with the same meaning or another scale."""
    if node.inputs[0] not in integers:
        return False
    if node.op_type in ("Mul", "Div"):
        factor = model.graph.constants.get(node.inputs[1])
        return factor is not None and factor.size == 1 and bool(factor > 0)
    return node.op_type in KEEPS


def _adds_two_tensors(node: Node, model: Model) -> bool:
    """Whether a node is a sum that hardware can make: of two tensors, element by element."""
    if node.op_type not in ("Add", "Sub") or any(name in model.graph.constants for name in node.inputs):
        return False
    one, other = (model.graph.values.get(name) for name in node.inputs)
    return one is not None and other is not None and one.shape == other.shape


def _absorbs(node: Node, data: str, model: Model) -> bool:
    """Whether a node only changes what an accumulator stands for."""
    if node.op_type not in ABSORBED:
        return False
    return all(name == data or not name or name in model.graph.constants for name in node.inputs)


def _reaches_hardware(name: str, readers: Mapping[str, Sequence[Node]], model: Model) -> bool:
    queue, seen = [name], set()
    while queue:
        current = queue.pop()
        if current in seen:
            continue
        seen.add(current)
        for node in readers.get(current, ()):
            if node.op_type in ACCUMULATES or _adds_two_tensors(node, model):
                return True
            queue += node.outputs
    return False


class _Rewriter:
    """Adds constants and pairs of QuantizeLinear and DequantizeLinear."""

    def __init__(self, constants: dict[str, np.ndarray], values: dict[str, Value]) -> None:
        self.constants, self.values = constants, values

    def named(self, name: str, like: Value) -> str:
        self.values[name] = replace(like, name=name)
        return name

    def constant(self, name: str, array: np.ndarray, element_type: str) -> str:
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

    def weights(self, nodes: list[Node], node: Node, name: str) -> str:
        """int8 weights, symmetric, with a scale per output channel."""
        weights = self.constants[name]
        axis = PRODUCTS[node.op_type] % weights.ndim
        if node.op_type == "Gemm" and node.attributes.get("transB", 0):
            axis = 0
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
