"""Models that a pass must never return: each is refused, with the node and the value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.messages.invariants import InvariantError
from onnx_hw.onnx.canonicalize import canonicalize
from onnx_hw.onnx.evaluate import fold_constants, infer_shapes
from onnx_hw.onnx.graph.model import Graph, Node, Value
from onnx_hw.onnx.graph.verify_model import faults_of_folded, faults_of_model, faults_of_typed
from onnx_hw.quantization import post_training
from onnx_hw.quantization.ranges.synthetic import synthetic_frames
from support.fixture_paths import EXAMPLES

MODEL = flow.read(EXAMPLES / "digits" / "digits_float.onnx")
GRAPH = MODEL.graph
IMAGE = GRAPH.inputs[0]
WEIGHTS = GRAPH.nodes[0].inputs[1]


def nodes(change: Callable[[list], Any]) -> Graph:
    listed = list(GRAPH.nodes)
    change(listed)
    return replace(GRAPH, nodes=tuple(listed))


CASES = {
    "in reverse": (nodes(list.reverse), "probabilities/Softmax", "scores", "stands later"),
    "a node is missing": (nodes(lambda n: n.pop(1)), "pool1/MaxPool", "conv1", "nothing makes it"),
    "a node twice": (nodes(lambda n: n.insert(1, n[0])), GRAPH.nodes[0].label, GRAPH.nodes[0].outputs[0], "made once"),
    "a constant that is gone": (
        replace(GRAPH, constants={k: v for k, v in GRAPH.constants.items() if k != WEIGHTS}),
        GRAPH.nodes[0].label, WEIGHTS, "nothing makes it",
    ),
    "a constant of another shape": (
        replace(GRAPH, constants={**GRAPH.constants, WEIGHTS: np.zeros(3)}), "", WEIGHTS, "a constant of shape (3,)",
    ),
    "a constant without a type": (
        replace(GRAPH, values={k: v for k, v in GRAPH.values.items() if k != WEIGHTS}), "", WEIGHTS, "not None",
    ),
    "an output that nobody makes": (
        replace(GRAPH, outputs=(Value("nowhere", "float", (1,)),)), "", "nowhere", "what the graph returns",
    ),
    "an input without a number": (
        replace(GRAPH, inputs=(replace(IMAGE, shape=("N", 1, 8, 8)),)), "", "image", "a number for every dimension",
    ),
    "an input of two types": (replace(GRAPH, inputs=(replace(IMAGE, element_type="int8"),)), "", "image", "one type"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_broken_models(case):
    graph, node, value, said = CASES[case]
    fault = next(faults_of_typed(replace(MODEL, graph=graph)))
    assert (fault.node, fault.tensor) == (node, value)
    assert said in fault.what


FOLDED = canonicalize.canonicalize(MODEL)
SPARE = Node("spare", "Relu", "", 13, ("image",), ("spare",))
NOT_FOLDED = {
    "a node that nothing needs": (
        replace(FOLDED.graph, nodes=(*FOLDED.graph.nodes, SPARE), values={**FOLDED.graph.values, "spare": IMAGE}),
        "spare", "", "left out",
    ),
    "a constant that nothing reads": (
        replace(FOLDED.graph, constants={**FOLDED.graph.constants, "spare": np.zeros(3)},
                values={**FOLDED.graph.values, "spare": Value("spare", "double", (3,))}),
        "", "spare", "nothing reads",
    ),
    "a value that nobody knows of": (
        replace(FOLDED.graph, values={k: v for k, v in FOLDED.graph.values.items() if k != "conv1"}),
        "conv1/Relu", "conv1", "among the values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_FOLDED)
def test_models_that_are_not_folded(case):
    graph, node, value, said = NOT_FOLDED[case]
    model = replace(FOLDED, graph=graph)
    assert not list(faults_of_typed(model))
    (fault,) = faults_of_folded(model)
    assert (fault.node, fault.tensor) == (node, value)
    assert said in fault.what


@pytest.mark.parametrize("name", ["digits.onnx", "digits_float.onnx"])
def test_a_model_is_folded_and_typed_once(monkeypatch, name):
    """Every later pass keeps that: it is verified, and relied on."""
    model = flow.read(EXAMPLES / "digits" / name)
    calls = []
    for number, module in enumerate((canonicalize, infer_shapes, fold_constants)):
        what = ("fold", "infer_graph", "infer_graph")[number]
        right = getattr(module, what)
        monkeypatch.setattr(module, what, lambda *given, to=right, of=what, **by: calls.append(of) or to(*given, **by))  # type: ignore[func-returns-value]
    flow.quantize(model, synthetic_frames(model))
    assert calls == ["fold", "infer_graph"]


def test_what_is_read_is_whole():
    assert list(faults_of_model(MODEL)) == list(faults_of_typed(MODEL)) == []


@pytest.mark.parametrize(
    ("module", "name", "made_by"),
    [
        (canonicalize, "fold", "prepare"),
        (post_training, "fold_scales_into_weights", "fold_scales_into_weights"),
        (post_training, "insert_quantization", "insert_quantization"),
    ],
)
def test_the_pass_is_named(monkeypatch, module, name, made_by):
    right = getattr(module, name)

    def wrong(*arguments: Any, **options: Any) -> Any:
        made = right(*arguments, **options)
        return replace(made, graph=replace(made.graph, nodes=made.graph.nodes[::-1]))

    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(InvariantError, match=f"^{made_by} made a broken model: node ") as caught:
        flow.quantize(MODEL, synthetic_frames(MODEL))
    assert caught.value.fault.node == "probabilities/Softmax"
