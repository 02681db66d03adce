"""What the registry says about nodes that do not fit their operator, and how versions are chosen."""

import subprocess
import sys

import numpy as np
import pytest

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Node, OnnxTensor
from onnx_hw.onnx.operators import lookup, operator_of
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.pooling import AveragePool
from onnx_hw.onnx.operators.registry import earlier, operator
from support.fixture_paths import CHECKOUT


def node(op_type, inputs=("x",), outputs=("y",), domain="", version=17, **attributes):
    return Node("n1", op_type, domain, version, inputs, outputs, attributes, "graph.node[3]")


def says(of, *texts):
    with pytest.raises(UserError) as caught:
        compute(of, [np.zeros((1, 1, 4, 4), np.float32)] * len(of.inputs), None)
    for text in texts:
        assert text in str(caught.value)
    return caught.value.problems


def test_the_newest_function_not_newer_than_the_opset_holds():
    assert lookup("", "Softmax", 12).since == 1
    assert lookup("", "Softmax", 13).since == 13
    assert lookup("", "Softmax", 28).since == 13
    assert lookup("", "Gelu", 19) is None
    assert lookup("no.such.domain", "Softmax", 13) is None


def test_unknown_attribute():
    (problem,) = says(node("Relu", slope=0.5), "Relu (opset 6) has no attribute `slope`")
    assert problem.where == 'graph.node[3](Relu "n1")'
    says(node("LeakyRelu", alhpa=0.5), "did you mean `alpha`?")


def test_all_faults_of_a_node_at_once():
    problems = says(node("MaxPool", inputs=("x", "z"), kernal_shape=(2, 2), ceil_mode=1.0))
    assert [problem.code for problem in problems] == [
        "attribute-unknown",
        "attribute-type",
        "attribute-missing",
        "input-count",
    ]


def test_private_attributes_mean_nothing():
    (y,) = compute(node("Relu", __tool="mine"), [np.array([-1, 2], np.float32)], None)
    assert y.tolist() == [0, 2]


def test_unknown_operator_and_version():
    says(node("Rleu"), "Rleu of the default domain is not", "did you mean `Relu`?")
    says(node("Gelu", version=13), "Gelu of the default domain must be used from opset 20 on, not 13")
    says(node("Relu", domain="my.own"), "Relu of domain `my.own` is not")


def test_values_that_do_not_fit_become_an_error_with_the_place():
    (problem,) = says(node("MaxPool", kernel_shape=(9, 9)), "a window of 9 must fit into 4 + 0 + 0 elements")
    assert "float32[1, 1, 4, 4]" in problem.message


def test_more_outputs_than_the_operator_has():
    says(node("Relu", outputs=("a", "b")), "has 1 outputs, not 2")


def test_tensor_attributes_of_types_that_numpy_lacks():
    value = OnnxTensor("bfloat16", np.array([1.5], np.float32))
    (y,) = compute(node("Constant", inputs=(), version=13, value=value), [], None)
    assert str(y.dtype) == "bfloat16"


def test_one_version_is_registered_once():
    with pytest.raises(ValueError, match="registered twice"):

        @operator(since=13)
        def Softmax(x):
            return x


def test_an_attribute_must_be_annotated_with_its_kind():
    with pytest.raises(TypeError, match="must be annotated with an attribute kind"):

        @operator(since=1, domain="test")
        def Odd(x, *, size: complex = 0j):
            return x


def test_operator_of_a_node():
    assert (
        repr(operator_of(node("QLinearAdd", domain="com.microsoft", version=1))) == "com.microsoft.QLinearAdd (opset 1)"
    )


def test_an_earlier_version_lacks_what_came_later():
    dilated = {"kernel_shape": (2, 2), "dilations": (2, 2)}
    (y,) = compute(node("AveragePool", version=19, **dilated), [np.zeros((1, 1, 4, 4), np.float32)], None)
    assert y.shape == (1, 1, 2, 2)
    says(node("AveragePool", version=11, **dilated), "AveragePool (opset 10) has no attribute `dilations`")
    assert operator_of(node("Gemm", inputs=("a", "b"), version=13)).min_inputs == 2
    says(node("Gemm", inputs=("a", "b"), version=9), "must have 3 to 3 inputs, not 2")


def test_what_never_was_cannot_have_come_later():
    with pytest.raises(ValueError, match="has no dilation"):
        earlier(AveragePool, since=6, without=("dilation",))


def test_every_file_of_operators_is_loaded_without_a_list():
    """An interpreter of its own, for this one has loaded what the tests import."""
    program = "import sys, onnx_hw.onnx.operators; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    files = (CHECKOUT / "onnx_hw" / "onnx" / "operators").glob("*.py")
    assert {f"onnx_hw.onnx.operators.{path.stem}" for path in files if path.stem != "__init__"} <= set(loaded)
