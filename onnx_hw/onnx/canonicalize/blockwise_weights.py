"""Blockwise weights, with a scale per block, as integers with one scale per output, or as floats.

    s_b·q        =  g·(n_b·q)        s_b = n_b·g

Where the scales of an output's blocks are multiples of one number and 16 bits hold the products, nothing is lost.
Elsewhere a sum over blocks is not a sum of integers: the weights become floats, and get new integers like all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.rationals import commensurable, fractions
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.microsoft_blocked import weights_of_blocks
from onnx_hw.onnx.operators.quantization import per_element

VERSION = 21
"""Opset of the inserted nodes: the first with 16 bits."""

MAX_BITS = 16
"""Greatest width of the integers, in bits."""


def merge_weight_blocks(model: Model) -> Model:
    """Return the same model without constants in blocks, except those in a form without a counterpart."""
    if not any(is_blocked(node) for node in model.graph.nodes):
        return model
    added, nodes = Additions(model.graph), list[Node]()
    for node in model.graph.nodes:
        blocks = blocks_of(model.graph, node)
        nodes += [node] if blocks is None else _rewritten(added, node, blocks)
    return replace(model, graph=added.graph(nodes))


def is_blocked(node: Node) -> bool:
    return bool(node.attributes.get("block_size", 0))


@dataclass(frozen=True)
class Blocks:
    """Weights in blocks: ``counts * steps``, element by element, exactly; float64.

    Attributes:
        counts: (like the weights) integers without their zero points.
        steps: (like the weights) scale of each element.
        axis: axis along which the blocks lie.
    """

    counts: np.ndarray
    steps: np.ndarray
    axis: int

    def merged(self) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Return integers, scales (float32) and the axis of the scales; None if there are no such integers."""
        if not (np.isfinite(self.steps).all() and (self.counts == np.rint(self.counts)).all()):
            return None
        for axis in range(self.counts.ndim):
            if axis == self.axis:
                continue
            rows = np.moveaxis(self.steps, axis, 0).reshape(self.steps.shape[axis], -1)
            found = [_multiples(row) for row in rows]
            if all(each is not None for each in found):
                scale = np.array([each[0] for each in found if each is not None], dtype=np.float32)
                wide = np.stack([each[1] for each in found if each is not None])
                order = (axis, *(k for k in range(self.counts.ndim) if k != axis))
                shaped = wide.reshape([self.steps.shape[k] for k in order])
                integers = self.counts * np.moveaxis(shaped, 0, axis)
                if Int.holding(min(-1, int(integers.min(initial=0))), int(integers.max(initial=0))).bits <= MAX_BITS:
                    return integers.astype(np.int64), scale, axis
        return None


def _multiples(steps: np.ndarray) -> tuple[np.float32, np.ndarray] | None:
    """Return a float32 number and the multiple of it that each step is; None if there is no such number."""
    distinct, places = np.unique(steps, return_inverse=True)
    numbers = fractions(distinct)
    if not all(numbers):
        return None
    signs = np.where(distinct < 0, -1, 1)
    common, multiples = commensurable(tuple(abs(number) for number in numbers))
    if max(multiples) >> MAX_BITS or Fraction(float(np.float32(float(common)))) != common:
        return None
    return np.float32(float(common)), (multiples.astype(np.int64) * signs)[places.reshape(-1)]


def blocks_of(graph: Graph, node: Node) -> Blocks | None:
    """Return the blockwise weights that a node reads; None if it reads none, or they are not constant."""
    if not is_blocked(node):
        return None
    if facts_of(node).effect is Effect.DEQUANTIZES:
        given = [graph.constants.get(name) for name in node.inputs if name]
        if any(array is None for array in given):
            return None
        integers, scale, *zeros = (array for array in given if array is not None)
        axis, size = int(node.attributes.get("axis", 1)) % max(1, integers.ndim), int(node.attributes["block_size"])
        zero = per_element(zeros[0].astype(np.float64), integers.shape, axis, size) if zeros else 0.0
        steps = per_element(scale.astype(np.float64), integers.shape, axis, size)
        return Blocks(integers.astype(np.float64) - zero, np.broadcast_to(steps, integers.shape), axis)
    if facts_of(node).macs is None:
        return None
    names = (*node.inputs[1:5], "", "")[:4]
    if any(name and name not in graph.constants for name in names):
        return None
    b, scales, zero_points, groups = (graph.constants.get(name) for name in names)
    assert b is not None and scales is not None  # neither is optional
    sizes = {name: int(node.attributes.get(name, 4)) for name in ("K", "N", "block_size", "bits")}
    return Blocks(*weights_of_blocks(b, scales, zero_points, groups, **sizes), 0)


def _rewritten(added: Additions, node: Node, blocks: Blocks) -> list[Node]:
    """Return the node with weights that are not in blocks."""
    dequantizes = facts_of(node).effect is Effect.DEQUANTIZES
    kind = added.values[node.inputs[1 if dequantizes else 2]].element_type
    result = node.outputs[0] if dequantizes else added.name(f"{node.outputs[0]}/weights")
    found = blocks.merged()
    if found is not None:
        integers, scale, axis = found
        small = Int.holding(min(-1, int(integers.min(initial=0))), int(integers.max(initial=0))).bits <= 8
        dtype = "int8" if small else f"int{MAX_BITS}"
        stored = added.constant(f"{result}/integers", integers.astype(dtype), dtype)
        step = added.constant(f"{result}/scale", scale, "float")
        nodes = [Node(node.name, "DequantizeLinear", "", VERSION, (stored, step), (result,), {"axis": axis})]
    else:
        floats = added.constant(f"{result}/floats", (blocks.counts * blocks.steps).astype(np.float32), "float")
        nodes = [Node(node.name, "Identity", "", VERSION, (floats,), (result,))]
    if kind != "float":
        raw = added.name(f"{result}/float")
        nodes = [replace(nodes[0], outputs=(raw,))]
        nodes.append(Node("", "CastLike", "", 19, (raw, node.inputs[1 if dequantizes else 0]), (result,)))
    if dequantizes:
        return nodes
    bias = (*node.inputs, "", "", "")[5]
    product = added.name(f"{node.outputs[0]}/product") if bias else node.outputs[0]
    plain = replace(node, op_type="MatMul", domain="", version=13, inputs=(node.inputs[0], result), attributes={})
    nodes.append(replace(plain, outputs=(product,)))
    if bias:
        nodes.append(Node("", "Add", "", VERSION, (product, bias), node.outputs))
    return nodes
