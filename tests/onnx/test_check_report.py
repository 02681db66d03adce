"""What a check says of a file: every fault at once, where it is, in which order, and how strict it was."""

from __future__ import annotations

import numpy as np

from onnx import helper
from onnx_hw.onnx.parse.diagnostics import STAGES
from support.onnx_files import TensorProto, checked, codes, make_node, model, relu, tensor, value, warned


def test_every_independent_fault_at_once(tmp_path):
    content = model(
        [
            make_node("Relo", ["x"], ["a"]),
            make_node("Add", ["ghost"], ["b"]),
            make_node("Concat", ["a", "b"], ["y"]),
        ],
        constants=[tensor("w", TensorProto.FLOAT, (2,), [1, 2]), tensor("w", TensorProto.FLOAT, (2,), [1, 2])],
    )
    content.graph.initializer[0].data_location = TensorProto.EXTERNAL
    assert sorted(codes(checked(tmp_path, content))) == sorted(
        [
            "validate:tensor-two-data",
            "validate:defined-twice",
            "validate:undefined-value",
            "validate:operator-unknown",
            "validate:input-missing",
            "validate:attribute-missing",
        ]
    )


def test_problems_are_sorted_by_stage(tmp_path):
    content = relu(constants=[TensorProto(name="w", dims=[2], data_type=1, data_location=1)])
    content.graph.node[0].op_type = "Relo"
    report = checked(tmp_path, content)
    stages = [STAGES.index(problem.stage) for problem in report.problems]
    assert stages == sorted(stages)
    assert report.stage == "validate"
    assert {problem.stage for problem in report.problems} == {"validate", "external"}


def test_problems_name_the_place_and_the_nearest_name(tmp_path):
    content = model([make_node("Relu", ["x"], ["t"], name="first"), make_node("LeakyRelu", ["tt"], ["y"], alfa=1.0)])
    report = checked(tmp_path, content)
    places = {problem.code: problem for problem in report.problems}
    assert places["undefined-value"].where == 'graph.node[1](LeakyRelu "y")'
    assert places["undefined-value"].hint == 'did you mean "t"?'
    assert places["attribute-unknown"].where == 'graph.node[1](LeakyRelu "y").attribute[alfa]'
    assert places["attribute-unknown"].hint == "did you mean alpha?"


def test_a_name_like_no_other_has_a_hint(tmp_path):
    report = checked(tmp_path, model([make_node("Relu", ["unlike_any_name"], ["y"])]))
    (problem,) = (problem for problem in report.problems if problem.code == "undefined-value")
    assert "output of an earlier node" in problem.hint


def test_a_tensor_of_strings_has_a_hint(tmp_path):
    content = model([make_node("Identity", ["x"], ["y"])])
    for border in (*content.graph.input, *content.graph.output):
        border.type.tensor_type.elem_type = TensorProto.STRING
    hints = [problem.hint for problem in checked(tmp_path, content).problems]
    assert hints
    assert all(hints)


def test_names_cannot_reach_the_terminal_raw(tmp_path):
    report = checked(tmp_path, model([make_node("Relu", ["\x1b[31mred\x9b\n"], ["y"], name="\x1b]0;title\x07")]))
    assert report.problems
    for problem in report.problems:
        assert str(problem).replace("\n", "").isprintable()


def test_strict_and_lenient(tmp_path):
    silent = relu()
    silent.domain = ""
    assert checked(tmp_path, silent).valid
    assert codes(checked(tmp_path, silent, strict=True)) == ["validate:model-domain"]
    backwards = model([make_node("Relu", ["a"], ["y"]), make_node("Relu", ["x"], ["a"])])
    backwards.graph.name = ""
    backwards.graph.output[0].type.tensor_type.ClearField("shape")
    assert set(codes(checked(tmp_path, backwards))) == {
        "validate:not-topological",
        "validate:graph-name",
        "validate:output-shape",
    }
    report = checked(tmp_path, backwards, lenient=True)
    assert report.valid
    assert report.summary["outputs"] == ["y: float[2]"]
    assert {"not-topological", "graph-name", "output-shape"} <= set(warned(report))


