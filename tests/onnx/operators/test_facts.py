"""The rows of facts: counts and places against what the operators compute."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_hw.lower.ops import LOWERINGS
from onnx_hw.onnx.evaluate.macs import is_product, macs_of
from onnx_hw.onnx.graph.model import Graph, Node, Value
from onnx_hw.onnx.operators import operators
from onnx_hw.onnx.operators.dtypes import name_of_dtype
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import facts_of_operator, operator
from support.random_mac_nodes import PRODUCTS, Draw, Product

ROWS = {(row.domain, row.op_type) for row in operators()}
SATURATES = 255
SEEDS = 4


def row(domain: str, op_type: str) -> Facts:
    return facts_of_operator(domain, op_type)


def counted(product: Product) -> tuple[int | None, list[np.ndarray]]:
    node = product.node
    results = compute(node, product.inputs)
    arrays = {**dict(zip(node.inputs, product.inputs, strict=True)), **dict(zip(node.outputs, results, strict=True))}
    values = {name: Value(name, name_of_dtype(array.dtype), array.shape) for name, array in arrays.items()}
    return macs_of(node, Graph("g", (node,), (), (), {}, values)), results


def test_every_product_is_drawn():
    assert {key for key in ROWS if row(*key).macs is not None} == set(PRODUCTS)


OTHER_RESULTS = (
    "RNN",
    "GRU",
    "LSTM",
    "DynamicQuantizeLSTM",
    "Attention",
    "LinearAttention",
    "LinearClassifier",
    "SVMRegressor",
    "SVMClassifier",
)
SUMS_OF_ONES = [key for key in PRODUCTS if key[1] not in OTHER_RESULTS]


@pytest.mark.parametrize("key", SUMS_OF_ONES, ids=".".join)
def test_macs_are_what_a_product_of_ones_adds_up_to(key):
    """Where nothing is padded or cut; the last inputs of a causal convolution begin with a padding that counts."""
    for seed in range(SEEDS):
        product = PRODUCTS[key](Draw(seed, ones=True))
        if key[1] == "CausalConvWithState":
            x, w = product.inputs
            product.inputs.append(np.zeros(w.shape[0], np.float32))
            product.inputs.append(np.ones((*x.shape[:2], w.shape[2] - 1), np.float32))
        count, (result, *_) = counted(product)
        if result.max() < SATURATES:
            assert count == round(float(result.astype(np.float64).sum())) > 0


@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4), ("DynamicQuantizeLSTM", 4)])
def test_macs_of_a_recurrence(op_type, gates):
    for seed in range(SEEDS):
        product = PRODUCTS["com.microsoft" if op_type.startswith("Dynamic") else "", op_type](Draw(seed))
        times, batch, features = product.inputs[0].shape
        hidden = product.attributes["hidden_size"]
        assert counted(product)[0] == times * batch * gates * hidden * (features + hidden)


def test_macs_of_attentions():
    for seed in range(SEEDS):
        product = PRODUCTS["", "Attention"](Draw(seed))
        (_, heads, queries, size), (_, _, keys, _) = (of.shape for of in product.inputs[:2])
        assert counted(product)[0] == heads * queries * keys * 2 * size
        product = PRODUCTS["", "LinearAttention"](Draw(seed))
        (_, length, _), (_, heads, size, values) = product.inputs[0].shape, counted(product)[1][1].shape
        assert counted(product)[0] == heads * length * size * values * 2


def test_macs_of_an_einsum():
    """Of one operand none, of three one for each operand but the first."""
    for equation, shapes, count in (
        ("ij->ji", [(2, 3)], 0),
        ("ii", [(3, 3)], 0),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], 2 * 2 * 3 * 4 * 5),
        ("b...i,b...i->b...", [(2, 3, 4, 5)] * 2, 2 * 3 * 4 * 5),
    ):
        inputs = [np.ones(shape, np.float32) for shape in shapes]
        assert counted(Product("Einsum", "", inputs, {"equation": equation}))[0] == count


def test_macs_of_a_classifier():
    for seed in range(SEEDS):
        product = PRODUCTS["ai.onnx.ml", "LinearClassifier"](Draw(seed))
        count, (_, scores) = counted(product)
        assert count == scores.size * product.inputs[0].shape[1]


def test_macs_of_support_vectors():
    """Kernels with all vectors, and one factor for each vector and each pair of classes that has its class."""
    for seed in range(SEEDS):
        for op_type, scores_with_a_vector in (("SVMRegressor", 1), ("SVMClassifier", 2)):
            product = PRODUCTS["ai.onnx.ml", op_type](Draw(seed))
            rows, columns = product.inputs[0].shape
            vectors = len(product.attributes["support_vectors"]) // columns
            assert counted(product)[0] == rows * vectors * (columns + scores_with_a_vector)


def test_macs_are_unknown_where_a_type_is():
    node = PRODUCTS["", "MatMul"](Draw(0)).node
    assert macs_of(node, Graph("g", (node,), (), (), {}, {})) is None


def test_what_a_subgraph_multiplies_counts():
    body = Graph("body", (PRODUCTS["", "MatMul"](Draw(0)).node,), (), (), {})
    branch = Node("if", "If", "", 13, ("c",), ("y",), {"then_branch": body, "else_branch": body})
    assert is_product(branch) and macs_of(branch, Graph("g", (branch,), (), (), {})) is None
    assert not is_product(Node("if", "If", "", 13, ("c",), ("y",), {"then_branch": Graph("b", (), (), (), {})}))


PLACED = [key for key in PRODUCTS if row(*key).weights is not None]


@pytest.mark.parametrize("key", PLACED, ids=".".join)
def test_weights_are_where_the_row_says(key):
    """Numbers at one place of the axis of outputs change one channel of the result, or one in every group."""
    for seed in range(SEEDS):
        product = PRODUCTS[key](Draw(seed))
        node, place = product.node, row(*key).weights
        weights = product.inputs[place.at]
        axis = place.axis_of_outputs(node, weights.ndim)
        chosen = seed % weights.shape[axis]
        changed = weights.copy()
        np.moveaxis(changed, axis, 0)[chosen] += 40
        inputs = [changed if k == place.at else of for k, of in enumerate(product.inputs)]
        before, after = (compute(node, of)[0].astype(np.float64) for of in (product.inputs, inputs))
        others = tuple(k for k in range(before.ndim) if k != place.channel % before.ndim)
        different = np.flatnonzero((before != after).any(axis=others))
        groups = before.shape[place.channel] // weights.shape[axis]
        assert set(different) <= {chosen + group * weights.shape[axis] for group in range(groups)}
        if key[1] not in ("FusedConv", "FusedGemm"):  # an activation may hide it
            assert different.size or not product.inputs[0].any()


@pytest.mark.parametrize("key", [key for key in PLACED if row(*key).effect is Effect.SUMS], ids=".".join)
def test_factors_beside_weights_are_factors_behind_the_product(key):
    for seed in range(SEEDS):
        product = PRODUCTS[key](Draw(seed))
        node, place = product.node, row(*key).weights
        (result,) = compute(node, product.inputs)
        column = np.arange(2, 2 + result.shape[place.channel]).astype(np.float64)
        spread = [-1 if k == place.channel % result.ndim else 1 for k in range(result.ndim)]
        weights = product.inputs[place.at]
        scaled = (weights * place.broadcast(node, weights.shape, column)).astype(np.float32)
        inputs = [scaled if k == place.at else of for k, of in enumerate(product.inputs)]
        np.testing.assert_allclose(compute(node, inputs)[0], result * column.reshape(spread), rtol=1e-4, atol=1e-5)


def test_what_is_lowered_says_its_effect():
    assert all(row(*key).effect is not None for key in LOWERINGS)


MOVES = {
    "Identity": ((), {}),
    "Reshape": (([3, 8],), {}),
    "Transpose": ((), {"perm": [0, 2, 3, 1]}),
    "Flatten": ((), {}),
    "Squeeze": (([0],), {}),
    "Unsqueeze": (([1],), {}),
    "Expand": (([5, 4, 2, 3],), {}),
    "DepthToSpace": ((), {"blocksize": 2}),
    "SpaceToDepth": ((), {"blocksize": 1}),
    "Split": (([1, 3],), {"axis": 1}),
    "Tile": (([1, 2, 1, 3],), {}),
    "Gather": (([2, 0, 2],), {"axis": 1}),
    "Slice": (([3, 2], [-9, 0], [1, 3], [-2, -1]), {}),
}
"""By operator: what it reads beside data, and its attributes."""


def test_what_only_moves_elements_makes_none_of_its_own():
    assert {op_type for domain, op_type in ROWS if row(domain, op_type).moves} == set(MOVES)
    places = np.arange(24).reshape(1, 4, 2, 3)
    numbers = np.random.default_rng(0).normal(size=places.size).astype(np.float32)
    for op_type, (others, attributes) in MOVES.items():
        inputs = tuple("xabcd"[: 1 + len(others)])
        node = Node("n", op_type, "", 18, inputs, ("y", "z") if op_type == "Split" else ("y",), attributes)
        constants = [np.array(other) for other in others]
        for moved, where in zip(
            compute(node, [numbers[places], *constants]), compute(node, [places, *constants]), strict=True
        ):
            np.testing.assert_array_equal(moved, numbers[where], err_msg=op_type)


def test_facts_are_stated_once():
    with pytest.raises(ValueError, match=r"the facts of Relu \(opset 1000\) must be stated once"):

        @operator(since=1000, facts=Facts(Effect.KEEPS))
        def Relu(x):
            return x


BOUNDED = [key for key in sorted(ROWS) if row(*key).within is not None]


@pytest.mark.parametrize("key", BOUNDED, ids=".".join)
def test_a_function_within_bounds_comes_near_to_both(key):
    x = np.linspace(-4000, 4000, 100_001).astype(np.float32)
    (result,) = compute(Node("", key[1], key[0], 13, ("x",), ("y",)), [x])
    low, high = row(*key).within or (0, 0)
    assert low <= result.min() < low + 0.001 and high - 0.001 < result.max() <= high
