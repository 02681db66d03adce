"""Folding of scales into weights: BatchNormalization, and Mul or Div by a constant behind a product.

    (x·W + b)·f + t  =  x·(W·f) + (b·f + t)

So weights are quantized as they are used, and no negative factor changes a sign behind the accumulator. The addition of
t remains, which the requantization absorbs. A BatchNormalization that is not behind a product becomes Mul and Add.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.onnx.canonicalize.batch_normalization import factor_and_term, is_training
from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect

VERSION = 13
"""Opset of the inserted nodes."""


def fold_scales_into_weights(model: Model) -> Model:
    """Return the same function of a folded float model, with factors in the weights of products with one reader."""
    return replace(model, graph=_Folding(_without_batch_normalization(model.graph)).graph)


def _without_batch_normalization(graph: Graph) -> Graph:
    """Replace every BatchNormalization (for inference, with constants) by a Mul and an Add."""
    added, nodes = Additions(graph), list[Node]()
    for node in graph.nodes:
        if node.op_type != "BatchNormalization" or is_training(node):
            nodes.append(node)
            continue
        data, *names = node.inputs
        known = [graph.constants[name] for name in names if name in graph.constants]
        if len(known) < len(names):
            nodes.append(node)
            continue
        result = node.outputs[0]
        of = added.values[data]
        factor, term = (
            added.constant(f"{result}/{what}", array.astype(known[0].dtype), of.element_type)
            for what, array in zip(
                ("factor", "term"), factor_and_term(node, known, len(of.shape or (1, 1))), strict=True
            )
        )
        scaled = added.value(f"{result}/scaled", of)
        nodes.append(Node(node.name, "Mul", "", VERSION, (data, factor), (scaled,)))
        nodes.append(Node(node.name, "Add", "", VERSION, (scaled, term), (result,)))
    return added.graph(nodes)


class _Folding:
    """Rewriter that folds one Mul or Div after the other."""

    def __init__(self, graph: Graph) -> None:
        self.added = Additions(graph)
        self.constants, self.values = self.added.constants, self.added.values
        self.nodes = list(graph.nodes)
        self.outputs = {value.name for value in graph.outputs}
        self.readers = readers_of(graph.nodes)
        self.made = {name: node for node in graph.nodes for name in node.outputs}
        self.renamed: dict[str, str] = {}
        for node in graph.nodes:
            if facts_of(node).effect is Effect.SCALES:
                self._fold(node)
        nodes = tuple(
            replace(node, inputs=tuple(self._final(name) for name in node.inputs))
            for node in self.nodes
            if not any(name in self.renamed for name in node.outputs)
        )
        self.graph = self.added.graph(nodes)

    def _final(self, name: str) -> str:
        while name in self.renamed:
            name = self.renamed[name]
        return name

    def _fold(self, node: Node) -> None:
        data, factor = node.inputs
        inverse = facts_of(node).inverts
        if data in self.constants and not inverse:
            data, factor = factor, data
        result = node.outputs[0]
        if factor not in self.constants or data in self.constants or result in self.outputs:
            return
        column = self._per_channel(self.constants[factor], data)
        if column is None or (inverse and not column.all()):
            return
        chain = self._chain(data)
        if not chain:
            return
        product, *additions = chain
        column = 1 / column if inverse else column
        self._replace(product, self._scaled_product(product, column))
        for addition in additions:
            self._replace(addition, self._scaled_addition(addition, column))
        self.renamed[result] = data

    def _chain(self, name: str) -> list[Node]:
        """Return the product behind a value and the additions of constants between them; empty without a product."""
        additions: list[Node] = []
        while len(self.readers.get(name, ())) == 1 and name not in self.outputs:
            node = self.made.get(self._final(name))
            if node is None:
                return []
            if facts_of(node).effect is Effect.SUMS:
                return [node, *additions[::-1]] if self._is_plain(node) else []
            data, constant = self._operands(node)
            if not constant or self._per_channel(self.constants[constant], data) is None:
                return []
            additions.append(node)
            name = data
        return []

    def _operands(self, node: Node) -> tuple[str, str]:
        """Return (data, constant) of the addition of a constant; both empty for any other node."""
        facts = facts_of(node)
        if facts.effect is not Effect.ADDS or len(node.inputs) != 2:
            return "", ""
        first, second = node.inputs
        if second in self.constants:
            return first, second
        return (second, first) if first in self.constants and not facts.inverts else ("", "")

    def _is_plain(self, node: Node) -> bool:
        """Say whether weights and bias are constant, and those of a MatMul a matrix."""
        place = facts_of(node).weights
        weights = self.constants.get(node.inputs[place.at]) if place is not None else None
        if place is None or weights is None or place.rank not in (None, weights.ndim):
            return False
        return all(name in self.constants for name in node.inputs[2:] if name)

    def _per_channel(self, constant: np.ndarray, data: str) -> np.ndarray | None:
        """Return a constant as float64, one number or one per channel of a value; None for any other shape."""
        shape = self.values[data].shape if data in self.values else None
        if constant.size == 1:
            return constant.astype(np.float64).reshape(-1)
        if shape is None or len(shape) < 2:
            return None
        axis = self._channel_axis(data, len(shape))
        aligned = (1,) * (len(shape) - constant.ndim) + constant.shape
        if shape[axis] != constant.size:  # it makes several channels of one
            return None
        if len(aligned) != len(shape) or any(n != 1 for a, n in enumerate(aligned) if a != axis):
            return None
        return constant.astype(np.float64).reshape(-1)

    def _channel_axis(self, data: str, rank: int) -> int:
        """Return the output axis of the product behind a value and its additions; the last one without a product."""
        node = self.made.get(self._final(data))
        while node is not None and self._operands(node)[0]:
            node = self.made.get(self._final(self._operands(node)[0]))
        place = facts_of(node).weights if node is not None else None
        return (place.channel if place is not None else -1) % rank

    def _scaled_product(self, node: Node, column: np.ndarray) -> Node:
        place = facts_of(node).weights
        assert place is not None  # a chain begins with a product
        weights = self.constants[node.inputs[place.at]]
        factors = place.broadcast(node, weights.shape, column)
        inputs = list(node.inputs)
        inputs[place.at] = self._store(node, "weights", weights * factors, weights.dtype)
        if len(inputs) > 2 and inputs[2]:
            bias = self.constants[inputs[2]]
            inputs[2] = self._store(node, "bias", bias * column, bias.dtype)
        return replace(node, inputs=tuple(inputs))

    def _scaled_addition(self, node: Node, column: np.ndarray) -> Node:
        data, name = self._operands(node)
        constant = self.constants[name]
        shape = self.values[data].shape or ()
        axis = self._channel_axis(data, len(shape))
        spread = column.reshape([-1 if a == axis else 1 for a in range(len(shape))]) if column.size > 1 else column
        stored = self._store(node, "term", constant * spread, constant.dtype)
        return replace(node, inputs=(data, stored))

    def _store(self, node: Node, what: str, array: np.ndarray, dtype: np.dtype) -> str:
        element_type = self.values[node.outputs[0]].element_type
        return self.added.constant(f"{node.outputs[0]}/{what}", array.astype(dtype), element_type)

    def _replace(self, old: Node, new: Node) -> None:
        self.nodes[self.nodes.index(old)] = new
        for name in new.outputs:
            self.made[name] = new
