"""Values at the edge of what ONNX allows: scalars, tensors without elements, NaN, indices, no inputs, many axes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.commands.check import check_hardware
from onnx_hw.ir import golden
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.is_quantized import is_quantized
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model
from onnx_hw.quantization.post_training import quantize_float_model
from onnx_hw.runtime.options import BuildOptions
from support.onnx_oracle import random_frames
from support.qdq_models import Sketch

GENERATOR = np.random.default_rng(3)
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))


def loaded(
    tmp_path: Path,
    sketch: Sketch,
    output: str,
    inputs: dict[str, list[int]],
    element: int = TensorProto.FLOAT,
) -> Model:
    graph = helper.make_graph(
        sketch.nodes,
        "odd",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(output, element, None)],
        sketch.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", sketch.opset)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), tmp_path / "m.onnx")
    return flow.read(tmp_path / "m.onnx")


def assert_golden_is_the_reference(model: Model) -> None:
    """Scales are powers of two: both compute the same numbers; those of a float model are the quantized model's."""
    frames = random_frames(model)
    if not is_quantized(model):
        model = quantize_float_model(model, frames)
    found = golden.run(import_model(model), frames)
    for k in range(3):
        wanted = reference.run(model, {name: np.asarray(array[k]) for name, array in frames.items()})
        for name, array in wanted.items():
            assert found[name][k].shape == array.shape and found[name].dtype == array.dtype
            span = float(np.ptp(array.astype(np.float64)))
            assert np.abs(found[name][k].astype(np.float64) - array).max(initial=0) <= 0.06 * span, name


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3,), (1, 3)])
def test_a_bias_of_any_shape(tmp_path: Path, stored: bool, shape: tuple[int, ...]) -> None:
    """Of a Gemm, float or quantized itself."""
    sketch = Sketch()
    bias = GENERATOR.integers(-99, 100, shape).astype(np.int32)
    if stored:
        name = sketch.dequantized(bias, np.float32(2**-7))
    else:
        name = sketch.constant((bias / 128).astype(np.float32))
    weights = sketch.dequantized(GENERATOR.integers(-9, 10, (4, 3)).astype(np.int8), np.float32(2**-3))
    y = sketch.node("Gemm", sketch.through_integers("x", 2**-4, 5), weights, name, beta=0.5)
    y = sketch.through_integers(y, 2**-2, 0)
    assert_golden_is_the_reference(loaded(tmp_path, sketch, y, {"x": [1, 4]}))


@pytest.mark.parametrize("operator", ["Add", "Mul", "Sub", "Max"])
def test_scalars_beside_data(tmp_path: Path, operator: str) -> None:
    """A constant, quantized or not, and a graph input without axes."""
    sketch = Sketch()
    weights = sketch.dequantized(GENERATOR.integers(-9, 10, (2, 2, 1, 1)).astype(np.int8), np.float32(2**-3))
    y = sketch.node("Conv", sketch.through_integers("x", 2**-4, 5), weights)
    y = sketch.node(operator, y, sketch.dequantized(np.array(3, np.int8), np.float32(2**-2)))
    y = sketch.through_integers(sketch.node(operator, y, sketch.constant(np.float32(0.5))), 2**-3, 2)
    y = sketch.node(operator, y, sketch.through_integers("s", 2**-4, -1))
    y = sketch.through_integers(y, 2**-3, 2)
    assert_golden_is_the_reference(loaded(tmp_path, sketch, y, {"x": [1, 2, 3, 3], "s": []}))


@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize("empty", ["Slice", "Split", "Expand", "Gather"])
def test_parts_without_elements(tmp_path: Path, quantized: bool, empty: str) -> None:
    """Cut off and joined again, as exporters of general slicing write it."""
    sketch = Sketch(opset=13)
    x, w = "x", GENERATOR.integers(-9, 10, (2, 2, 1, 1)).astype(np.int8)
    if quantized:
        x = sketch.through_integers("x", 2**-4, 5)
        weights = sketch.dequantized(w, np.float32(2**-3))
    else:
        weights = sketch.constant((w / 8).astype(np.float32))
    y = sketch.node("Conv", x, weights)
    y = sketch.through_integers(y, 2**-2, 1) if quantized else y
    if empty == "Split":
        parts = [f"part{k}" for k in range(3)]
        sizes = sketch.constant(np.array([1, 0, 1]))
        sketch.nodes.append(helper.make_node("Split", [y, sizes], parts, "the_split", axis=1))
    elif empty == "Slice":
        at = [sketch.constant(np.array([k])) for k in (2, 2, 1)]
        parts = [sketch.node("Slice", y, *at), y]
    elif empty == "Gather":
        parts = [y, sketch.node("Gather", y, sketch.constant(np.zeros(0, np.int64)), axis=1)]
    else:
        one = sketch.node("Slice", y, *(sketch.constant(np.array([k])) for k in (0, 1, 1)))
        parts = [y, sketch.node("Expand", one, sketch.constant(np.array([1, 0, 3, 3])))]
    y = sketch.node("Concat", *parts, axis=1)
    y = sketch.through_integers(y, 2**-2, 1) if quantized else sketch.node("Conv", y, weights)
    model = loaded(tmp_path, sketch, y, {"x": [1, 2, 3, 3]})
    assert_golden_is_the_reference(model)
    assert check_hardware(BuildOptions(model=tmp_path / "m.onnx")) is None


