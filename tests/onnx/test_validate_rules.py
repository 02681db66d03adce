"""One small file per rule of the specification: what must be refused is refused by name, its neighbour accepted."""

from __future__ import annotations

import numpy as np
import pytest

from onnx import AttributeProto, helper
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.load.read import read
from onnx_hw.onnx.parse.protobuf_schema import ModelProto
from support.onnx_files import (
    TensorProto,
    branch,
    checked,
    codes,
    conditional,
    make_graph,
    make_node,
    model,
    relu,
    tensor,
    value,
    warned,
    write,
)


def with_node(**changes):
    """The Relu model with its node changed: fields of NodeProto by name."""
    result = relu()
    node = result.graph.node[0]
    for name, content in changes.items():
        if isinstance(content, str):
            setattr(node, name, content)
        else:
            del getattr(node, name)[:]
            getattr(node, name).extend(content)
    return result


def with_attribute(name="alpha", op_type="LeakyRelu", **fields):
    """A LeakyRelu with an attribute written field by field."""
    result = with_node(op_type=op_type)
    attribute = result.graph.node[0].attribute.add()
    if name:
        attribute.name = name
    for key, content in fields.items():
        if isinstance(content, list):
            getattr(attribute, key).extend(content)
        else:
            setattr(attribute, key, content)
    return result


def ir(version: int, **more):
    return relu(ir=version, **more)


def dropped(what: str):
    result = relu()
    result.ClearField(what)
    return result


def loop(body_inputs, body_outputs, node_outputs=("y",), **more):
    """A Loop of three rounds that carries x."""
    nodes = [make_node("Identity", ["cond"], ["go"]), make_node("Identity", ["v"], ["w"])]
    body = make_graph(nodes, "body", body_inputs, body_outputs)
    node = make_node("Loop", ["trips", "", "x"], list(node_outputs), body=body)
    return model([node], constants=[tensor("trips", TensorProto.INT64, (), [3])], **more)


ITERATION = [value("i", (), TensorProto.INT64), value("cond", (), TensorProto.BOOL), value("v")]
RESULTS = [value("go", (), TensorProto.BOOL), value("w")]

