"""What leaves the hardware of a float model: sums as they are, unless integers of few bits are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from onnx_hw import flow
from onnx_hw.cli.cli import main
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model
from onnx_hw.ops.requantize import Requantize
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.runtime.options import OutputKind
from support.fixture_paths import EXAMPLES
from support.onnx_oracle import assert_circuit_agrees, random_frames, write
from support.random_float_models import FloatDrawing

DIGITS = EXAMPLES / "digits"


def drawn(folder: Path, seed: int) -> Model:
    """A chain of layers whose last is a product."""
    drawing = FloatDrawing(seed)
    shapes, _ = drawing.draw(2)
    last = next(value for value in reversed(drawing.pool) if len(value.shape) == 4)
    y = drawing.sketch.node("Conv", last.name, drawing.floats(3, last.shape[1], 1, 1))
    return flow.read(write(drawing.sketch, folder / f"{seed}.onnx", shapes, y))


def noise(model: Model, network: Network, frames: dict[str, np.ndarray]) -> float:
    """The mean square of what golden's outputs are off by."""
    (found,) = golden.run(network, frames).values()
    one = ({name: array[k] for name, array in frames.items()} for k in range(len(found)))
    wanted = np.stack([next(iter(reference.run(model, frame).values())) for frame in one])
    return float(np.square(found - wanted).mean())


@pytest.mark.parametrize("seed", range(6))
def test_sums_leave_unless_integers_are_asked_for(tmp_path: Path, seed: int) -> None:
    model = drawn(tmp_path, seed)
    frames = random_frames(model, 4)
    sums, few = (flow.quantize(model, frames, scheme and Scheme(output=scheme)) for scheme in (None, OutputKind.INT8))
    requantized = [sum(isinstance(n.operator, Requantize) for n in of.nodes) for of in (sums, few)]
    assert requantized[0] < requantized[1]
    assert {few.tensors[boundary.tensor].dtype.bits for boundary in few.outputs} == {8}
    assert noise(model, sums, frames) < 1.1 * noise(model, few, frames)
    if seed == 0:
        assert_circuit_agrees(sums)


def test_the_option(tmp_path: Path) -> None:
    """A model that brings its integers has no use for it."""
    calibration = str(DIGITS / "digits_calibration.npz")
    model, frames = flow.read(DIGITS / "digits_float.onnx"), {"image": np.load(calibration)["image"]}
    for kind in OutputKind:
        out = tmp_path / f"{kind}.npz"
        arguments = ["run", str(DIGITS / "digits_float.onnx"), "--inputs", calibration, "--calibration", calibration]
        done = CliRunner().invoke(main, [*arguments, "--output-kind", kind.value, "--out", str(out)])
        assert done.exit_code == 0, done.output
        ((name, wanted),) = golden.run(flow.quantize(model, frames, Scheme(output=kind)), frames).items()
        assert np.array_equal(np.load(out)[name], wanted)
    given = ["run", str(DIGITS / "digits.onnx"), "--inputs", calibration, "--output-kind", "int8"]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 1 and "brings all of its own" in done.output
