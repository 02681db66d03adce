"""Decomposition of support vector machines: products with the support vectors, a function, and a product of kernels.

A linear kernel needs one product, with the sum of the support vectors. The votes of a classifier are counted behind it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.onnx.canonicalize.classical_rewriter import VERSION, ClassicalRewriter, form
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.classical_svm import Machine, machine_of
from onnx_hw.onnx.operators.registry import INTERNAL


@form("SVMRegressor", "as Gemm, and with another kernel than a linear one a function and a second Gemm")
def _regressor(rewriter: ClassicalRewriter, node: Node) -> bool:
    """Decompose an SVMRegressor that has no transform."""
    machine = _machine(rewriter, node, 1)
    if machine is None or node.attributes.get("post_transform", "NONE") != "NONE":
        return False
    scores = _scores(rewriter, node, machine)
    if not node.attributes.get("one_class", 0):
        rewriter.add(node, "Identity", scores, result=node.outputs[0])
        return True
    inside = rewriter.add(node, "Greater", scores, rewriter.numbers(node, "threshold", 0))
    ends = (rewriter.numbers(node, what, number) for what, number in (("inside", 1), ("outside", -1)))
    rewriter.add(node, "Where", inside, *ends, result=node.outputs[0])
    return True


@form("SVMClassifier", "as SVMRegressor for each pair of classes; votes, labels and a transform of scores on the host")
def _classifier(rewriter: ClassicalRewriter, node: Node) -> bool:
    """Decompose an SVMClassifier."""
    labels = node.attributes.get("classlabels_strings") or node.attributes.get("classlabels_ints") or ()
    machine = _machine(rewriter, node, len(labels))
    if machine is None or len(labels) < 2:
        return False
    label, result = (*node.outputs, "")[:2]
    scores = _scores(rewriter, node, machine)
    of_pairs = bool(node.attributes.get("vectors_per_class"))
    if label:
        if of_pairs:
            number = rewriter.append(node, "MostVotes", INTERNAL, 1, [scores], "", {"classes": len(labels)})
        else:
            number = rewriter.add(node, "ArgMax", scores, axis=1, keepdims=0)
        rewriter.label(node, number, labels, label)
    if result and of_pairs and node.attributes.get("prob_a"):
        pairs = {name: tuple(node.attributes.get(name, ())) for name in ("prob_a", "prob_b")}
        of_classes = {"classes": len(labels), **pairs}
        scores = rewriter.append(node, "CoupledProbabilities", INTERNAL, 1, [scores], "", of_classes)
    elif result and of_pairs and len(labels) == 2:
        scores = rewriter.add(node, "Concat", rewriter.add(node, "Neg", scores), scores, axis=1)
    if result:
        rewriter.transform(node, scores, len(labels), result)
    return True


def _machine(rewriter: ClassicalRewriter, node: Node, scores: int) -> Machine | None:
    """Return the numbers of a machine; None where the shape of the data is not known, or they do not fit to it."""
    value = rewriter.added.values.get(node.inputs[0])
    features = value.shape[-1] if value is not None and value.shape else None
    if not isinstance(features, int):
        return None
    try:
        return machine_of(node.attributes, features, scores)
    except ValueError:
        return None


def _scores(rewriter: ClassicalRewriter, node: Node, machine: Machine) -> str:
    """Add the scores of a machine, under the node's name; return their name, (rows, scores) floats."""
    data = rewriter.rows(node, node.inputs[0])
    linear = machine.kernel == "LINEAR"
    vectors = machine.coefficients.astype(np.float64) @ machine.vectors if linear else machine.vectors
    weights = rewriter.numbers(node, "vectors", vectors)
    if linear:
        return _product(rewriter, node, data, weights, rewriter.numbers(node, "rho", machine.biases))
    if machine.kernel == "RBF":
        # the exponent is -gamma (x - v)² = 2 gamma x·v - gamma v² - gamma x²
        gamma = machine.gamma
        weights = rewriter.numbers(node, "scaled_vectors", 2 * gamma * vectors)
        bias = rewriter.numbers(node, "norms", -gamma * (vectors.astype(np.float64) ** 2).sum(1))
        dots = _product(rewriter, node, data, weights, bias)
        square = rewriter.add(node, "Mul", data, data)
        total = rewriter.add(node, "ReduceSum", square, rewriter.numbers(node, "axes", [1], "int64"), keepdims=1)
        norm = rewriter.add(node, "Mul", total, rewriter.numbers(node, "gamma", -gamma))
        kernels = rewriter.add(node, "Exp", rewriter.add(node, "Add", dots, norm))
    else:
        bias = rewriter.numbers(node, "coef0", np.full(len(vectors), machine.coef0))
        weights = rewriter.numbers(node, "scaled_vectors", machine.gamma * vectors)
        dots = _product(rewriter, node, data, weights, bias)
        if machine.kernel == "SIGMOID":
            kernels = rewriter.add(node, "Tanh", dots)
        else:
            kernels = rewriter.add(node, "Pow", dots, rewriter.numbers(node, "degree", machine.degree))
    second = replace(node, name=f"{node.label}/kernels")
    coefficients = rewriter.numbers(node, "coefficients", machine.coefficients)
    return _product(rewriter, second, kernels, coefficients, rewriter.numbers(node, "rho", machine.biases))


def _product(rewriter: ClassicalRewriter, node: Node, data: str, weights: str, bias: str) -> str:
    result = rewriter.added.name(f"{node.label}/scores")
    rewriter.nodes.append(
        replace(node, op_type="Gemm", domain="", version=VERSION, inputs=(data, weights, bias), outputs=(result,),
                attributes={"transB": 1})
    )  # fmt: skip
    return result
