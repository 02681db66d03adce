"""Constant folding and unrolling: what is left computes the same."""

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate.fold_constants import fold
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.evaluate.reference import run
from onnx_hw.onnx.evaluate.unroll_control_flow import unroll
from onnx_hw.onnx.load.read import read
from support.backend_cases import assert_case, node_cases

FLOAT = TensorProto.FLOAT


def tensor(name, shape, element_type=FLOAT):
    return helper.make_tensor_value_info(name, element_type, shape)


def constants(**arrays):
    return [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]


@pytest.fixture
def load(tmp_path):
    def write_and_read(nodes, inputs, outputs, initializers=(), opset=17):
        graph = helper.make_graph(nodes, "graph", inputs, outputs, list(initializers))
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.save(proto, tmp_path / "model.onnx")
        return read(tmp_path / "model.onnx")

    return write_and_read


def operators_of(model):
    return [node.op_type for node in model.graph.nodes]


def test_a_shape_chain_becomes_a_constant(load):
    """Shape, Gather, Concat, Reshape, as PyTorch exports ``x.view(x.size(0), -1)``."""
    model = load(
        [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
            helper.make_node("Unsqueeze", ["batch", "axes"], ["row"]),
            helper.make_node("Concat", ["row", "rest"], ["wanted"], axis=0),
            helper.make_node("Reshape", ["x", "wanted"], ["y"]),
        ],
        [tensor("x", ["N", 2, 3])],
        [tensor("y", ["N", "M"])],
        constants(zero=np.array(0), axes=np.array([0]), rest=np.array([-1])),
    )
    folded = fold(infer(model))
    assert operators_of(folded) == ["Reshape"]
    assert folded.graph.constants.keys() == {"wanted"}
    assert folded.graph.constants["wanted"].tolist() == [1, -1]
    assert folded.graph.values["y"].shape == (1, 6)
    assert folded.notes == ("dimension `N` of input `x` is taken as batch and bound to 1",)


@pytest.mark.parametrize("op_type", ["Shape", "Size"])
def test_shapes_are_known_behind_nodes_that_are_kept(load, op_type):
    """What is in the values is not: neither for data, nor for a constant that is kept as its integers."""
    model = load(
        [
            helper.make_node("DequantizeLinear", ["x", "scale"], ["data"]),
            helper.make_node("DequantizeLinear", ["w", "scale"], ["weights"]),
            helper.make_node(op_type, ["data"], ["length"]),
            helper.make_node("Cast", ["length"], ["number"], to=FLOAT),
            helper.make_node("Neg", ["weights"], ["negative"]),
            helper.make_node("Mul", ["data", "negative"], ["product"]),
            helper.make_node("Mul", ["product", "number"], ["y"]),
        ],
        [tensor("x", ["N"], TensorProto.INT8)],
        [tensor("y", ["N"])],
        constants(scale=np.float32(0.5), w=np.array([2], np.int8)),
    )
    folded = fold(infer(model), keep=lambda node: node.op_type == "DequantizeLinear")
    assert operators_of(folded) == ["DequantizeLinear", "DequantizeLinear", "Neg", "Mul", "Mul"]
    assert folded.graph.constants["number"].reshape(-1).tolist() == [1]


def test_keep_leaves_nodes_alone(load):
    model = load(
        [
            helper.make_node("DequantizeLinear", ["w", "s"], ["weights"]),
            helper.make_node("Neg", ["weights"], ["negative"]),
            helper.make_node("Mul", ["x", "negative"], ["y"]),
        ],
        [tensor("x", [3])],
        [tensor("y", [3])],
        constants(w=np.array([1, 2, 3], np.int8), s=np.array(0.5, np.float32)),
    )
    assert operators_of(fold(model)) == ["Mul"]
    assert fold(model).graph.constants["negative"].tolist() == [-0.5, -1.0, -1.5]
    kept = fold(model, keep=lambda node: node.op_type == "DequantizeLinear")
    assert operators_of(kept) == ["DequantizeLinear", "Neg", "Mul"]


def test_large_results_of_small_inputs_are_not_folded(load):
    model = load(
        [helper.make_node("Expand", ["one", "shape"], ["large"]), helper.make_node("Add", ["x", "large"], ["y"])],
        [tensor("x", [1000, 1000])],
        [tensor("y", [1000, 1000])],
        constants(one=np.float32(1), shape=np.array([1000, 1000])),
    )
    assert operators_of(fold(model)) == ["Expand", "Add"]


