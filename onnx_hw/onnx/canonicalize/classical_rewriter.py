"""Rewriter of the operators of ``ai.onnx.ml``, and the table of their decompositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators.classical_features import DOMAIN
from onnx_hw.onnx.operators.classical_scores import PROBIT_FACTOR, ZERO
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of

VERSION = 13
"""Opset of the nodes of the default domain."""

LABEL_VERSION = 2
"""Opset of LabelEncoder: the first with keys and values."""


class ClassicalRewriter:
    """Rewriter that visits node after node.

    Attributes:
        added: values and constants of the graph and the new ones.
        behind: names of values that depend on some product.
        streamed: names of values that depend on some product, or on integers of the model that stand for data.
    """

    def __init__(self, graph: Graph) -> None:
        self.added = Additions(graph)
        self.nodes: list[Node] = []
        self.behind: set[str] = set()
        self.streamed: set[str] = set()
        for node in graph.nodes:
            if is_product(node) or not self.behind.isdisjoint(node.inputs):
                self.behind.update(name for name in node.outputs if name)
            dequantizes = facts_of(node).effect is Effect.DEQUANTIZES
            if is_product(node) or dequantizes or not self.streamed.isdisjoint(node.inputs):
                self.streamed.update(name for name in node.outputs if name)
            form = FORMS.get(node.op_type) if node.domain == DOMAIN else None
            if form is None or not form(self, node):
                self.nodes.append(node)
        self.graph = self.added.graph(self.nodes)

    def add(self, node: Node, op_type: str, *inputs: str, result: str = "", **attributes: Any) -> str:
        """Add a node of the default domain that makes a part of a node's results; return the name of its result."""
        return self.append(node, op_type, "", VERSION, inputs, result, attributes)

    def append(
        self, node: Node, op_type: str, domain: str, version: int, inputs: Sequence[str], result: str,
        attributes: dict[str, Any],
    ) -> str:  # fmt: skip
        """Add a node of any domain; return the name of its result."""
        result = result or self.added.name(f"{node.outputs[0] or node.outputs[-1]}/{op_type.lower()}")
        self.nodes.append(Node("", op_type, domain, version, tuple(inputs), (result,), attributes))
        return result

    def numbers(self, node: Node, what: str, array: Any, element_type: str = "float") -> str:
        """Add a constant of floats, or of another element type; return its name."""
        dtype = np.float32 if element_type == "float" else np.int64
        return self.added.constant(f"{node.label}/{what}", np.asarray(array, dtype), element_type)

    def rank(self, name: str) -> int | None:
        value = self.added.values.get(name)
        return None if value is None or value.shape is None else len(value.shape)

    def floats(self, node: Node, name: str) -> str:
        """Return the name of the value as floats: itself, or the result of a Cast."""
        if self.added.values[name].element_type == "float":
            return name
        return self.add(node, "Cast", name, to=BY_NAME["float"].code)

    def rows(self, node: Node, name: str) -> str:
        """Return the name of the value as rows of floats: data of one axis is one row."""
        data = self.floats(node, name)
        if self.rank(name) == 1:
            data = self.add(node, "Reshape", data, self.numbers(node, "row", [1, -1], "int64"))
        return data

    def product(self, node: Node, count: int, result: str = "") -> str:
        """Add the Gemm of a linear model with ``count`` scores, under the node's name; return the name of the scores,
        (rows, count) floats.
        """
        data = self.rows(node, node.inputs[0])
        weights = self.numbers(node, "coefficients", np.reshape(node.attributes["coefficients"], (count, -1)))
        biases = node.attributes.get("intercepts", ())
        operands = [data, weights, *([self.numbers(node, "intercepts", biases)] if biases else [])]
        result = result or self.added.name(f"{node.label}/scores")
        self.nodes.append(replace(node, op_type="Gemm", domain="", version=VERSION, inputs=tuple(operands),
                                  outputs=(result,), attributes={"transB": 1}))  # fmt: skip
        return result

    def transform(self, node: Node, scores: str, count: int, result: str, name: str = "") -> None:
        """Add a transform of scores, by default that of ``post_transform``; of one class only PROBIT has an effect."""
        name = name or node.attributes.get("post_transform", "NONE")
        if name == "PROBIT":
            self._probit(node, scores, result)
        elif name == "NONE" or count == 1:
            self.add(node, "Identity", scores, result=result)
        elif name == "SOFTMAX":
            self.add(node, "Softmax", scores, result=result, axis=1)
        elif name == "LOGISTIC":
            self.add(node, "Sigmoid", scores, result=result)
        else:
            self._softmax_zero(node, scores, result)

    def of_two_classes(self, node: Node, score: str, result: str) -> None:
        """Add the scores of two classes from one of the second."""
        if node.attributes.get("post_transform", "NONE") == "LOGISTIC":
            both = self.add(node, "Concat", self.add(node, "Neg", score), score, axis=1)
            self.add(node, "Sigmoid", both, result=result)
        else:
            rest = self.add(node, "Sub", self.numbers(node, "one", 1), score)
            self.add(node, "Concat", rest, score, result=result, axis=1)

    def _softmax_zero(self, node: Node, scores: str, result: str) -> None:
        shifted = self.add(node, "Sub", scores, self.add(node, "ReduceMax", scores, axes=(1,), keepdims=1))
        size = self.add(node, "Abs", scores)
        some = self.add(node, "Greater", size, self.numbers(node, "zero", ZERO))
        powers = self.add(node, "Where", some, self.add(node, "Exp", shifted), self.numbers(node, "none", 0))
        total = self.add(node, "ReduceSum", powers, self.numbers(node, "axes", [1], "int64"), keepdims=1)
        self.add(node, "Div", self.add(node, "Where", some, powers, scores), total, result=result)

    def _probit(self, node: Node, scores: str, result: str) -> None:
        one, factor = self.numbers(node, "one", 1), self.numbers(node, "factor", PROBIT_FACTOR)
        x = self.add(node, "Sub", self.add(node, "Add", scores, scores), one)
        room = self.add(node, "Mul", self.add(node, "Sub", one, x), self.add(node, "Add", one, x))
        logarithm = self.add(node, "Log", room)
        half = self.add(node, "Mul", logarithm, self.numbers(node, "half", 0.5))
        v = self.add(node, "Add", half, self.numbers(node, "start", 2 / (np.pi * PROBIT_FACTOR)))
        square = self.add(node, "Sub", self.add(node, "Mul", v, v), self.add(node, "Div", logarithm, factor))
        y = self.add(node, "Sqrt", self.add(node, "Sub", self.add(node, "Sqrt", square), v))
        signed = self.add(node, "Mul", self.add(node, "Sign", x), y)
        self.add(node, "Mul", signed, self.numbers(node, "root", np.sqrt(2)), result=result)

    def label(self, node: Node, number: str, labels: Sequence[Any], result: str) -> None:
        """Add the label of each number of a class, (rows,) int64."""
        if tuple(labels) == tuple(range(len(labels))):
            self.add(node, "Identity", number, result=result)
            return
        kind = "values_strings" if isinstance(labels[0], str) else "values_int64s"
        attributes = {"keys_int64s": tuple(range(len(labels))), kind: tuple(labels)}
        self.append(node, "LabelEncoder", DOMAIN, LABEL_VERSION, [number], result, attributes)


Form = Callable[[ClassicalRewriter, Node], bool]
"""Function that adds the nodes for one of ``ai.onnx.ml``; false if that must stay."""

FORMS: dict[str, Form] = {}

MEANINGS: dict[tuple[str, str], str] = {}
"""Description of each decomposition for the table of operators, by domain and name."""


def form(op_type: str, meaning: str) -> Callable[[Form], Form]:
    """Register the decomposition of an operator; ``meaning`` describes its result for the table of operators."""

    def register(function: Form) -> Form:
        FORMS[op_type] = function
        MEANINGS[DOMAIN, op_type] = meaning
        return function

    return register
