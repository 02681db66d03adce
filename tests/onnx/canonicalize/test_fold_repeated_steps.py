"""Equal steps that become one cell: against the unrolled model, by onnxruntime, and in the circuit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.loops import is_delay, loops_of
from onnx_hw.onnx.graph.model import Model
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.samples.samples import one_frame
from support.onnx_oracle import assert_circuit_agrees, by_onnxruntime
from support.unrolled_cells import CELLS, FEATURES, HIDDEN, NORMALIZED_CELLS, Cell, gru, rnn, scanned, unrolled

LEAST_DB = 30.0
"""Least SQNR over 64 steps."""


def frames_of(path: Path, count: int, seed: int) -> dict[str, np.ndarray]:
    (value,) = flow.read(path).graph.inputs
    return {value.name: np.random.default_rng(seed).normal(size=(count, *value.shape)).astype(np.float32)}  # type: ignore[arg-type, misc]


def loops(model: Model) -> int:
    return len({id(loop) for loop in loops_of(model.graph.nodes).values()})


def assert_computes_the_same(path: Path) -> Model:
    """The canonical model, in floats, is what onnxruntime makes of the file; returns it."""
    canonical = canonicalize(flow.read(path).frame.model)
    frames = frames_of(path, 2, 4)
    computed = [reference.run(canonical, one_frame(frames, k)) for k in range(2)]
    for name, wanted in by_onnxruntime(path, frames).items():
        np.testing.assert_allclose(np.stack([each[name] for each in computed]), wanted, atol=2e-6, rtol=2e-5)
    return canonical


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("start", [0.0, 0.5])
@pytest.mark.parametrize("backward", [False, True])
def test_one_cell_computes_what_the_steps_do(
    tmp_path: Path, cell: str, shared: bool, start: float, backward: bool
) -> None:
    """With an initial state other than 0 the first step may stay in front of the loop, for it is a constant in part."""
    step, states = CELLS[cell]
    path = unrolled(tmp_path / "m.onnx", step, states, 7, start=start, shared=shared, backward=backward)
    canonical = assert_computes_the_same(path)
    assert loops(canonical) == (2 if cell == "deep" else 1)
    counts = [int(node.attributes["steps"]) for node in canonical.graph.nodes if is_delay(node)]
    assert len(counts) == states
    assert set(counts) == {7} if not start else set(counts) <= {6, 7}
    products = [node for node in canonical.graph.nodes if node.op_type in ("MatMul", "Gemm")]
    assert len(products) <= 14


@pytest.mark.parametrize("cell", CELLS)
def test_64_steps_keep_their_accuracy(tmp_path: Path, cell: str) -> None:
    path = unrolled(tmp_path / "m.onnx", *CELLS[cell], 64)
    network = flow.quantize(flow.read(path), frames_of(path, 8, 1))
    assert len(network.loops) == (2 if cell == "deep" else 1)
    frames = frames_of(path, 3, 2)
    found, (wanted,) = golden.run(network, frames), by_onnxruntime(path, frames).values()
    (computed,) = found.values()
    assert 10 * np.log10((wanted**2).sum() / ((computed - wanted) ** 2).sum()) >= LEAST_DB


@pytest.mark.parametrize("cell", NORMALIZED_CELLS)
@pytest.mark.parametrize("spelled_out", [False, True])
def test_steps_with_normalizations(tmp_path: Path, cell: str, spelled_out: bool) -> None:
    """The gates are parts of what is normalized, so that they are taken apart on the loop."""
    step, states = NORMALIZED_CELLS[cell]
    path = unrolled(tmp_path / "m.onnx", partial(step, spelled_out=spelled_out), states, 24)
    canonical = assert_computes_the_same(path)
    assert loops(canonical) == 1
    assert sum(node.op_type == "LayerNormalization" for node in canonical.graph.nodes) == 2
    network = flow.quantize(flow.read(path), frames_of(path, 8, 1))
    assert len(network.loops) == 1
    frames = frames_of(path, 3, 2)
    (computed,), (wanted,) = golden.run(network, frames).values(), by_onnxruntime(path, frames).values()
    assert 10 * np.log10((wanted**2).sum() / ((computed - wanted) ** 2).sum()) >= LEAST_DB


@pytest.mark.parametrize("cell", NORMALIZED_CELLS)
def test_the_circuit_of_steps_with_normalizations(tmp_path: Path, cell: str) -> None:
    path = unrolled(tmp_path / "m.onnx", *NORMALIZED_CELLS[cell], 4)
    network = flow.quantize(flow.read(path), frames_of(path, 8, 1))
    assert len(network.loops) == 1
    assert_circuit_agrees(network, multipliers=12)


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_the_circuit_of_folded_steps(tmp_path: Path, cell: str, sequence: bool) -> None:
    path = unrolled(tmp_path / "m.onnx", *CELLS[cell], 4, sequence=sequence)
    network = flow.quantize(flow.read(path), frames_of(path, 8, 1))
    assert len(network.loops) == 1
    assert_circuit_agrees(network, multipliers=12)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backward", [False, True])
def test_the_body_of_a_scan_is_a_cell(tmp_path: Path, cell: str, backward: bool) -> None:
    path = scanned(tmp_path / "m.onnx", *CELLS[cell], 6, backward=backward)
    canonical = assert_computes_the_same(path)
    assert loops(canonical) == (2 if cell == "deep" else 1)


def restless(cell: Cell, x: str, states: list[str]) -> list[str]:
    """Differences of the state that lose much with 8 bits."""
    s, (h,) = cell.sketch, states
    data, pulled = (
        cell.linear("w0_0", x, FEATURES, HIDDEN, bias=False),
        cell.linear("w1_1", h, HIDDEN, HIDDEN, bias=False),
    )
    part = s.node("Mul", s.node("Sigmoid", pulled), s.node("Relu", s.node("Sub", data, h)))
    return [s.node("Tanh", s.node("Add", s.node("Relu", s.node("Sub", part, h)), pulled))]


def test_wider_integers_of_a_loop(tmp_path: Path) -> None:
    """An argument of a function has 11 bits in a loop, which is no width that is offered."""
    path = unrolled(tmp_path / "m.onnx", restless, 1, 6, sequence=False)
    quantized = flow.quantized(flow.read(path), SampleRanges(frames_of(path, 16, 116)))
    assert quantized.widths is not None and len(quantized.network.loops) == 1


def squashed(cell: Cell, x: str, states: list[str]) -> list[str]:
    """A product of two functions of the same integers, of which the first one has integers of its own."""
    s, (h,) = cell.sketch, states
    data, a = cell.linear("data", x, FEATURES, HIDDEN), cell.linear("state", h, HIDDEN, HIDDEN)
    given = s.node("Mul", s.node("Sigmoid", data), a)
    scaled = s.node("Mul", s.node("Sigmoid", a), s.constant(np.float32(0.5)))
    square = s.node("Mul", s.node("Sigmoid", a), scaled)
    return [s.node("Tanh", s.node("Add", s.node("Tanh", s.node("Add", square, given)), a))]


def test_functions_of_the_same_integers_in_a_loop(tmp_path: Path) -> None:
    path = unrolled(tmp_path / "m.onnx", squashed, 1, 6)
    network = flow.quantize(flow.read(path), frames_of(path, 16, 1))
    assert len(network.loops) == 1


def different(cell: Cell, x: str, states: list[str]) -> list[str]:
    """Weights of the states that are other ones in each step."""
    step = len(cell.sketch.nodes)
    weights = cell.sketch.constant(np.random.default_rng(step).normal(0, 0.3, (HIDDEN, HIDDEN)).astype(np.float32))
    data = cell.linear("data", x, FEATURES, HIDDEN)
    return [cell.sketch.node("Tanh", cell.sketch.node("Add", data, cell.sketch.node("MatMul", states[0], weights)))]


def two_back(cell: Cell, x: str, states: list[str]) -> list[str]:
    """A step that also reads the state two steps before, kept under its own name."""
    (new,) = rnn(cell, x, [states[0]])
    return [cell.sketch.node("Add", new, states[1]), states[0]]


@pytest.mark.parametrize(
    ("step", "states", "steps", "batch"),
    [(different, 1, 6, 1), (two_back, 2, 6, 1), (gru, 1, 3, 1), (gru, 1, 6, 2)],
    ids=["other weights", "two steps back", "three steps", "a batch"],
)
def test_other_chains_stay(tmp_path: Path, step: object, states: int, steps: int, batch: int) -> None:
    assert callable(step)
    path = unrolled(tmp_path / "m.onnx", step, states, steps, batch=batch)
    assert loops(assert_computes_the_same(path)) == 0


def test_data_that_depends_on_the_steps_stays(tmp_path: Path) -> None:
    """An encoder's last state is read by every step of a decoder; its own chain is a loop, and so is the decoder."""
    first: list[str] = []

    def decoder(cell: Cell, x: str, states: list[str]) -> list[str]:
        s = cell.sketch
        first.append(states[0])
        (new,) = rnn(cell, x, states)
        return [s.node("Add", new, s.node("Mul", first[max(0, len(first) - 4)], s.constant(np.float32(0.1))))]

    path = unrolled(tmp_path / "m.onnx", decoder, 1, 8)
    assert loops(assert_computes_the_same(path)) == 0
