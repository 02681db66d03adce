"""A cut makes tensors the outputs: they are what the whole model computes there, and nothing else is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_function, make_node, make_opsetid

import onnx
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.load.cut_model import cut_model, spelled_cut
from onnx_hw.onnx.load.read import read
from onnx_hw.runtime.options import ReadOptions
from onnx_hw.samples.frames import WITHOUT_CLASSES, input_data
from support import onnx_files as files
from support.fixture_paths import EXAMPLES
from support.onnx_oracle import assert_circuit_agrees, random_frames, write
from support.random_float_models import FloatDrawing
from support.random_partitioned_models import Cut
from support.tiny_float_model import IMAGES, tiny_float_model


def trace(model: Model, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    values: dict[str, np.ndarray] = {}
    reference.run(model, feeds, outputs=[name for node in model.graph.nodes for name in node.outputs if name],
                  observe=values.__setitem__)  # fmt: skip
    return values


def assert_equal_everywhere(path: Path, feeds: dict[str, np.ndarray] | None = None) -> None:
    """Cut a model at each of its tensors alone, and at two at once."""
    whole = flow.read(path)
    feeds = feeds or {name: array[0] for name, array in random_frames(whole, 1).items()}
    wanted = trace(whole, feeds)
    made = [name for node in whole.graph.nodes for name in node.outputs if name]
    assert set(made) <= set(wanted)
    for cut in [*([name] for name in made), [made[-1], made[0]]]:
        part = flow.read(path, ReadOptions(cut_at=tuple(cut)))
        assert [value.name for value in part.graph.outputs] == cut
        found = reference.run(part, {value.name: feeds[value.name] for value in part.graph.inputs})
        for value in part.graph.outputs:
            np.testing.assert_array_equal(found[value.name], wanted[value.name])
            assert value.shape == wanted[value.name].shape and value.element_type
        read_names = set(cut).union(*map(names_read, part.graph.nodes))
        assert all(read_names.intersection(node.outputs) for node in part.graph.nodes)
        assert {value.name for value in part.graph.inputs} <= read_names and set(part.graph.constants) <= read_names


@pytest.mark.parametrize("seed", range(3))
def test_a_cut_float_model_computes_the_tensors_of_the_whole(tmp_path: Path, seed: int) -> None:
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(3)
    assert_equal_everywhere(write(drawing.sketch, tmp_path / "m.onnx", inputs, *outputs))


def test_a_cut_quantized_model_computes_the_tensors_of_the_whole() -> None:
    assert_equal_everywhere(EXAMPLES / "digits" / "digits.onnx")


def test_a_cut_model_with_branches_and_a_head_computes_the_tensors_of_the_whole(tmp_path: Path) -> None:
    drawing = Cut(1)
    path = files.write(tmp_path, drawing.model())
    assert_equal_everywhere(path, {name: array[0] for name, array in drawing.frames(1).items()})


def test_a_part_goes_through_the_circuit(tmp_path: Path) -> None:
    path = files.write(tmp_path, tiny_float_model())
    model = flow.read(path, ReadOptions(cut_at=("features",)))
    network = flow.quantize(model, {"image": IMAGES})
    assert_circuit_agrees(network, frames=1)
    frame = IMAGES[:1, None]
    wanted = reference.run(model, {"image": frame[0]})["features"]
    np.testing.assert_allclose(golden.run(network, {"image": frame})["features"][0], wanted, atol=0.05)


def test_inputs_that_are_not_needed_are_left_out(tmp_path: Path) -> None:
    nodes = [make_node("Relu", ["a"], ["left"]), make_node("Neg", ["b"], ["right"]),
             make_node("Add", ["left", "right"], ["y"])]  # fmt: skip
    path = files.write(tmp_path, files.model(nodes, inputs=[files.value("a"), files.value("b")]))
    model = read(path, cut_at=["right"])
    assert [value.name for value in model.graph.inputs] == ["b"]
    assert model.notes[-1] == "cut at `right`: 2 of 3 nodes are left out, and the input `a`"
    assert [value.name for value in model.uncut_outputs] == ["y"]
    assert repr(model.graph.outputs[0]) == "right: float[2]"  # which the file does not say
    assert files.checked(tmp_path, files.model(nodes, inputs=[files.value("a"), files.value("b")]),
                         cut_at=["right"]).notes == model.notes  # fmt: skip


def test_names_with_commas(tmp_path: Path) -> None:
    nodes = [make_node("Relu", ["x"], ["a,b"]), make_node("Neg", ["a,b"], ["c"]), make_node("Abs", ["c"], ["y"])]
    model = read(files.write(tmp_path, files.model(nodes)))
    for cut, names in ((["a,b"], ["a,b"]), (["a,b,c"], None), (["c, y", "a,b"], ["c", "y", "a,b"])):
        if names is None:
            assert [code for code, _, _ in refusal(tmp_path / "model.onnx", *cut)] == ["cut-unknown"] * 2
            continue
        outputs = [value.name for value in cut_model(model, cut).graph.outputs]
        assert outputs == names
        again = spelled_cut(outputs)
        assert len(again) == len(cut)
        assert {value.name for value in cut_model(model, again).graph.outputs} == set(names)


def function_model() -> onnx.ModelProto:
    inner = [make_node("Neg", ["v"], ["h"]), make_node("Abs", ["h"], ["w"])]
    function = make_function("our", "Half", ["v"], ["w"], inner, [make_opsetid("", 13)])
    nodes = [make_node("Half", ["x"], ["z"], "call", domain="our"), make_node("Relu", ["z"], ["y"])]
    return files.model(nodes, functions=[function], opset={"": 13, "our": 1})


def refusal(path: Path, *cut: str) -> list[tuple[str, str, str]]:
    with pytest.raises(UserError) as caught:
        read(path, cut_at=cut)
    return [(problem.code, problem.message, problem.hint) for problem in caught.value.problems]


def test_tensors_of_functions_have_the_names_of_messages(tmp_path: Path) -> None:
    path = files.write(tmp_path, function_model())
    assert [node.op_type for node in read(path, cut_at=["call/h"]).graph.nodes] == ["Neg"]
    assert [value.name for value in read(path, cut_at=["z"]).graph.outputs] == ["z"]
    ((_, _, hint),) = refusal(path, "h")
    assert hint == "functions are inlined; there is `call/h`"


def test_what_a_model_is_not_cut_at(tmp_path: Path) -> None:
    path = files.write(tmp_path, tiny_float_model())
    found = refusal(path, "kernel,image,conv,feature,nothing")
    assert [code for code, _, _ in found] == ["cut-constant", "cut-input", *["cut-unknown"] * 3]
    assert [hint for *_, hint in found[2:]] == [
        "its outputs: `sums`",
        "did you mean `features`?",
        "the last tensors are `sums`, `features`, `flat`, `logits`, `probabilities`",
    ]
    branch = files.conditional([make_node("Neg", ["x"], ["r"])], [make_node("Abs", ["x"], ["q"])])
    ((code, message, hint),) = refusal(files.write(tmp_path, branch), "q")
    assert code == "cut-unknown" and "is inside of `choose` (If)" in message and "`y`" in hint
    assert refusal(path, "")[0][0] == "cut-unknown"


def test_labels_are_for_a_part_with_scores(tmp_path: Path) -> None:
    """A part whose output has as many elements as the model has classes is compared with labels, another one is not."""
    path = files.write(tmp_path, tiny_float_model())
    samples = {"image": IMAGES[:2], "labels": np.array([0, 2])}
    for name, kept in (("logits", True), ("features", False)):
        given = input_data(samples, None, flow.read(path, ReadOptions(cut_at=(name,))))
        assert (given.labels is not None) == kept
        assert (WITHOUT_CLASSES in given.notes) != kept
