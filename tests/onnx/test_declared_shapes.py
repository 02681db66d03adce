"""What files declare of shapes: promises that must hold, and descriptions that converters get wrong."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx.shape_inference import infer_shapes

from onnx import helper
from onnx_hw import flow
from onnx_hw.onnx.evaluate import reference
from onnx_hw.runtime.options import ReadOptions
from support.onnx_files import TensorProto, checked, codes, make_graph, make_node, model, tensor, value, warned, write


def pooling(random: np.random.Generator, *, batch: int | str = 1):
    """(a pooling with ``ceil_mode`` and what follows, shapes as onnx infers them; shape of ``x``)."""
    size = random.integers(4, 12, 2).tolist()
    kernel, stride = random.integers(2, 4, 2).tolist(), random.integers(1, 4, 2).tolist()
    pads = [int(random.integers(0, k)) for k in kernel * 2]
    kind = ("MaxPool", "AveragePool", "LpPool")[int(random.integers(3))]
    nodes = [
        make_node(kind, ["x"], ["pooled"], "pool", kernel_shape=kernel, strides=stride, pads=pads, ceil_mode=1),
        make_node("Relu", ["pooled"], ["t"]),
        make_node("Transpose", ["t"], ["y"], perm=[0, 2, 3, 1]),
    ]
    opset = int(random.integers(18, 22)) if kind == "LpPool" else int(random.integers(11, 22))
    content = model(nodes, inputs=[value("x", (batch, 2, *size))], outputs=[value("y", [None] * 4)], opset=opset)
    if random.random() < 0.5:
        del content.graph.output[0].type.tensor_type.shape.dim[:]
        content.graph.output[0].type.tensor_type.ClearField("shape")
    return infer_shapes(content), (1, 2, *size)


@pytest.mark.parametrize("batch", [1, "N"])
def test_windows_that_shape_inference_counts_and_nobody_computes(tmp_path, batch):
    random = np.random.default_rng(3)
    wrong = 0
    for _ in range(40):
        content, shape = pooling(random, batch=batch)
        x = random.normal(size=shape).astype(np.float32)
        path = write(tmp_path, content)
        read = flow.read(path)
        found = reference.run(read, {"x": x})["y"]
        (y,) = read.graph.outputs
        assert y.shape == found.shape
        if content.graph.node[0].op_type != "LpPool":  # which onnxruntime pools by rules of its own
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1  # others would spin on the cores of other tests
            options.log_severity_level = 3  # it warns of the shapes, too
            (wanted,) = onnxruntime.InferenceSession(str(path), options).run(None, {"x": x})
            assert found.shape == wanted.shape
        declared = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in content.graph.value_info}
        differs = declared["t"][2:] != [found.shape[1], found.shape[2]]
        report = checked(tmp_path, content)
        assert report.valid and differs == ("declared-shape" in warned(report))
        assert checked(tmp_path, content, strict=True).valid == (not report.warnings)
        wrong += differs
    assert 4 < wrong < 36


def test_other_untrue_shapes_are_refused(tmp_path):
    """Beside such a pooling, and behind one that leaves nothing out."""
    random = np.random.default_rng(4)
    for _ in range(10):
        content, _ = pooling(random)
        content.graph.node.add().CopyFrom(make_node("Relu", ["x"], ["beside"]))
        content.graph.value_info.append(value("beside", (1, 2, 3, 3)))
        assert codes(checked(tmp_path, content)) == ["validate:declared-shape"]
    node = make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    content = model([node], inputs=[value("x", (1, 1, 5, 5))], outputs=[value("y", (1, 1, 4, 3))])
    assert codes(checked(tmp_path, content)) == ["validate:declared-shape"]


NAMED = ("Conv117_dim_0", "N")  # a name of nothing else, and the name of the batch


@pytest.mark.parametrize("name", NAMED)
def test_a_name_within_the_graph_is_no_promise(tmp_path, name):
    """One name for two lengths in ``value_info``, as exporters write it."""
    nodes = [
        make_node("Flatten", ["x"], ["flat"], axis=0),
        make_node("Transpose", ["flat"], ["turned"], perm=[1, 0]),
        make_node("Relu", ["turned"], ["y"]),
    ]
    described = [value("flat", (name, name)), value("turned", (name, 1))]
    content = model(
        nodes,
        inputs=[value("x", ("N", 4)), value("other", ("N", 2))],
        outputs=[value("y", (None, 1))],
        values=described,
    )
    report = checked(tmp_path, content)
    assert report.valid and not checked(tmp_path, content, dimensions={"N": 2}).problems
    if name != "N":
        content.graph.input[0].CopyFrom(value("x", (8, 4)))
        report = checked(tmp_path, content)
        assert report.valid and warned(report) == ["dimension-contradicts"]
        assert not checked(tmp_path, content, strict=True).valid
    read = flow.read(write(tmp_path, content), ReadOptions(dimensions={"N": 2}))
    (y,) = read.graph.outputs
    assert y.shape == ((8, 1) if name == "N" else (32, 1))


def test_a_name_of_two_lengths_is_a_warning(tmp_path):
    """Exporters give one name to two dimensions of outputs; the shapes are those of the computation."""
    nodes = [make_node("Relu", ["x"], ["y"]), make_node("Relu", ["u"], ["t"]), make_node("Relu", ["t"], ["v"])]
    inputs, outputs = [value("x"), value("u", (3,))], [value("y", ("M",)), value("v", ("M",))]
    content = model(nodes, inputs=inputs, outputs=outputs)
    report = checked(tmp_path, content)
    assert report.valid and warned(report) == ["dimension-contradicts"] and "2" in report.warnings[0].message
    assert codes(checked(tmp_path, content, strict=True)) == ["validate:dimension-contradicts"]
    read = flow.read(write(tmp_path, content))
    assert [v.shape for v in read.graph.outputs] == [(2,), (3,)]
    described = model(nodes, inputs=inputs, outputs=[value("y", ("M",)), value("v")], values=[value("t", ("M",))])
    described.graph.output[1].CopyFrom(value("v", (3,)))
    assert warned(checked(tmp_path, described)) == ["dimension-contradicts"]


def test_the_name_of_an_input_at_another_length(tmp_path):
    """The batch's name, given to another dimension of an output or of a branch: binding it must not bind these."""
    branch = make_graph([make_node("Flatten", ["x"], ["b"], axis=0)], "branch", [], [value("b", ("N", "N"))])
    nodes = [
        make_node("If", ["c"], ["flat"], then_branch=branch, else_branch=branch),
        make_node("Transpose", ["flat"], ["turned"], perm=[1, 0]),
        make_node("Relu", ["turned"], ["y"]),
    ]
    content = model(
        nodes,
        inputs=[value("x", ("N", 4))],
        outputs=[value("y", ("N", 1)), value("flat", (1, "N"))],
        constants=[tensor("c", TensorProto.BOOL, (), [True])],
    )
    report = checked(tmp_path, content)
    assert report.valid and warned(report) == ["dimension-contradicts"]
    read = flow.read(write(tmp_path, content), ReadOptions(dimensions={"N": 2}))
    assert [v.shape for v in read.graph.inputs] == [(2, 4)]
    assert [v.shape for v in read.graph.outputs] == [(8, 1), (1, 8)]


def test_exporters_of_classical_models_state_the_shape_of_one_target(tmp_path):
    """ONNX has no shape inference for ai.onnx.ml: a wrong length is a warning, and the true one counts."""
    node = helper.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * 6, targets=3)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    assert flow.read(path).frame.model.graph.outputs[0].shape == (1, 3)
