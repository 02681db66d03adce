"""Shape inference: dimensions, shapes that a model computes, control flow, and what it says about contradictions.

That inferred types are those of the computed values is tested with all of ONNX's own cases.
"""

from pathlib import Path

import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.load.read import read
from support.fixture_paths import model as real_model
from support.fixture_paths import model_names, needs_models


def node(op_type, inputs, outputs, **attributes):
    return Node("", op_type, "", 17, tuple(inputs), tuple(outputs), attributes, f"graph.node({outputs[0]})")


def graph(nodes, inputs, outputs=("y",), constants=None, values=()):
    constants = {name: np.asarray(array) for name, array in (constants or {}).items()}
    return Graph(
        "graph",
        tuple(nodes),
        tuple(inputs),
        tuple(Value(name, "", None) for name in outputs),
        constants,
        {value.name: value for value in values},
    )


def model(*args, **kwargs):
    return Model("model", graph(*args, **kwargs), {"": 17}, 8)


def inferred(of, dimensions=None):
    return {name: (value.element_type, value.shape) for name, value in infer(of, dimensions).graph.values.items()}


X = Value("x", "float", ("N", 3, "H", "W"))


def test_dimensions_are_bound_by_name_and_the_batch_to_one():
    conv = node("Conv", ["x", "w"], ["y"], strides=(2, 2), pads=(1, 1, 1, 1))
    of = model([conv], [X], constants={"w": np.zeros((8, 3, 3, 3), np.float32)})
    found = infer(of, {"H": 32, "W": 48})
    assert found.graph.inputs[0].shape == (1, 3, 32, 48)
    assert found.graph.values["y"].shape == (1, 8, 16, 24)
    assert found.graph.outputs[0] == Value("y", "float", (1, 8, 16, 24))
    assert found.notes == ("dimension `N` of input `x` is taken as batch and bound to 1",)
    assert infer(of, {"N": 4, "H": 32, "W": 48}).notes == ()


def test_unbound_dimensions_are_refused_with_their_names():
    with pytest.raises(UserError, match=r"--dim W=\.\.\.") as caught:
        infer(model([node("Relu", ["x"], ["y"])], [X]), {"H": 5})
    assert [problem.code for problem in caught.value.problems] == ["dimension-unbound"]


def test_an_unnamed_batch_becomes_one_and_other_unnamed_dimensions_are_refused():
    relu = [node("Relu", ["x"], ["y"])]
    assert inferred(model(relu, [Value("x", "float", (None, 2))]))["y"] == ("float", (1, 2))
    with pytest.raises(UserError, match="every dimension must have a number"):
        infer(model(relu, [Value("x", "float", (1, None))]))


def test_a_name_that_the_model_does_not_have():
    with pytest.raises(UserError, match='it has no "M"'):
        infer(model([node("Relu", ["x"], ["y"])], [X]), {"M": 5})


