"""Fused operators mean what they are made of, and become hardware like it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.ir.mac_counts import macs_in_hardware
from onnx_hw.onnx.canonicalize.decompose_fused import DOMAIN, FORMS, decompose_fused_operators
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.dtypes import name_of_dtype
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.stage import Stage

ACTIVATIONS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("", ()),
    ("Relu", ()),
    ("Tanh", ()),
    ("Sigmoid", ()),
    ("LeakyRelu", ()),
    ("LeakyRelu", (0.3,)),
    ("Clip", (-0.5, 0.75)),
    ("HardSigmoid", (0.3, 0.4)),
)
SEEDS = 12


def drawn(op_type: str, seed: int) -> tuple[list[np.ndarray], dict[str, object]]:
    """Inputs and attributes of a node."""
    random = np.random.default_rng(seed)

    def real(*shape: int) -> np.ndarray:
        return random.normal(0, 1, shape).astype(np.float32)

    flags = [int(flag) for flag in random.integers(0, 2, 4)]
    activation, parameters = ACTIVATIONS[seed % len(ACTIVATIONS)]
    if op_type == "FusedConv":
        inputs = [real(1, 2, 4, 4), real(3, 2, 2, 2), real(3), real(1, 3, 3, 3)][: 2 + flags[0] + flags[1] * flags[0]]
        return inputs, {"activation": activation, "activation_params": parameters, "strides": (1, 1)}
    if op_type == "FusedGemm":
        a, b = real(*((3, 2) if flags[0] else (2, 3))), real(*((4, 3) if flags[1] else (3, 4)))
        named = zip(("activation_alpha", "activation_beta"), parameters, strict=False)
        attributes = {"transA": flags[0], "transB": flags[1], "alpha": 0.5, "beta": 2.0, "activation": activation}
        return [a, b, real(4)][: 2 + flags[2]], {**attributes, **dict(named)}
    if op_type == "FusedMatMul":
        names = ("transA", "transB", "transBatchA", "transBatchB")
        shapes = [(3, 3, 3), (3, 3, 3)] if seed % 2 else [(3, 3), (3, 3)]
        return [real(*shape) for shape in shapes], {
            **dict(zip(names, flags, strict=True)),
            "alpha": (1.0, -0.5)[seed % 2],
        }
    if op_type == "BiasGelu":
        return [real(2, 3), real(3)], {}
    if op_type == "QuickGelu":
        return [real(2, 3)], {"alpha": 1.5} if flags[0] else {}
    return [real(2, 3), real(3)][: 1 + flags[0] * (op_type == "FastGelu")], {}


@pytest.mark.parametrize("op_type", FORMS)
def test_the_parts_compute_what_the_whole_does(op_type: str) -> None:
    for seed in range(SEEDS):
        inputs, attributes = drawn(op_type, seed)
        names = tuple(f"x{k}" for k in range(len(inputs)))
        node = Node("it", op_type, DOMAIN, 1, names, ("y",), attributes, "graph.node[0]")
        (whole,) = compute(node, inputs)
        given = tuple(Value(name, name_of_dtype(of.dtype), of.shape) for name, of in zip(names, inputs, strict=True))
        values = {value.name: value for value in given}
        graph = Graph("g", (node,), given, (Value("y", "float", whole.shape),), {}, values)
        apart = decompose_fused_operators(Model("m", graph, {"": 17, DOMAIN: 1}, 8))
        assert not any(part.domain for part in apart.graph.nodes)
        products = [part for part in apart.graph.nodes if facts_of(part).macs is not None]
        assert [part.name for part in products] == ["it"] * (facts_of(node).macs is not None)
        computed = reference.run(apart, dict(zip(names, inputs, strict=True)))["y"]
        np.testing.assert_allclose(computed, whole, rtol=1e-5, atol=1e-6)


def test_what_has_no_counterpart_stays() -> None:
    node = Node("it", "FusedGemm", DOMAIN, 1, ("a", "b"), ("y",), {"activation": "Softsign"})
    graph = Graph("g", (node,), (), (Value("y", "float", (2, 2)),), {}, {})
    assert decompose_fused_operators(Model("m", graph, {"": 17}, 8)).graph.nodes == (node,)


def fused_network(folder: Path, batch: int = 1) -> Path:
    """A model whose every product is a fused one."""
    random = np.random.default_rng(7)
    shapes = {"k": (4, 2, 3, 3), "d": (4, 1, 3, 3), "g": (16, 5), "m": (6, 5), "bias": (6,), "e": (6, 3)}
    weights = {name: random.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}

    def node(op_type: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
        domain = "" if op_type == "Flatten" else DOMAIN
        return helper.make_node(op_type, inputs, [output], f"the_{output}", domain=domain, **attributes)

    nodes = [
        node("FusedConv", ["x", "k"], "a", activation="Relu"),
        node("FusedConv", ["a", "d"], "b", activation="LeakyRelu", activation_params=[0.125], group=4),
        node("Flatten", ["b"], "f"),
        node("FusedGemm", ["f", "g"], "c", activation="Sigmoid"),
        node("FusedMatMul", ["c", "m"], "h", transB=1, alpha=-0.5),
        node("BiasGelu", ["h", "bias"], "i"),
        node("FusedGemm", ["i", "e"], "y", alpha=2.0),
    ]
    graph = helper.make_graph(
        nodes,
        "fused",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 2, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "fused.onnx")
    return folder / "fused.onnx"


def test_a_fused_network_becomes_hardware(tmp_path: Path) -> None:
    path = fused_network(tmp_path)
    frames = {"x": np.random.default_rng(8).uniform(-1, 1, (16, 1, 2, 6, 6)).astype(np.float32)}
    network = flow.quantize(flow.read(path), frames)
    assert macs_in_hardware(network) == 1.0
    counts = {"a": 16 * 4 * 18, "b": 4 * 4 * 9, "c": 16 * 5, "h": 5 * 6, "y": 6 * 3}
    assert network.macs == {f"the_{name}": count for name, count in counts.items()}
    found = build(BuildOptions(model=path, out=tmp_path / "out", stop_after=Stage.QUANTIZE)).report.reference
    assert found is not None and found.frames and found.equal + found.one_step == found.values_compared


def test_a_batch_of_fused_operators_is_frames(tmp_path: Path) -> None:
    frames = {"x": np.random.default_rng(9).uniform(-1, 1, (4, 3, 2, 6, 6)).astype(np.float32)}
    network = flow.quantize(flow.read(fused_network(tmp_path, 3)), frames)
    assert [boundary.onnx_shape for boundary in network.inputs] == [(1, 2, 6, 6)]
    assert macs_in_hardware(network) == 1.0


def test_nothing_is_taken_apart_of_other_operators() -> None:
    node = Node("it", "FusedGemm", "", 1, ("a", "b"), ("y",))
    graph = Graph("g", (node,), (), (), {}, {})
    model = Model("m", graph, {"": 17}, 8)
    assert decompose_fused_operators(model) == replace(model, graph=graph)
