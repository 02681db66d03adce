"""Max and Min of several tensors: against onnxruntime, and the circuits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lower.test_lowering_exactness import fresh_file_each_time
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.onnx.evaluate import reference
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, write
from support.qdq_models import Sketch

KINDS = ("Max", "Min")
STEP = 0.09375
SHAPES = {"image": [1, 3, 4, 4], "signal": [1, 3, 7], "rows": [1, 3, 4], "vector": [1, 6]}


def product(s: Sketch, x: str, shape: list[int], where: str, seed: int) -> str:
    """Sums of a product; no number of them is a tie of the scales here."""
    rng, outputs = np.random.default_rng(seed), 4
    inputs = shape[1] if where in ("image", "signal") else shape[-1]
    size = {"image": (outputs, inputs, 2, 3), "signal": (outputs, inputs, 3)}.get(where, (inputs, outputs))
    weights = s.dequantized(rng.integers(-127, 128, size).astype(np.int8), np.float32(0.0077))
    return s.node("Conv" if where in ("image", "signal") else "MatMul", x, weights)


def extremum_of(network: Network, kind: str) -> bool:
    return any(getattr(node.operator, "kind", "") == kind.lower() for node in network.nodes)


@settings(max_examples=4, deadline=None, suppress_health_check=fresh_file_each_time)
@given(data=st.data())
def test_of_tensors_with_scales_of_their_own(data: st.DataObject, tmp_path: Path) -> None:
    """Two or three of them, quantized or sums that are still exact."""
    s, kind, where = Sketch(), data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(sorted(SHAPES)))
    shape, parts = SHAPES[where], []
    x = s.through_integers("x", 0.0625, 3)
    for seed in range(data.draw(st.integers(2, 3))):
        part = product(s, x, shape, where, seed)
        if data.draw(st.booleans()):
            part = s.through_integers(part, data.draw(st.sampled_from([0.031, 0.053, 0.11])), seed)
        parts.append(part)
    y = s.node(kind, *parts)
    network = assert_agrees(write(s, tmp_path / "m.onnx", {"x": shape}, s.through_integers(y, STEP, -7)), STEP)
    assert extremum_of(network, kind)
    assert_circuit_agrees(network)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["inputs", "inputs of another shape", "halves"])
def test_of_what_comes_in(kind: str, where: str, tmp_path: Path) -> None:
    s, inputs = Sketch(), {"x": [1, 4, 3, 5]}
    x = s.through_integers("x", 0.0625, 3)
    if where == "halves":  # of one product: the activation that is called max-feature-map
        both = s.through_integers(product(s, x, [1, 4, 3, 5], "image", 1), 0.11, 4)
        ends = [s.constant(np.array([n])) for n in (0, 2, 4, 1)]
        parts = [s.node("Slice", both, ends[k], ends[k + 1], ends[3]) for k in range(2)]
    else:
        inputs["z"] = [1, 4, 3, 5] if where == "inputs" else [1, 4, 1, 1]
        parts = [x, s.through_integers("z", 0.043, -3)]
    y = s.node(kind, *parts)
    network = assert_agrees(write(s, tmp_path / "m.onnx", inputs, s.through_integers(y, 0.047, -7)), 0.047)
    assert extremum_of(network, kind)
    assert_circuit_agrees(network)


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_tensor_and_a_function_of_it_is_a_table(kind: str, tmp_path: Path) -> None:
    """LeakyRelu as some write it."""
    s = Sketch()
    x = s.through_integers("x", 0.0625, 3)
    y = s.node(kind, x, s.node("Mul", x, s.constant(np.float32(0.1))))
    network = assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 3, 5, 6]}, s.through_integers(y, 0.047, -7)), 0.047)
    assert not extremum_of(network, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_float_model(kind: str, tmp_path: Path) -> None:
    rng, s = np.random.default_rng(3), Sketch()
    a, b = (s.node("Conv", "x", s.constant(rng.normal(0, 0.2, (3, 2, 2, 3)).astype(np.float32))) for _ in range(2))
    y = s.node("Conv", s.node(kind, a, b), s.constant(rng.normal(0, 0.3, (2, 3, 1, 1)).astype(np.float32)))
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 2, 4, 5]}, y))
    samples = {"x": rng.normal(0, 1, (40, 1, 2, 4, 5)).astype(np.float32)}
    network = flow.quantize(model, samples)
    assert extremum_of(network, kind)
    wanted = np.concatenate([reference.run(model, {"x": frame})[y] for frame in samples["x"]])
    error = golden.run(network, samples)[y].reshape(wanted.shape) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 30
    assert_circuit_agrees(network)


def test_tensors_and_a_constant(tmp_path: Path) -> None:
    """A node of its own takes the constant."""
    s = Sketch()
    parts = [s.through_integers(name, 0.1, 0) for name in "xz"]
    y = s.node("Max", *parts, s.constant(np.float32(0.5)))
    path = write(s, tmp_path / "m.onnx", {"x": [1, 3, 4, 4], "z": [1, 3, 4, 4]}, s.through_integers(y, 0.1, 0))
    assert_circuit_agrees(assert_agrees(path, 0.1))


@pytest.mark.parametrize("axes", [[2, 3], [1, 2, 3]])
def test_reduce_min(axes: list[int], tmp_path: Path) -> None:
    s = Sketch()
    y = s.node("ReduceMin", s.through_integers("x", 0.1, 5), axes=axes)
    network = assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 3, 4, 5]}, s.through_integers(y, 0.1, 5)), 0.1)
    assert extremum_of(network, "min")
    assert_circuit_agrees(network, frames=3)


def test_reduce_min_of_a_float_model(tmp_path: Path) -> None:
    rng, s = np.random.default_rng(3), Sketch()
    x = s.node("Conv", "x", s.constant(rng.normal(0, 0.2, (6, 3, 3, 3)).astype(np.float32)))
    least = s.node("ReduceMin", x, axes=[2, 3], keepdims=0)
    y = s.node("MatMul", least, s.constant(rng.normal(0, 0.3, (6, 2)).astype(np.float32)))
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 3, 6, 6]}, y))
    samples = {"x": rng.normal(0, 1, (40, 1, 3, 6, 6)).astype(np.float32)}
    network = flow.quantize(model, samples)
    assert extremum_of(network, "min")
    wanted = np.concatenate([reference.run(model, {"x": frame})[y] for frame in samples["x"]])
    error = golden.run(network, samples)[y].reshape(wanted.shape) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 30