def test_weights_that_are_filled_are_constants(load):
    """Model collections leave out trained weights in this way."""
    model = load(
        [helper.make_node("ConstantOfShape", ["shape"], ["w"]), helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", [1, 1000])],
        [tensor("y", [1, 1000])],
        constants(shape=np.array([1000, 1000])),
    )
    folded = fold(model)
    assert operators_of(folded) == ["MatMul"] and folded.graph.constants["w"].shape == (1000, 1000)


def test_what_only_folded_nodes_read_is_let_go(load):
    """A chain of large constants, as networks that standardize their weights have; together they exceed the limit."""
    chain = [helper.make_node("Neg", ["w" if k == 0 else f"t{k - 1}"], [f"t{k}"]) for k in range(40)]
    model = load(
        [*chain, helper.make_node("MatMul", ["x", "t39"], ["y"])],
        [tensor("x", [1, 2000])],
        [tensor("y", [1, 1000])],
        constants(w=np.ones((2000, 1000), np.float32)),
    )
    folded = fold(model)
    assert operators_of(folded) == ["MatMul"] and set(folded.graph.constants) == {"t39"}


def test_random_numbers_are_not_folded_and_dead_nodes_go(load):
    model = load(
        [
            helper.make_node("RandomUniformLike", ["c"], ["noise"]),
            helper.make_node("Abs", ["x"], ["unused"]),
            helper.make_node("Add", ["x", "noise"], ["y"]),
        ],
        [tensor("x", [2])],
        [tensor("y", [2])],
        constants(c=np.zeros(2, np.float32)),
    )
    assert operators_of(fold(model)) == ["RandomUniformLike", "Add"]


def branch(op_type, output):
    return helper.make_graph([helper.make_node(op_type, ["x"], [output])], output, [], [tensor(output, [2])])


@pytest.mark.parametrize(("condition", "left"), [(True, "Neg"), (False, "Abs")])
def test_if_with_a_known_condition_becomes_its_branch(load, condition, left):
    model = load(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch("Neg", "t"), else_branch=branch("Abs", "e"))],
        [tensor("x", [2])],
        [tensor("y", [2])],
        constants(c=np.array(condition)),
    )
    folded = fold(model)
    assert operators_of(folded) == [left, "Identity"]
    x = np.array([-1, 2], np.float32)
    assert run(folded, {"x": x})["y"].tolist() == run(model, {"x": x})["y"].tolist()


def loop(trips, keep_going):
    """Doubles v and gives every iteration's v; stops by itself once the iteration number is 2 where asked."""
    nodes = [
        helper.make_node("Add", ["v", "v"], ["doubled"]),
        helper.make_node("Identity", ["doubled"], ["seen"]),
        helper.make_node("Less", ["i", "last"], ["go"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [tensor("i", [], TensorProto.INT64), tensor("c", [], TensorProto.BOOL), tensor("v", [2])],
        [tensor("go", [], TensorProto.BOOL), tensor("doubled", [2]), tensor("seen", [2])],
        constants(last=np.array(10**12 if keep_going else 2)),
    )
    return helper.make_node("Loop", [trips, "", "x"], ["y", "all"], body=body)


@pytest.mark.parametrize(("keep_going", "runs"), [(True, 4), (False, 3)])
def test_loop_with_a_known_number_of_iterations_is_unrolled(load, keep_going, runs):
    model = load(
        [loop("n", keep_going)],
        [tensor("x", [2])],
        [tensor("y", [2]), tensor("all", [None, 2])],
        constants(n=np.array(4)),
    )
    folded = fold(model)
    assert operators_of(folded).count("Add") == runs
    assert "Loop" not in operators_of(folded)
    assert folded.graph.values["all"].shape == (runs, 2)
    x = np.array([1, 3], np.float32)
    for name, value in run(model, {"x": x}).items():
        assert run(folded, {"x": x})[name].tolist() == value.tolist()


def test_loop_with_an_unknown_number_of_iterations_stays(load):
    model = load(
        [loop("n", True)],
        [tensor("x", [2]), tensor("n", [], TensorProto.INT64)],
        [tensor("y", [2]), tensor("all", [None, 2])],
    )
    assert operators_of(fold(model)) == ["Loop"]


def test_unrolling_is_bounded(load):
    model = load(
        [loop("n", True)],
        [tensor("x", [2])],
        [tensor("y", [2]), tensor("all", [None, 2])],
        constants(n=np.array(10**9)),
    )
    assert operators_of(unroll(model)) == ["Loop"]


def test_folding_reports_what_cannot_be_computed(load):
    model = load(
        [helper.make_node("Div", ["a", "b"], ["q"]), helper.make_node("Add", ["x", "q"], ["y"])],
        [tensor("x", [1], TensorProto.INT32)],
        [tensor("y", [1], TensorProto.INT32)],
        constants(a=np.array([1], np.int32), b=np.array([0], np.int32)),
    )
    with pytest.raises(UserError, match="must not be divided by zero"):
        fold(model)


def test_folding_changes_no_backend_case(tmp_path):
    """Control flow and expanded cases, which hold constants inside."""
    path = tmp_path / "model.onnx"
    cases = [
        case for case in node_cases() if case.name.startswith(("test_if", "test_loop", "test_layer_normalization"))
    ]
    for case in cases:
        path.write_bytes(case.model.SerializeToString())
        folded = fold(read(path))
        assert_case(folded.graph, *case.data_sets[0], case.rtol, case.atol)  # type: ignore[call-arg]
    assert len(cases) > 40
