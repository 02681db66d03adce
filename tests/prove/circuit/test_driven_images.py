"""Cores without constants are driven to the ends of their results, and every lane is told from every other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Shape, Signal, Value

from onnx_hw.exact.division import exponentials
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ops import driven_images
from onnx_hw.ops.argmax import ArgMax
from onnx_hw.ops.divide import Divide
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.normalize import Normalize
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.softmax import Softmax
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit import directed_vectors, prove
from onnx_hw.runtime.options import SimulationEngine
from onnx_hw_rtl.cores import argmax, divide, matmul, normalize, pool, reduce, softmax
from support.hand_built_designs import alone

IMAGE = Tensor((4, 4, 5), Int(8), -128, 127)
PIXELS = Tensor((1, 3, 11), Int(6), -32, 31)

CORES: dict[str, tuple[Operator[Any], tuple[int, ...]]] = {
    "sum of windows": (Pool(IMAGE, "sum", (2, 2), (2, 2)), (2, 2)),
    "greatest of windows": (Pool(IMAGE, "max", (2, 2), (1, 1), (1, 0, 0, 1), -128), (2, 2)),
    "sum of a frame": (Reduce(IMAGE, "sum"), (2,)),
    "least of a frame": (Reduce(IMAGE, "min"), (3,)),
    "position of the greatest": (ArgMax(PIXELS), (4,)),
    "position of the last least": (ArgMax(PIXELS, largest=False, last=True), (2,)),
    "softmax": (Softmax(PIXELS, exponentials(Fraction(1, 8), 64, 12), Grid.over(Int(8), Fraction(1, 255), -128)), (4,)),
    "fine softmax": (
        Softmax(PIXELS, exponentials(Fraction(1, 8), 64, 16), Grid.over(Int(8), Fraction(1, 255), -128)),
        (4,),
    ),
    "normalization": (Normalize(PIXELS, True, 11, 9), (4,)),
    "quotient": (Divide(PIXELS, PIXELS, (1, -2), Fraction(3), Grid.over(Int(8), 1, 5)), (4,)),
    "product of two tensors": (MatMul(PIXELS, Tensor((1, 4, 11), Int(5), -16, 15)), (3, 2)),
}


@pytest.fixture(autouse=True)
def few_drawn_pixels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreted simulator takes its time; only the ties of a rounding need many."""
    if "ties" not in request.node.name:
        monkeypatch.setattr(driven_images, "DRAWN", 24)


@pytest.mark.parametrize("name", CORES)
def test_both_ends_are_reached(name: str, tmp_path: Path) -> None:
    operator, lanes = CORES[name]
    found = directed_vectors.check_directed_vectors(alone(operator, lanes, 8), tmp_path, SimulationEngine.INTERPRETED)
    covered = found.coverage
    assert found.agrees and found.runs and covered is not None
    assert (covered.cores, covered.of_cores, covered.left_out) == (1, 1, ())
    assert covered.ends == covered.of_ends > 0


@pytest.mark.parametrize("name", CORES)
def test_no_two_channels_hold_the_same(name: str) -> None:
    operator, _ = CORES[name]
    vectors = operator.test_vectors(alone(operator, CORES[name][1], 8).foldings["node"])
    assert vectors is not None
    for frames in vectors.frames:
        columns = np.moveaxis(frames, -1, 0).reshape(frames.shape[-1], -1)
        assert len(np.unique(columns, axis=0)) == len(columns)


# ---- faults, most of which small samples pass ------------------------------------------------------------------------


