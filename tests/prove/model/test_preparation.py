"""What preparation for quantization may change of a model: the last bits, however much they are worth; nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Model
from onnx_hw.prove.model.float_fidelity import check_preparation
from support.qdq_models import Sketch


def normalized(folder: Path, epsilon: float, gain: float = 1.0) -> tuple[Model, dict[str, np.ndarray]]:
    """A BatchNormalization of four channels, behind a product."""
    draw, sketch = np.random.Generator(np.random.PCG64(5)), Sketch()
    weights = sketch.constant(np.float32(gain * draw.normal(size=(4, 3, 1, 1))))
    rest = [sketch.constant(np.float32(x)) for x in ([1, 2, 3, 4], [0, 1, 0, 1], [0.5, -1, 0, 2], [1, 0.3, 2, 5])]
    y = sketch.node("BatchNormalization", sketch.node("Conv", "x", weights), *rest, epsilon=epsilon)
    path = sketch.write(folder / "m.onnx", (1, 3, 4, 4), y)
    return flow.read(path).frame.model, {"x": draw.normal(size=(1, 3, 4, 4)).astype(np.float32)}


def with_constants(model: Model, change: Callable[[np.ndarray], np.ndarray]) -> Model:
    constants = {
        name: np.asarray(change(array)) if array.dtype == np.float32 else array
        for name, array in model.graph.constants.items()
    }
    return replace(model, graph=replace(model.graph, constants=constants))


def test_an_epsilon_of_a_hundred_times_is_another_meaning(tmp_path: Path) -> None:
    """It lies some 66 dB below: far above the rounding of weights."""
    model, frame = normalized(tmp_path, 1e-5)
    other, _ = normalized(tmp_path, 1e-3)
    check_preparation(model, model, frame)
    with pytest.raises(UserError, match="must be the same before and after the model is prepared"):
        check_preparation(model, other, frame)


@given(seed=st.integers(0, 1 << 16), gain=st.sampled_from([1e-3, 1.0, 1e4]))
def test_last_bits_of_weights_are_none(seed: int, gain: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    model, frame = normalized(tmp_path_factory.mktemp("m"), 1e-5, gain)
    draw = np.random.Generator(np.random.PCG64(seed))
    check_preparation(
        model, with_constants(model, lambda x: np.nextafter(x, np.float32(draw.normal(scale=1e9)))), frame
    )


def test_where_values_cancel_last_bits_are_worth_more(tmp_path: Path) -> None:
    """The difference of two numbers of a million, behind products."""
    sketch = Sketch()
    a, b = (sketch.node("Mul", "x", sketch.constant(np.float32(factor))) for factor in (1e6, 1e6 + 1))
    path = sketch.write(tmp_path / "m.onnx", (1, 4, 1, 1), sketch.node("Sub", a, b))
    model, frame = flow.read(path).frame.model, {"x": np.float32([1, 2, -3, 4]).reshape(1, 4, 1, 1)}
    check_preparation(model, with_constants(model, lambda x: np.nextafter(x, np.float32(2e6) * (x > 1e6))), frame)
    with pytest.raises(UserError, match="must be the same"):
        check_preparation(model, with_constants(model, lambda x: x + np.float32(64) * (x > 1e6)), frame)
