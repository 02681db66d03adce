"""Decomposition of FusedConv, FusedGemm, FusedMatMul, BiasGelu ... into the operators that onnxruntime fused.

Behind this pass there are only those; a fused operator in a form without a counterpart stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators.dtypes import dtype_of_name, to_model_dtype
from onnx_hw.onnx.operators.microsoft_fused import fused_order

DOMAIN = "com.microsoft"

VERSION = 13
"""Opset of the inserted nodes."""

GELU_VERSION = 20
"""First opset with Gelu."""


class NoCounterpart(Exception):
    """Node without a counterpart, which must stay."""


def is_fused(node: Node) -> bool:
    """Say whether a node may be a fused one."""
    return node.domain == DOMAIN and node.op_type in FORMS


def decompose_fused_operators(model: Model) -> Model:
    """Return the same typed model with operators of the default domain."""
    return replace(model, graph=_FusedRewriter(model.graph).graph)


class _FusedRewriter:
    """Rewriter that visits node after node."""

    def __init__(self, graph: Graph) -> None:
        self.added = Additions(graph)
        self.nodes: list[Node] = []
        for node in graph.nodes:
            before = len(self.nodes)
            try:
                if not is_fused(node):
                    raise NoCounterpart
                self._rename_result(FORMS[node.op_type](self, node), node.outputs[0])
            except NoCounterpart:
                self.nodes[before:] = [node]
        self.graph = self.added.graph(self.nodes)

    def _rename_result(self, name: str, result: str) -> None:
        last = self.nodes[-1]
        assert last.outputs == (name,)  # a form ends with the node that makes its result
        self.nodes[-1] = replace(last, outputs=(result,))

    def product(self, node: Node, op_type: str, inputs: Sequence[str], attributes: dict[str, Any]) -> str:
        """Add the node that multiplies, which keeps the name and the place; return the name of its result."""
        result = self.added.name(f"{node.outputs[0]}/{op_type.lower()}")
        self.nodes.append(replace(node, op_type=op_type, domain="", version=VERSION, inputs=tuple(inputs),
                                  outputs=(result,), attributes=attributes))  # fmt: skip
        return result

    def add(self, node: Node, op_type: str, *inputs: str, version: int = VERSION, **attributes: Any) -> str:
        result = self.added.name(f"{node.outputs[0]}/{op_type.lower()}")
        self.nodes.append(Node("", op_type, "", version, inputs, (result,), attributes))
        return result

    def number(self, node: Node, what: str, number: float) -> str:
        """Add a constant without axes, of the type of the node's first input; return its name."""
        of = self.added.values.get(node.inputs[0])
        if of is None or not of.element_type:
            raise NoCounterpart
        array = to_model_dtype(np.array(number).astype(dtype_of_name(of.element_type)))
        return self.added.constant(f"{node.outputs[0]}/{what}", array, of.element_type)

    def add_activation(self, node: Node, name: str, parameters: Sequence[float]) -> str:
        """Add the fused activation behind a value; return the name of its result."""
        match node.attributes.get("activation", ""), *parameters:
            case ["", *_]:
                return name
            case ["Relu" | "Tanh" | "Sigmoid" as op_type, *_]:
                return self.add(node, op_type, name)
            case ["LeakyRelu", *given]:
                return self.add(node, "LeakyRelu", name, alpha=given[0] if given else 0.01)
            case ["Clip", low, high]:
                return self.add(node, "Clip", name, self.number(node, "low", low), self.number(node, "high", high))
            case ["HardSigmoid", alpha, beta]:
                return self.add(node, "HardSigmoid", name, alpha=alpha, beta=beta)
        raise NoCounterpart

    def transpose_operand(self, node: Node, at: int, last: str, batch: str) -> str:
        """Transpose an operand as the attributes with these names say; return the name of the result."""
        name = node.inputs[at]
        flags = [int(node.attributes.get(flag, 0)) for flag in (last, batch)]
        if not any(flags):
            return name
        of = self.added.values.get(name)
        if of is None or of.shape is None:
            raise NoCounterpart
        order = fused_order(len(of.shape), *flags)
        return name if order == sorted(order) else self.add(node, "Transpose", name, perm=tuple(order))


Form = Callable[[_FusedRewriter, Node], str]
"""Function that adds the nodes of a fused one and returns the name of the last result; its docstring says what they
are.
"""

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


def _without(node: Node, *prefixes: str) -> dict[str, Any]:
    return {name: value for name, value in node.attributes.items() if not name.startswith(prefixes)}


@form("FusedConv", "as Conv, Add and a function")
def _conv(rewriter: _FusedRewriter, node: Node) -> str:
    """Decompose a FusedConv."""
    result = rewriter.product(node, "Conv", node.inputs[:3], _without(node, "activation"))
    if len(node.inputs) > 3 and node.inputs[3]:
        result = rewriter.add(node, "Add", result, node.inputs[3])
    return rewriter.add_activation(node, result, tuple(node.attributes.get("activation_params", ())))


@form("FusedGemm", "as Gemm and a function")
def _gemm(rewriter: _FusedRewriter, node: Node) -> str:
    """Decompose a FusedGemm."""
    result = rewriter.product(node, "Gemm", node.inputs, _without(node, "activation"))
    names = (f"activation_{letter}" for letter in ("alpha", "beta", "gamma"))
    return rewriter.add_activation(node, result, [node.attributes[name] for name in names if name in node.attributes])


@form("FusedMatMul", "as Transpose, MatMul and a factor")
def _matmul(rewriter: _FusedRewriter, node: Node) -> str:
    """Decompose a FusedMatMul."""
    operands = (
        rewriter.transpose_operand(node, 0, "transA", "transBatchA"),
        rewriter.transpose_operand(node, 1, "transB", "transBatchB"),
    )
    result = rewriter.product(node, "MatMul", operands, {})
    alpha = node.attributes.get("alpha", 1.0)
    return result if alpha == 1 else rewriter.add(node, "Mul", result, rewriter.number(node, "alpha", alpha))


@form("Gelu", "as Gelu")
def _gelu(rewriter: _FusedRewriter, node: Node) -> str:
    """Decompose a Gelu."""
    return rewriter.add(node, "Gelu", node.inputs[0], version=GELU_VERSION)


@form("BiasGelu", "as Add and Gelu")
def _bias_gelu(rewriter: _FusedRewriter, node: Node) -> str:
    """Decompose a BiasGelu."""
    return rewriter.add(node, "Gelu", rewriter.add(node, "Add", *node.inputs), version=GELU_VERSION)


@form("FastGelu", "as Add and Gelu")
def _fast_gelu(rewriter: _FusedRewriter, node: Node) -> str:
    """Decompose a FastGelu."""
    biased = len(node.inputs) > 1 and node.inputs[1]
    data = rewriter.add(node, "Add", *node.inputs) if biased else node.inputs[0]
    return rewriter.add(node, "Gelu", data, version=GELU_VERSION, approximate="tanh")


@form("QuickGelu", "as a product with Sigmoid")
def _quick_gelu(rewriter: _FusedRewriter, node: Node) -> str:
    """Decompose a QuickGelu."""
    alpha = rewriter.number(node, "alpha", node.attributes.get("alpha", 1.7020000219345093))
    scaled = rewriter.add(node, "Mul", node.inputs[0], alpha)
    return rewriter.add(node, "Mul", node.inputs[0], rewriter.add(node, "Sigmoid", scaled))