def narrow(module: type) -> Callable[[pytest.MonkeyPatch], None]:
    """Declare a result one bit too narrow."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        begin = module.__init__  # type: ignore[misc]

        def init(self: Any, *arguments: Any, **named: Any) -> None:
            begin(self, *arguments, **named)
            self.result = Shape(self.result.width - 1, self.result.signed)

        patch.setattr(module, "__init__", init)

    return apply


def total_lacks_a_bit(patch: pytest.MonkeyPatch) -> None:
    bits = softmax.Softmax._total_bits.fget  # type: ignore[attr-defined]
    patch.setattr(softmax.Softmax, "_total_bits", property(lambda self: bits(self) - 1))


def sum_begins_at_one(patch: pytest.MonkeyPatch) -> None:
    mux = softmax.Mux

    def changed(select: Value, one: Any, other: Any) -> Value:
        begins = isinstance(one, int) and getattr(other, "name", "") == "total"
        return mux(select, 1 if begins else one, other)

    patch.setattr(softmax, "Mux", changed)


def sum_lacks_a_bit(patch: pytest.MonkeyPatch) -> None:
    begin = normalize.Normalize.__init__

    def init(self: Any, **named: Any) -> None:
        begin(self, **named)
        self.sum_shape = Shape(self.sum_shape.width - 1, True)

    patch.setattr(normalize.Normalize, "__init__", init)


def clamps_a_bit_early(patch: pytest.MonkeyPatch) -> None:
    clamp = divide.clamp

    def narrower(m: Module, name: str, value: Value, low: int, high: int) -> Value:
        return clamp(m, name, value, low // 2, high // 2)

    patch.setattr(divide, "clamp", narrower)


def unused_lanes_win(patch: pytest.MonkeyPatch) -> None:
    best = argmax.ArgMax._best_of_beat

    def of_all(self: Any, m: Module, ends: Value) -> Any:
        real, self.channels = self.channels, self.chunks * self.lanes
        found = best(self, m, ends)
        self.channels = real
        return found

    patch.setattr(argmax.ArgMax, "_best_of_beat", of_all)


def rounds_ties_up(patch: pytest.MonkeyPatch) -> None:
    def shifted(m: Module, name: str, value: Value, bits: int, width: int) -> Signal:
        result = Signal(Shape(width, True), name=f"{name}_shifted", reset_less=True)
        m.d.sync += result.eq(value << -bits if bits <= 0 else (value + (1 << bits - 1)) >> bits)
        return result

    patch.setattr(normalize, "rounded_shift", shifted)


def compares_without_the_sign(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(argmax.ArgMax, "_key", lambda self, element: element.as_unsigned())


def last_is_the_greatest(patch: pytest.MonkeyPatch) -> None:
    """Keep the last element of a window, which is the greatest of a ramp."""
    patch.setattr(pool, "fold_into", lambda kind, first, value, total: value)


FAULTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "a sum of a window is a bit too narrow": ("sum of windows", narrow(pool.Pool)),
    "a sum of a frame is a bit too narrow": ("sum of a frame", narrow(reduce.Reduce)),
    "a greatest is the last": ("greatest of windows", last_is_the_greatest),
    "unused lanes win": ("position of the greatest", unused_lanes_win),
    "positions are compared without the sign": ("position of the last least", compares_without_the_sign),
    "a sum of exponentials is a bit too narrow": ("softmax", total_lacks_a_bit),
    "a sum of exponentials begins at one": ("fine softmax", sum_begins_at_one),
    "a sum of a pixel is a bit too narrow": ("normalization", sum_lacks_a_bit),
    "ties of a normalization are rounded up": ("normalization", rounds_ties_up),
    "a quotient is clamped a bit too early": ("quotient", clamps_a_bit_early),
    "a product of two tensors is a bit too narrow": ("product of two tensors", narrow(matmul.MatMul)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen_at_the_ends(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, inject = FAULTS[fault]
    operator, lanes = CORES[name]
    design = alone(operator, lanes, 8)
    inject(monkeypatch)
    ramps = {
        boundary.tensor: np.broadcast_to(np.arange(operand.size).reshape(operand.shape) // 20 + 1, (2, *operand.shape))
        for boundary, operand in zip(design.network.inputs, operator.operands(), strict=True)
    }
    simulator, names = prove.compile_simulator(design, tmp_path, engine=SimulationEngine.INTERPRETED)
    if fault.endswith("too narrow") and "softmax" not in name:  # the sum of equal exponentials is the greatest one
        assert prove.prove(design, simulator, names, prove.plan_runs(design, ramps, simulator.name)).agrees
    found = directed_vectors.check_directed_vectors(design, tmp_path, SimulationEngine.INTERPRETED)
    assert not found.agrees
    assert "node.o[" in directed_vectors.directed_vector_error(found).problems[0].message


def test_an_odd_unused_lane_of_an_even_beat_holds_either_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ragged ArgMax whose unused lane always held the least would hide that it takes part."""
    unused_lanes_win(monkeypatch)
    design = alone(ArgMax(replace(PIXELS, shape=(1, 8, 11))), (4,), 8)
    frames = {design.network.inputs[0].tensor: np.random.default_rng(4).integers(-32, 32, (4, 1, 8, 11))}
    simulator, names = prove.compile_simulator(design, tmp_path, engine=SimulationEngine.INTERPRETED)
    assert not prove.prove(design, simulator, names, prove.plan_runs(design, frames, simulator.name)).agrees
