"""FusedConv, FusedGemm, FusedMatMul, BiasGelu ... as the operators that onnxruntime's optimizer has made them of.

Behind this pass there are only those; a fused operator in a form that has no counterpart stays.
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
"""Opset of the nodes."""

WITH_GELU = 20
"""The first with Gelu."""


class NoCounterpart(Exception):
    """A node that must stay."""


def is_fused(node: Node) -> bool:
    """Whether a node may be made of others."""
    return node.domain == DOMAIN and node.op_type in FORMS


def decompose_fused_operators(model: Model) -> Model:
    """The same model, of which the types are known, made of operators of the default domain."""
    return replace(model, graph=_Apart(model.graph).graph)


class _Apart:
    """Rewrites node after node."""

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
        """The node that multiplies, which keeps name and place."""
        result = self.added.name(f"{node.outputs[0]}/{op_type.lower()}")
        self.nodes.append(replace(node, op_type=op_type, domain="", version=VERSION, inputs=tuple(inputs),
                                  outputs=(result,), attributes=attributes))  # fmt: skip
        return result

    def add(self, node: Node, op_type: str, *inputs: str, version: int = VERSION, **attributes: Any) -> str:
        result = self.added.name(f"{node.outputs[0]}/{op_type.lower()}")
        self.nodes.append(Node("", op_type, "", version, inputs, (result,), attributes))
        return result

    def number(self, node: Node, what: str, number: float) -> str:
        """A constant without axes, of the type of the node's first input."""
        of = self.added.values.get(node.inputs[0])
        if of is None or not of.element_type:
            raise NoCounterpart
        array = to_model_dtype(np.array(number).astype(dtype_of_name(of.element_type)))
        return self.added.constant(f"{node.outputs[0]}/{what}", array, of.element_type)

    def activated(self, node: Node, name: str, parameters: Sequence[float]) -> str:
        """The activation that was fused, behind a value."""
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

    def turned(self, node: Node, at: int, last: str, batch: str) -> str:
        """An operand as the product sees it; by the names of the attributes that turn it."""
        name = node.inputs[at]
        flags = [int(node.attributes.get(flag, 0)) for flag in (last, batch)]
        if not any(flags):
            return name
        of = self.added.values.get(name)
        if of is None or of.shape is None:
            raise NoCounterpart
        order = fused_order(len(of.shape), *flags)
        return name if order == sorted(order) else self.add(node, "Transpose", name, perm=tuple(order))


Form = Callable[[_Apart, Node], str]
"""Adds the nodes of one and returns the name of what the last of them makes; its docstring says what they are."""

FORMS: dict[str, Form] = {}


def form(op_type: str) -> Callable[[Form], Form]:
    """Register what an operator is made of."""

    def register(function: Form) -> Form:
        FORMS[op_type] = function
        return function

    return register


def _without(node: Node, *prefixes: str) -> dict[str, Any]:
    return {name: value for name, value in node.attributes.items() if not name.startswith(prefixes)}


@form("FusedConv")
def _conv(apart: _Apart, node: Node) -> str:
    """as Conv, Add and a function"""
    result = apart.product(node, "Conv", node.inputs[:3], _without(node, "activation"))
    if len(node.inputs) > 3 and node.inputs[3]:
        result = apart.add(node, "Add", result, node.inputs[3])
    return apart.activated(node, result, tuple(node.attributes.get("activation_params", ())))


@form("FusedGemm")
def _gemm(apart: _Apart, node: Node) -> str:
    """as Gemm and a function"""
    result = apart.product(node, "Gemm", node.inputs, _without(node, "activation"))
    names = (f"activation_{letter}" for letter in ("alpha", "beta", "gamma"))
    return apart.activated(node, result, [node.attributes[name] for name in names if name in node.attributes])


@form("FusedMatMul")
def _matmul(apart: _Apart, node: Node) -> str:
    """as Transpose, MatMul and a factor"""
    operands = apart.turned(node, 0, "transA", "transBatchA"), apart.turned(node, 1, "transB", "transBatchB")
    result = apart.product(node, "MatMul", operands, {})
    alpha = node.attributes.get("alpha", 1.0)
    return result if alpha == 1 else apart.add(node, "Mul", result, apart.number(node, "alpha", alpha))


@form("Gelu")
def _gelu(apart: _Apart, node: Node) -> str:
    """as Gelu"""
    return apart.add(node, "Gelu", node.inputs[0], version=WITH_GELU)


@form("BiasGelu")
def _bias_gelu(apart: _Apart, node: Node) -> str:
    """as Add and Gelu"""
    return apart.add(node, "Gelu", apart.add(node, "Add", *node.inputs), version=WITH_GELU)


@form("FastGelu")
def _fast_gelu(apart: _Apart, node: Node) -> str:
    """as Add and Gelu"""
    biased = len(node.inputs) > 1 and node.inputs[1]
    data = apart.add(node, "Add", *node.inputs) if biased else node.inputs[0]
    return apart.add(node, "Gelu", data, version=WITH_GELU, approximate="tanh")


@form("QuickGelu")
def _quick_gelu(apart: _Apart, node: Node) -> str:
    """as a product with Sigmoid"""
    alpha = apart.number(node, "alpha", node.attributes.get("alpha", 1.7020000219345093))
    scaled = apart.add(node, "Mul", node.inputs[0], alpha)
    return apart.add(node, "Mul", node.inputs[0], apart.add(node, "Sigmoid", scaled))