REFUSED = {
    "ir version missing": (dropped("ir_version"), "ir-version-missing"),
    "ir version 15": (ir(15), "ir-version"),
    "no graph": (dropped("graph"), "graph-missing"),
    "no opset": (relu(opset={}), "domain-not-imported"),
    "opset of the future": (relu(opset=1000), "opset-unknown"),
    "two opsets, two spellings": (relu(opset={"": 13, "ai.onnx": 14}), "opset-repeated"),
    "operator too new": (with_node(op_type="Mish"), "operator-too-new"),
    "operator withdrawn": (with_node(op_type="Upsample", input=["x", "x"]), "operator-withdrawn"),
    "operator unknown": (with_node(op_type="Relo"), "operator-unknown"),
    "operator unnamed": (with_node(op_type=""), "operator-name"),
    "domain not imported": (with_node(domain="org.example"), "domain-not-imported"),
    "no node output": (with_node(output=[]), "no-outputs"),
    "empty variadic entry": (
        model([make_node("Concat", ["x", "", "x"], ["y"], axis=0)], outputs=[value("y", (6,))]),
        "input-empty",
    ),
    "output written twice by one node": (
        model([make_node("MaxPool", ["x"], ["y", "y"], kernel_shape=[1])]),
        "defined-twice",
    ),
    "no graph output": (model([make_node("Relu", ["x"], ["y"])], outputs=[]), "no-outputs"),
    "output undefined": (relu(outputs=[value("z")]), "undefined-output"),
    "output element type": (relu(outputs=[value("y", (2,), TensorProto.INT64)]), "declared-type"),
    "output shape": (relu(outputs=[value("y", (3,))]), "declared-shape"),
    "output shape, open": (
        relu(inputs=[value("x", ("N", 2))], outputs=[value("y", ("N", 3))]),
        "declared-shape",
    ),
    "branch outputs counted": (
        model(
            [
                make_node(
                    "If",
                    ["c"],
                    ["y"],
                    then_branch=branch("then", [make_node("Relu", ["x"], ["r"])], [value("r"), value("r")]),
                    else_branch=branch("else", [make_node("Abs", ["x"], ["q"])], [value("q")]),
                )
            ],
            inputs=[value("c", (), TensorProto.BOOL), value("x")],
        ),
        "subgraph-outputs",
    ),
    "branch types": (
        conditional([make_node("Cast", ["x"], ["r"], to=7)], [make_node("Abs", ["x"], ["q"])]),
        "branch-types-differ",
    ),
    "branch order": (
        conditional(
            [make_node("Relu", ["t"], ["r"]), make_node("Abs", ["x"], ["t"])], [make_node("Abs", ["x"], ["q"])]
        ),
        "not-topological",
    ),
    "sibling's value": (
        conditional(
            [make_node("Neg", ["x"], ["t"]), make_node("Relu", ["t"], ["r"])], [make_node("Abs", ["t"], ["q"])]
        ),
        "undefined-value",
    ),
    "captured too early": (
        conditional(
            [make_node("Relu", ["t"], ["r"])],
            [make_node("Abs", ["x"], ["q"])],
            after=[make_node("Neg", ["x"], ["t"])],
        ),
        "not-topological",
    ),
    "cycle through a branch": (
        conditional(
            [make_node("Relu", ["t"], ["r"])],
            [make_node("Abs", ["x"], ["q"])],
            after=[make_node("Neg", ["y"], ["t"])],
        ),
        "cycle",
    ),
    "branch output from outside": (
        conditional([], [make_node("Abs", ["x"], ["q"])], before=[make_node("Neg", ["x"], ["r"])]),
        "output-from-outside",
    ),
    "loop body inputs": (loop(ITERATION[:2], RESULTS), "subgraph-inputs"),
    "loop body outputs": (loop(ITERATION, RESULTS[:1]), "subgraph-outputs"),
    "attribute without type": (with_attribute(f=1.0), "attribute-type"),
    "attribute without name": (with_attribute(name="", f=1.0, type=1), "attribute-name"),
    "attribute with two values": (with_attribute(f=1.0, i=1, type=1), "attribute-two-values"),
    "attribute in the wrong field": (with_attribute(i=1, type=1), "attribute-field"),
    "attribute of the wrong kind": (with_attribute(i=1, type=2), "attribute-kind"),
    "attribute unknown": (with_attribute(name="beta", f=1.0, type=1), "attribute-unknown"),
    "attribute missing": (with_node(op_type="Concat"), "attribute-missing"),
    "tensor attribute without tensor": (
        with_attribute(name="value", op_type="ConstantOfShape", type=AttributeProto.TENSOR),
        "attribute-no-value",
    ),
    "reference in the main graph": (
        with_attribute(ref_attr_name="alpha", type=1),
        "reference-outside-function",
    ),
    "map with float keys": (
        model(
            [make_node("Relu", ["x"], ["y"])],
            inputs=[
                value("x"),
                helper.make_value_info("m", helper.make_map_type_proto(1, helper.make_tensor_type_proto(1, [1]))),
            ],
        ),
        "map-key",
    ),
    "dimension below zero": (relu(inputs=[value("x", (-1,))]), "dimension-negative"),
    "input without shape": (relu(inputs=[value("x", None)]), "input-shape"),
    "output without shape": (relu(outputs=[value("y", None)]), "output-shape"),
    "no common type": (
        model([make_node("Add", ["x", "u"], ["y"])], inputs=[value("x"), value("u", (2,), TensorProto.INT64)]),
        "input-types-differ",
    ),
    "type not allowed": (
        model(
            [make_node("Relu", ["x"], ["y"])],
            inputs=[value("x", (2,), TensorProto.STRING)],
            outputs=[value("y", (2,), TensorProto.STRING)],
        ),
        "input-type",
    ),
}


@pytest.mark.parametrize("title", REFUSED)
def test_refused(tmp_path, title):
    content, code = REFUSED[title]
    report = checked(tmp_path, content)
    assert report.verdict == "refused"
    assert f"validate:{code}" in codes(report)


def test_attribute_of_an_unknown_type(tmp_path):
    content = ModelProto.FromString(with_attribute(f=1.0, type=1).SerializeToString())
    content.graph.node[0].attribute[0].type = 99
    assert "validate:attribute-type" in codes(checked(tmp_path, content))


def test_unnamed_subgraph_output(tmp_path):
    content = conditional([make_node("Relu", ["x"], ["r"])], [make_node("Abs", ["x"], ["q"])])
    content.graph.node[0].attribute[0].g.output[0].name = ""
    assert "validate:value-name" in codes(checked(tmp_path, content))


