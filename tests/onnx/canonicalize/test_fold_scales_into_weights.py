"""Factors behind any product of real numbers go into its weights, along the axis that its row of facts says."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_hw.onnx.canonicalize.fold_scales_into_weights import fold_scales_into_weights
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of_operator
from support.random_mac_nodes import PRODUCTS, Draw

SUMS = [key for key in PRODUCTS if facts_of_operator(*key).effect is Effect.SUMS and facts_of_operator(*key).weights]
FOLLOWING = ("BatchNormalization", "Mul", "Div")
SEEDS = 8


@pytest.mark.parametrize("key", SUMS, ids=".".join)
@pytest.mark.parametrize("following", FOLLOWING)
def test_a_factor_per_channel_is_in_the_weights(key: tuple[str, str], following: str) -> None:
    """Groups, strides and turned matrices included; an addition may stand between."""
    folded = 0
    for seed in range(SEEDS):
        product = PRODUCTS[key](Draw(seed))
        random = np.random.default_rng(seed)
        node, place = product.node, facts_of(product.node).weights
        assert place is not None
        (result,) = compute(node, product.inputs)
        axis = place.channel % result.ndim
        if following == "BatchNormalization" and axis != 1:
            continue
        channels = result.shape[axis]
        spread = tuple(channels if k == axis else 1 for k in range(result.ndim))
        numbers = [random.uniform(0.5, 2, channels).astype(np.float32) for _ in range(4)]
        constants = dict(zip(node.inputs[1:], product.inputs[1:], strict=True))
        constants["term"] = numbers[0].reshape(spread)
        nodes = [node]
        last = "y0"
        if seed % 2:
            nodes.append(Node("", "Add", "", 13, ("y0", "term"), ("shifted",)))
            last = "shifted"
        if following == "BatchNormalization":
            names = tuple(f"b{k}" for k in range(4))
            constants |= dict(zip(names, numbers, strict=True))
            nodes.append(Node("", following, "", 15, (last, *names), ("y",)))
        else:
            constants["factor"] = (numbers[1] * random.choice([-1, 1], channels)).reshape(spread).astype(np.float32)
            nodes.append(Node("", following, "", 13, (last, "factor"), ("y",)))
        nodes.append(Node("", "Relu", "", 13, ("y",), ("end",)))
        data = product.inputs[0]
        given = Value("x0", "float", data.shape)
        values = {name: Value(name, "float", array.shape) for name, array in constants.items()}
        graph = Graph("g", tuple(nodes), (given,), (Value("end", "float", result.shape),), constants, values)
        model = infer(Model("m", graph, {"": 15}, 8))
        apart = fold_scales_into_weights(model)
        assert not {"BatchNormalization", "Mul", "Div"}.intersection(node.op_type for node in apart.graph.nodes)
        found, wanted = (reference.run(of, {"x0": data})["end"] for of in (apart, model))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        folded += 1
    assert folded or (following == "BatchNormalization" and key[1] == "MatMul")


@pytest.mark.parametrize("following", ["Mul", "Div", "Add"])
def test_a_factor_that_makes_several_channels_of_one_stays(following: str) -> None:
    rng = np.random.default_rng(3)
    constants = {
        "w": rng.uniform(-1, 1, (1, 2, 1, 1)).astype(np.float32),
        "factor": rng.uniform(1, 2, (1, 3, 1, 1)).astype(np.float32),
        "gain": np.float32(2).reshape(()),
    }
    nodes = (
        Node("", "Conv", "", 11, ("x", "w"), ("sums",)),
        Node("", following, "", 13, ("sums", "factor"), ("wide",)),
        Node("", "Mul", "", 13, ("wide", "gain"), ("y",)),
        Node("", "Relu", "", 13, ("y",), ("end",)),
    )
    values = {name: Value(name, "float", array.shape) for name, array in constants.items()}
    inputs, outputs = (Value("x", "float", (1, 2, 2, 2)),), (Value("end", "float", (1, 3, 2, 2)),)
    model = infer(Model("m", Graph("g", nodes, inputs, outputs, constants, values), {"": 15}, 8))
    apart = fold_scales_into_weights(model)
    frame = {"x": rng.uniform(-1, 1, (1, 2, 2, 2)).astype(np.float32)}
    assert following in [node.op_type for node in apart.graph.nodes]
    np.testing.assert_allclose(reference.run(apart, frame)["end"], reference.run(model, frame)["end"], rtol=1e-5)
