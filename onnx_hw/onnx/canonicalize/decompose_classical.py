"""Decomposition of the operators of ``ai.onnx.ml`` into those of the default domain, which are lowered.

A linear model becomes a Gemm with its scores' transform and labels behind it; ArrayFeatureExtractor a Gather. A Scaler
behind a product becomes Sub and Mul; before any, where the host scales the numbers that the user gives, it stays, for
features of different sizes must be scaled before they get integers of one scale. Trees are in ``decompose_trees.py``,
support vector machines in ``decompose_svm.py``. Other operators of the domain stay on the host.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.onnx.canonicalize import decompose_svm, decompose_trees
from onnx_hw.onnx.canonicalize.classical_rewriter import MEANINGS, VERSION, ClassicalRewriter, form
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Model, Node
from onnx_hw.onnx.operators.classical_features import DOMAIN

__all__ = ["MEANINGS", "decompose_classical", "decompose_svm", "decompose_trees"]


def decompose_classical(model: Model) -> Model:
    """Return the same typed model with operators of the default domain in place of those that become hardware."""
    if all(node.domain != DOMAIN for node in model.graph.nodes):
        return model
    return replace(model, graph=ClassicalRewriter(model.graph).graph)


@form("LinearRegressor", "as Gemm; a transform of the scores on the host")
def _regressor(rewriter: ClassicalRewriter, node: Node) -> bool:
    """Decompose a LinearRegressor."""
    targets = int(node.attributes.get("targets", 1))
    plain = node.attributes.get("post_transform", "NONE") == "NONE"
    scores = rewriter.product(node, targets, node.outputs[0] if plain else "")
    if not plain:
        rewriter.transform(node, scores, targets, node.outputs[0])
    return True


@form("LinearClassifier", "as Gemm and ArgMax; labels and a transform of the scores on the host")
def _classifier(rewriter: ClassicalRewriter, node: Node) -> bool:
    """Decompose a LinearClassifier."""
    label, result = (*node.outputs, "")[:2]
    labels = node.attributes.get("classlabels_strings") or node.attributes["classlabels_ints"]
    count = len(node.attributes["intercepts"])
    scores = rewriter.product(node, count)
    if label and count == 1:
        positive = rewriter.add(node, "Greater", scores, rewriter.numbers(node, "threshold", 0))
        column = rewriter.add(node, "Squeeze", positive, rewriter.numbers(node, "axes", [1], "int64"))
        rewriter.label(node, rewriter.add(node, "Cast", column, to=BY_NAME["int64"].code), labels, label)
    elif label:
        rewriter.label(node, rewriter.add(node, "ArgMax", scores, axis=1, keepdims=0), labels, label)
    if result and count == 1:
        rewriter.of_two_classes(node, scores, result)
    elif result:
        rewriter.transform(node, scores, count, result)
    return True


@form("ArrayFeatureExtractor", "as Gather")
def _extractor(rewriter: ClassicalRewriter, node: Node) -> bool:
    """Decompose an ArrayFeatureExtractor of data with several axes."""
    data, places = node.inputs
    if (rewriter.rank(data) or 0) < 2:
        return False
    if rewriter.rank(places) != 1:
        places = rewriter.add(node, "Reshape", places, rewriter.numbers(node, "row", [-1], "int64"))
    rewriter.nodes.append(replace(node, op_type="Gather", domain="", version=VERSION, inputs=(data, places),
                                  attributes={"axis": -1}))  # fmt: skip
    return True


@form("Scaler", "as Sub and Mul, behind a product; on the host before")
def _scaler(rewriter: ClassicalRewriter, node: Node) -> bool:
    """Decompose a Scaler behind a product."""
    if node.inputs[0] not in rewriter.behind:
        return False
    data = rewriter.floats(node, node.inputs[0])
    moved = rewriter.add(node, "Sub", data, rewriter.numbers(node, "offset", node.attributes["offset"]))
    factor = rewriter.numbers(node, "scale", node.attributes["scale"])
    rewriter.add(node, "Mul", moved, factor, result=node.outputs[0])
    return True