def test_attribute_given_twice(tmp_path):
    content = with_attribute(f=1.0, type=1)
    content.graph.node[0].attribute.append(content.graph.node[0].attribute[0])
    assert codes(checked(tmp_path, content)) == ["validate:attribute-repeated"]


ACCEPTED = {
    "both spellings of the default domain": relu(opset={"ai.onnx": 13}),
    "no opset before IR 3": relu(ir=2, opset={}),
    "value read by two nodes": model(
        [make_node("Relu", ["x"], ["t"]), make_node("Add", ["t", "t"], ["y"])],
    ),
    "private attribute": with_attribute(name="__note", op_type="Relu", f=1.0, type=1),
    "zero left out by a proto3 writer": with_attribute(type=1),
    "loop": loop(ITERATION, RESULTS),
    "branches without types": conditional([make_node("Relu", ["x"], ["r"])], [make_node("Abs", ["x"], ["q"])]),
    "same inner name in both branches": conditional(
        [make_node("Neg", ["x"], ["t"]), make_node("Relu", ["t"], ["r"])],
        [make_node("Neg", ["x"], ["t"]), make_node("Abs", ["t"], ["q"])],
    ),
    "output shape said more generally": relu(outputs=[value("y", ("any",))]),
    "initializer as output": model(
        [], inputs=[], outputs=[value("w")], constants=[tensor("w", TensorProto.FLOAT, (2,), [1, 2])]
    ),
    "default of an open shape": model(
        [make_node("Relu", ["x"], ["y"])],
        inputs=[value("x", (None, 2))],
        outputs=[value("y", (None, 2))],
        constants=[tensor("x", TensorProto.FLOAT, (1, 2), [1, 2])],
    ),
    "no inputs": model(
        [make_node("Relu", ["w"], ["y"])],
        inputs=[],
        constants=[tensor("w", TensorProto.FLOAT, (2,), [1, -2])],
    ),
}


@pytest.mark.parametrize("title", ACCEPTED)
def test_accepted(tmp_path, title):
    report = checked(tmp_path, ACCEPTED[title])
    assert report.valid, [str(problem) for problem in report.problems]


@pytest.mark.parametrize("version", range(1, 15))
def test_every_ir_version(tmp_path, version):
    content = relu(ir=version, opset={"": 7} if version >= 3 else {})
    report = checked(tmp_path, content)
    assert report.valid, [str(problem) for problem in report.problems]


def test_ir_1_attributes_need_no_type(tmp_path):
    content = with_attribute(f=0.5)
    content.ir_version = 1
    assert checked(tmp_path, content).valid


def test_initializers_must_be_inputs_up_to_ir_3(tmp_path):
    nodes, constants = [make_node("Add", ["x", "w"], ["y"])], [tensor("w", TensorProto.FLOAT, (2,), [1, 2])]
    alone = {"nodes": nodes, "constants": constants}
    listed = {**alone, "inputs": [value("x"), value("w")]}
    assert codes(checked(tmp_path, model(**alone, ir=3))) == ["validate:initializer-not-input"]
    assert checked(tmp_path, model(**alone, ir=4)).valid
    lenient = checked(tmp_path, model(**alone, ir=3), lenient=True)
    assert lenient.valid and "initializer-not-input" in warned(lenient)
    assert reference.run(read(write(tmp_path, model(**alone, ir=3)), lenient=True), {"x": np.float32([3, 4])})[
        "y"
    ].tolist() == [4, 6]
    assert not checked(tmp_path, model(**listed, ir=3)).notes
    assert "frozen" in checked(tmp_path, model(**listed, ir=4)).notes[0]


def test_a_cycle_is_told_from_a_wrong_order(tmp_path):
    backwards = [make_node("Relu", ["b"], ["y"]), make_node("Neg", ["a"], ["b"]), make_node("Abs", ["x"], ["a"])]
    report = checked(tmp_path, model(backwards))
    assert codes(report) == ["validate:not-topological"]
    circle = [make_node("Relu", ["b"], ["y"]), make_node("Add", ["x", "c"], ["b"]), make_node("Neg", ["b"], ["c"])]
    report = checked(tmp_path, model(circle))
    assert codes(report) == ["validate:cycle"]
    assert "2 do" in report.problems[0].message