ATTRIBUTES = {
    "Gemm": ("alpha", "beta"), "Elu": ("alpha",), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
    "BatchNormalization": ("epsilon",), "Celu": ("alpha",), "Selu": ("alpha", "gamma"), "ThresholdedRelu": ("alpha",),
    "Shrink": ("lambd", "bias"), "Pad": ("value",), "Clip": ("min", "max"),
}  # fmt: skip
OLD = {"Pad": 10, "Clip": 10}


CASES = [(o, a, quantized) for o, names in ATTRIBUTES.items() for a in names for quantized in (True, False)]


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize(("operator", "attribute", "quantized"), CASES)
def test_attributes_that_are_no_numbers(
    tmp_path: Path, operator: str, attribute: str, quantized: bool, number: float
) -> None:
    """Refused in words, or computed as the reference computes them."""
    sketch = Sketch(opset=OLD.get(operator, 13))
    x = sketch.through_integers("x", 2**-4, 5) if quantized else "x"

    def matrix(size: int) -> str:
        if not quantized:
            return sketch.constant(np.eye(size, dtype=np.float32))
        return sketch.node(
            "DequantizeLinear", sketch.constant(np.eye(size, dtype=np.int8)), sketch.constant(np.float32(0.5))
        )

    if operator == "Gemm":
        bias = [sketch.constant(np.ones(4, np.float32))] if attribute == "beta" and number > 0 else []
        y = sketch.node("Gemm", x, matrix(4), *bias, **{attribute: number})
    elif operator == "BatchNormalization":
        numbers = [sketch.constant(np.ones(4, np.float32)) for _ in range(4)]
        y = sketch.node(operator, x, *numbers, epsilon=number)
    else:
        others = {"pads": [0, 1, 0, 1]} if operator == "Pad" else {}
        y = sketch.node(operator, x, **{attribute: number}, **others)
    if quantized:
        y = sketch.through_integers(y, 2**-3, 2)
    y = sketch.node("MatMul", y, matrix(6 if operator == "Pad" else 4))
    y = sketch.through_integers(y, 2**-3, 2) if quantized else y
    model = loaded(tmp_path, sketch, y, {"x": [1, 4]})
    check_hardware(BuildOptions(model=tmp_path / "m.onnx"))
    with suppress(UserError):
        assert_golden_is_the_reference(model)


@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMax", "Cast", "Mul"])
def test_what_is_computed_from_indices(tmp_path: Path, operator: str) -> None:
    """They are integers, which stay as they are: on the host."""
    sketch = Sketch(opset=13)
    weights = sketch.constant(GENERATOR.normal(0, 1, (2, 2, 1, 1)).astype(np.float32))
    y = sketch.node("ArgMax", sketch.node("Conv", "x", weights), axis=1)
    if operator == "ReduceSum":
        y = sketch.node(operator, y, sketch.constant(np.array([1])), keepdims=0)
    else:
        more = {"Mul": [y]}.get(operator, [])
        y = sketch.node(operator, y, *more, **({"to": TensorProto.INT32} if operator == "Cast" else {}))
    element = TensorProto.INT32 if operator == "Cast" else TensorProto.INT64
    model = loaded(tmp_path, sketch, y, {"x": [1, 2, 3, 3]}, element)
    assert_golden_is_the_reference(model)
    assert check_hardware(BuildOptions(model=tmp_path / "m.onnx")) is None


def test_a_model_without_inputs_is_constant(tmp_path: Path) -> None:
    sketch = Sketch()
    one, two = (sketch.constant(np.ones(shape, np.float32)) for shape in ((1, 4), (4, 4)))
    y = sketch.node("MatMul", one, two)
    model = loaded(tmp_path, sketch, y, {})
    with pytest.raises(UserError, match="must have an input"):
        flow.quantize(model, {})
    assert "must have an input" in str(check_hardware(BuildOptions(model=tmp_path / "m.onnx")))


@pytest.mark.parametrize("axes", [63, 64])
def test_more_axes_than_samples_can_have(tmp_path: Path, axes: int) -> None:
    sketch = Sketch()
    row = sketch.node("Reshape", "x", sketch.constant(np.array([1, 4])))
    y = sketch.node("MatMul", row, sketch.constant(np.eye(4, dtype=np.float32)))
    loaded(tmp_path, sketch, y, {"x": [*(1,) * (axes - 1), 4]})
    found = check_hardware(BuildOptions(model=tmp_path / "m.onnx"))
    assert found is None if axes < 64 else "at most 63 axes, not 64" in str(found)


@pytest.mark.parametrize("product", ["MatMul", "ReduceSum", "Conv"])
def test_what_has_no_known_shape_is_told(tmp_path: Path, product: str) -> None:
    """A product cannot stay on the host (one of two tensors is refused as such); a sum can."""
    sketch = Sketch(opset=13)
    weights = sketch.constant(GENERATOR.normal(0, 1, (2, 2, 1, 1)).astype(np.float32))
    y = sketch.node("Conv", "x", weights)
    places = sketch.node("Transpose", sketch.node("NonZero", sketch.node("Abs", "x")))
    some = sketch.node("GatherND", y, places)  # as many as the model finds when it runs
    if product == "ReduceSum":
        y = sketch.node(product, some, keepdims=0)
    elif product == "MatMul":
        y = sketch.node(product, some, some)
    else:
        image = sketch.node("Reshape", some, sketch.constant(np.array([1, 2, -1, 1])))
        y = sketch.node(product, image, weights)
    loaded(tmp_path, sketch, y, {"x": [1, 2, 3, 3]})
    found = check_hardware(BuildOptions(model=tmp_path / "m.onnx"))
    if product == "ReduceSum":
        assert found is None
    else:
        assert found is not None and ("the shape of" in str(found)) == (product == "Conv"), found