def test_shapes_that_a_model_computes_are_followed():
    """A flattening as exporters write it: Shape, Gather, Concat, Reshape."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"]),
        node("Unsqueeze", ["batch", "axes"], ["row"]),
        node("Concat", ["row", "rest"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["y"]),
    ]
    constants = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}
    found = inferred(model(nodes, [X], constants=constants), {"H": 4, "W": 5})
    assert found["y"] == ("float", (1, 60))


def test_shapes_that_depend_on_data_stay_unknown_unless_declared():
    nodes = [node("NonZero", ["x"], ["places"]), node("Cast", ["places"], ["y"], to=1)]
    x = Value("x", "float", (2, 2))
    assert set(inferred(model(nodes, [x]))) == {"x"}
    declared = Value("places", "int64", (2, 3))
    assert inferred(model(nodes, [x], values=[declared]))["y"] == ("float", (2, 3))


def test_unknown_operators_are_passed_by():
    nodes = [node("Strange", ["x"], ["z"]), node("Relu", ["z"], ["y"])]
    x = Value("x", "float", (2,))
    assert "y" not in inferred(model(nodes, [x]))
    assert inferred(model(nodes, [x], values=[Value("z", "float", (7,))]))["y"] == ("float", (7,))


def test_contradictions_are_reported_all_at_once():
    nodes = [
        node("MatMul", ["x", "w"], ["product"]),
        node("Neg", ["x"], ["negative"]),
        node("Add", ["x", "integers"], ["y"]),
    ]
    of = model(
        nodes,
        [Value("x", "float", (2, 3))],
        constants={"w": np.zeros((4, 5), np.float32), "integers": np.zeros(3, np.int32)},
        values=[Value("negative", "float", (3, 2))],
    )
    with pytest.raises(UserError) as caught:
        infer(of)
    assert [(problem.code, problem.stage) for problem in caught.value.problems] == [
        ("type-mismatch", "validate"),
        ("type-declared", "validate"),
        ("type-mismatch", "validate"),
    ]
    assert "the last axis of A and the second last of B must be equal, not [2, 3] and [4, 5]" in str(caught.value)
    assert "all inputs must be of one element type, not float and int32" in str(caught.value)


def test_claims_of_huge_shapes_cost_nothing():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Einsum", ["a", "a"], ["b"], equation="ij,kj->ik"),
        node("ReduceMean", ["a"], ["y"], axes=(1,)),
    ]
    found = inferred(model(nodes, [Value("x", "float", (10**9, 10**9))]))
    assert found["y"] == ("float", (10**9, 1))
    assert found["b"] == ("float", (10**9, 10**9))


def branches(condition, first, second):
    make = lambda shape: graph(  # noqa: E731
        [node("Reshape", ["x", "shape"], ["r"])], [], outputs=("r",), constants={"shape": np.array(shape)}
    )
    choice = node("If", ["c"], ["y"], then_branch=make(first), else_branch=make(second))
    constants = {} if condition is None else {"c": np.array(condition)}
    inputs = [Value("x", "float", (6,))] + ([Value("c", "bool", ())] if condition is None else [])
    return inferred(model([choice], inputs, constants=constants))


def test_if_is_typed_by_the_branch_taken_or_by_agreement():
    assert branches(True, (2, 3), (3, 2))["y"] == ("float", (2, 3))
    assert branches(False, (2, 3), (3, 2))["y"] == ("float", (3, 2))
    assert branches(None, (2, 3), (2, 3))["y"] == ("float", (2, 3))
    assert "y" not in branches(None, (2, 3), (3, 2))


def loop(body_nodes, trips=4):
    body = Graph(
        "body",
        tuple(body_nodes),
        (Value("i", "int64", ()), Value("c", "bool", ()), Value("v", "float", None)),
        (Value("c", "bool", ()), Value("v_out", "", None), Value("seen", "", None)),
        {},
    )
    return inferred(
        model(
            [node("Loop", ["n", "", "x"], ["y", "all"], body=body)],
            [Value("x", "float", (2, 3))],
            outputs=("y", "all"),
            constants={"n": np.array(trips)},
        )
    )


def test_loop_keeps_types_that_an_iteration_keeps():
    found = loop([node("Neg", ["v"], ["v_out"]), node("ReduceSum", ["v"], ["seen"])])
    assert found["y"] == ("float", (2, 3))
    assert found["all"] == ("float", (4, 1, 1))


def test_loop_that_grows_its_value_is_not_known():
    found = loop([node("Concat", ["v", "v"], ["v_out"], axis=0), node("Neg", ["v"], ["seen"])])
    assert not {"y", "all"} & set(found)


@needs_models
@pytest.mark.parametrize("name", model_names())
def test_every_value_of_the_real_models_gets_a_type(name):
    found = infer(read(Path(real_model(name)) / "model.onnx")).graph
    names = {name for node in found.nodes for name in node.outputs if name}
    assert names <= set(found.values)
    assert all(isinstance(n, int) for name in names for n in found.values[name].shape)


@pytest.mark.parametrize(
    ("equation", "told"),
    [("ab->abz", "not `z`"), ("ab->a,b", "not `,`"), ("ab->ab->ab", "not `->`"), ("...->...z", "not `z`")],
)
def test_einsum_names_letters_that_no_input_has(equation, told):
    with pytest.raises(UserError) as refused:
        infer(model([node("Einsum", ["x"], ["y"], equation=equation)], [Value("x", "float", (2, 3))]))
    assert f"its result must have letters of its inputs, {told}" in str(refused.value)
