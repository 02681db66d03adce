"""The node cases of the onnx package: what we compute, what we infer before computing, and what folding leaves.

All cases run in one test each, since collecting them takes longer than running them.
"""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate.check_inputs import check_feeds
from onnx_hw.onnx.evaluate.infer_shapes import infer_graph
from onnx_hw.onnx.load.read import read
from onnx_hw.onnx.operators import operators
from onnx_hw.onnx.operators.evaluate import evaluate
from support.backend_cases import assert_case, node_cases, plain

_LISTED = tomllib.loads((Path(__file__).parent / "backend_unmet.toml").read_text())["unmet"]
UNMET = {name: entry["reason"] for entry in _LISTED for name in entry["cases"]}
OURS = {operator.op_type for operator in operators() if not operator.domain}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Each case with the model as it was read, or why it was refused."""
    path = tmp_path_factory.mktemp("cases") / "model.onnx"
    result = []
    for case in node_cases():
        path.write_bytes(case.model.SerializeToString())
        try:
            result.append((case, read(path)))
        except UserError as error:
            result.append((case, error))
    return result


def verdict(case, model):
    """Empty when the case passes, else the first line of what is wrong."""
    if isinstance(model, UserError):
        return model.problems[0].message
    try:
        for inputs, outputs in case.data_sets:
            assert_case(model.graph, inputs, outputs, case.rtol, case.atol)
    except UserError as error:
        return error.problems[0].message
    except AssertionError as error:
        return " ".join(str(error).split())[:200] or "assertion"
    return ""


def test_the_listed_cases_are_the_unmet_ones(models):
    verdicts = {case.name: verdict(case, model) for case, model in models}
    unmet = {name for name, why in verdicts.items() if why}
    news = {name: verdicts[name] for name in sorted(unmet - set(UNMET))}
    assert not news, news
    assert sorted(set(UNMET) - unmet) == []


def test_share_of_cases_that_are_met():
    """Of the cases of our operators of the default domain at least 97 %, and of all cases too."""
    cases = node_cases()
    in_table = [c for c in cases if all(n.op_type in OURS and n.domain == "" for n in c.model.graph.node)]
    for group in (in_table, cases):
        assert sum(case.name not in UNMET for case in group) / len(group) >= 0.97
    assert len(OURS) >= 150


def test_inferred_types_are_those_of_the_computed_values(models):
    """Whatever is inferred holds for what is then computed, and is inferred unless it depends on data."""
    wrong, unknown, inferred = [], set(), 0
    for case, model in models:
        if case.name in UNMET:
            continue
        graph = model.graph
        feeds = {v.name: plain(x) for v, x in zip(graph.inputs, case.data_sets[0][0], strict=True)}
        types = infer_graph(_undeclared(graph), {}, [])
        actual: dict[Any, Any] = {}
        evaluate(graph, check_feeds(graph, feeds), [v.name for v in graph.outputs], observe=actual.__setitem__)
        for node in graph.nodes:
            for name in node.outputs:
                value = actual.get(name)
                if not isinstance(value, np.ndarray):
                    continue
                if name not in types:
                    if all(x in types for x in node.inputs if x):
                        unknown.add(node.op_type)
                    continue
                inferred += 1
                if (types[name].dtype, types[name].shape) != (value.dtype, value.shape):
                    wrong.append((case.name, node.op_type, types[name], value.dtype, value.shape))
    assert not wrong, wrong[:10]
    assert inferred > 10_000
    assert unknown == DEPENDS_ON_DATA


#: Operators of which a result's shape depends on data in one of the cases, where nothing is constant.
DEPENDS_ON_DATA = {
    "AffineGrid", "BlackmanWindow", "CenterCropPad", "Col2Im", "Compress", "ConstantOfShape", "DFT", "Expand",
    "HammingWindow", "HannWindow", "If", "Loop", "MaxUnpool", "MelWeightMatrix", "NonMaxSuppression", "NonZero",
    "OneHot", "Pad", "Range", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Reshape", "Resize", "STFT", "Scan", "Slice", "Split",
    "Squeeze", "StringNormalizer", "StringSplit", "Tile", "TopK", "Unique", "Unsqueeze", "Upsample",
}  # fmt: skip


def _undeclared(graph):
    """The graph without the types that the case declares for inner values and outputs."""
    return replace(
        graph, values={}, outputs=tuple(replace(value, element_type="", shape=None) for value in graph.outputs)
    )
