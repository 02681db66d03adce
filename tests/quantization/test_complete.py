"""Values that a model leaves in floats where hardware needs integers: refused, or given a scale from samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.exact.integers import Int
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.evaluate import reference
from onnx_hw.ops.add import Add
from onnx_hw.ops.requantize import Staircase
from onnx_hw.quantization.complete import complete_and_lower
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.stage import Stage
from support.onnx_oracle import by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

SHAPE = [1, 8, 7, 7]


def products(sketch: Sketch, x: str, seed: int, size: int) -> str:
    weights = np.random.default_rng(seed).integers(-127, 128, (8, 8, size, size)).astype(np.int8)
    return sketch.node("Conv", x, sketch.dequantized(weights, [0.0005]))


def written(tmp_path: Path, ending: bool = True) -> Path:
    """Functions of accumulators, which are too many for a table, and of pools, before further products."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    swish = sketch.node("HardSwish", products(sketch, x, 0, 3))
    mean = sketch.node("GlobalAveragePool", swish)
    again = sketch.through_integers(swish, 0.03, -100)  # the model's own integers of the same value
    gate = products(sketch, sketch.through_integers(mean, 0.004, -60), 1, 1)
    y = sketch.node("Mul", again, sketch.node("Sigmoid", gate))
    y = products(sketch, sketch.through_integers(y, 0.02, -60), 2, 1)
    if ending:  # nothing multiplies behind it: it stays on the host, in floats
        y = sketch.node("ReduceMean", sketch.node("HardSwish", y), axes=[1])
    return write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, y)


def test_without_samples_the_refusal_asks_for_them(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="quantize-before") as caught:
        flow.quantize(flow.read(written(tmp_path)))
    assert all("--calibration" in problem.hint for problem in caught.value.problems)


def test_scales_are_chosen_where_they_are_missing(tmp_path: Path) -> None:
    path = written(tmp_path)
    model = flow.read(path)
    frames = random_frames(model, 6)
    network, completed, chosen = complete_and_lower(canonicalize(model), SampleRanges(frames))
    assert len(chosen) == 2
    found, wanted = golden.run(network, frames), by_onnxruntime(path, frames)
    for name, array in wanted.items():
        noise = ((array - found[name]) ** 2).sum() / (array**2).sum()
        assert noise < 0.01
        for k, frame in enumerate(frames["x"]):
            meant = reference.run(completed, {"x": frame})[name]
            assert np.abs(meant - found[name][k]).max() < np.ptp(array) / 100


def test_a_build_says_what_it_chose(tmp_path: Path) -> None:
    path = written(tmp_path)
    np.savez(tmp_path / "x.npz", **random_frames(flow.read(path), 4))
    for given in ({"calibration": tmp_path / "x.npz"}, {"inputs": tmp_path / "x.npz"}):
        progress = Silent()
        build(BuildOptions(model=path, out=tmp_path / "out", stop_after=Stage.QUANTIZE, **given), progress)
        (warning,) = progress.warnings
        assert "conv" in warning and "sigmoid" in warning and "samples" in warning


@pytest.mark.parametrize("wide", [0, 1])
def test_integers_of_the_model_are_not_replaced_by_fewer(tmp_path: Path, wide: int) -> None:
    """A sum of 16-bit data stays one, whatever samples there are."""
    sketch = Sketch(opset=21)
    kinds = [np.int8, np.int16] if wide else [np.int16, np.int8]
    parts = [sketch.through_integers("x", 0.02 if kind is np.int8 else 0.001, 3, kind) for kind in kinds]
    total = sketch.through_integers(sketch.node("Add", *parts), 0.002, 0, np.int16)
    path = write(sketch, tmp_path / "m.onnx", {"x": SHAPE}, products(sketch, total, 0, 1))
    model = flow.read(path)
    for frames in None, random_frames(model, 2):
        network = flow.quantize(model, frames)
        (add,) = (node.operator for node in network.nodes if isinstance(node.operator, Add))
        assert sorted(operand.dtype.bits for operand in add.operands()) == [8, 16]
        (total,) = (node for node in network.nodes if isinstance(node.operator, Staircase))  # type: ignore[assignment]
        assert isinstance(total.operator.circuit, MultiplyAddShift) and total.operator.result_type == Int(16)


@pytest.mark.parametrize("samples", [False, True])
def test_moved_integers_of_16_bits_are_summed(tmp_path: Path, samples: bool) -> None:
    """A Transpose between a quantizer and a sum, as in a mixer of tokens, does not make other integers of them."""
    sketch = Sketch(opset=21)
    a, b = (sketch.through_integers("x", 0.001 * k, 3, np.int16) for k in (1, 2))
    total = sketch.node("Add", a, sketch.node("Transpose", b, perm=[0, 2, 1]))
    weights = sketch.dequantized(np.arange(-6, 6, dtype=np.int8).reshape(4, 3), 0.02, np.int8(0))
    data = sketch.through_integers(total, 0.02, 0)
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 4, 4]}, sketch.node("MatMul", data, weights))
    model = flow.read(path)
    network = flow.quantize(model, random_frames(model, 2) if samples else None)
    (add,) = (node.operator for node in network.nodes if isinstance(node.operator, Add))
    assert [operand.dtype.bits for operand in add.operands()] == [16, 16]
    frames = random_frames(model, 4)
    found, wanted = golden.run(network, frames), by_onnxruntime(path, frames)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, atol=1e-4)