def test_newer_versions_can_be_tried(tmp_path):
    assert not checked(tmp_path, relu(ir=15, opset=1000)).valid
    report = checked(tmp_path, relu(ir=15, opset=1000), newer=True)
    assert report.valid
    assert {"ir-version", "opset-unknown"} <= set(warned(report))


def test_warnings(tmp_path):
    content = relu(opset=13, ir=5)
    content.graph.node[0].name = "same"
    content.graph.node.append(make_node("Relu", ["x"], ["second one"], name="same"))
    content.graph.metadata_props.add(key="k")
    content.graph.metadata_props.add(key="k")
    content.graph.doc_string = "fine"
    content.graph.value_info.append(value("nobody"))
    content.graph.quantization_annotation.add(tensor_name="nobody")
    content.graph.node[0].overload = "variant"
    content.functions.append(
        helper.make_function("org.example", "f", ["a"], ["b"], [make_node("Relu", ["a"], ["b"])], [])
    )
    content.functions[0].opset_import.add(version=13)
    assert set(warned(checked(tmp_path, content))) == {
        "node-name-repeated",
        "metadata-repeated",
        "value-info-unknown",
        "annotation-dangling",
        "overload",
        "name-not-identifier",
        "newer-feature",
    }


def test_training_information_is_noted(tmp_path):
    content = relu()
    content.training_info.add()
    report = checked(tmp_path, content)
    assert report.valid
    assert report.notes == ("the model's training information is ignored",)


def test_what_cannot_be_built_is_named_all_at_once(tmp_path):
    content = model(
        [
            make_node("Frobnicate", ["x"], ["a"], domain="org.example"),
            make_node("Relu", ["a"], ["y"]),
            make_node("ParametricSoftplus", ["x"], ["z"]),
            make_node("Dead", ["x"], ["nobody"], domain="org.example"),
        ],
        outputs=[value("y"), value("z")],
        constants=[tensor("w", TensorProto.FLOAT, (2,), [np.nan, 1])],
        opset={"": 13, "org.example": 1},
    )
    report = checked(tmp_path, content)
    assert (report.verdict, report.stage) == ("unsupported", "capability")
    assert codes(report) == ["capability:constant-not-finite", *["capability:operator-unsupported"] * 2]
    assert "Frobnicate" in report.problems[1].message
    assert [problem.code for problem in report.warnings if "Dead" in problem.message] == ["operator-unsupported"]


def test_huge_claims_cost_nothing(tmp_path):
    content = relu(inputs=[value("x", (1 << 31, 1 << 31))], outputs=[value("y", (1 << 31, 1 << 31))])
    report = checked(tmp_path, content)
    assert report.valid
    assert set(codes(report)) == {"capability:tensor-too-large"}


def test_a_default_binds_its_dimensions(tmp_path):
    content = model(
        [make_node("Add", ["x", "w"], ["y"])],
        inputs=[value("x", ("N", 2)), value("w", ("N", 2))],
        outputs=[value("y", ("N", 2))],
        constants=[tensor("w", TensorProto.FLOAT, (3, 2), [1] * 6)],
    )
    report = checked(tmp_path, content)
    assert report.summary["inputs"] == ["x: float[3,2]"]
    assert "dimensions are bound by defaults of inputs: N = 3" in report.notes
    content.graph.initializer.append(tensor("u", TensorProto.FLOAT, (1,), [1]))
    content.graph.input.append(value("u", ("N",)))
    report = checked(tmp_path, content)
    assert report.valid and warned(report) == ["dimension-contradicts"]
    assert report.summary["inputs"] == ["x: float[N,2]"]


def test_a_constant_is_what_its_data_is(tmp_path):
    content = model(
        [make_node("Constant", [], ["w"], value_floats=[1.0, 2.0]), make_node("Add", ["x", "w"], ["y"])],
        values=[value("w", (3,))],
    )
    assert codes(checked(tmp_path, content)) == ["validate:declared-type"]
