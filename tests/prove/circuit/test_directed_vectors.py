"""Vectors that reach: a fault of large sums that samples pass is seen, and the counts are what was shown."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Shape, Signal, Value

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ops.add import Add
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.requantize import Requantize, RequantizeFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import FRAMES, MAX_ARGUMENTS
from onnx_hw.prove.circuit import directed_vectors, prove
from onnx_hw.runtime.options import SimulationEngine
from onnx_hw_rtl.arithmetic.clamp import saturate
from onnx_hw_rtl.cores import add, depthwise, matmul, multiply_add_shift, requantize
from support import core_tests
from support.hand_built_designs import Sketch

ByTable = core_tests.load("requantize").ByTable

SUMS = Tensor((2, 2, 3), Int(12), -2000, 1900)


def network() -> Design:
    """Two functions one after the other: sums to 4 bits, of each channel its own way, and a table."""
    sketch = Sketch()
    slopes = tuple(Fraction(k, 2**9 + 1) for k in (31, 52, 110))
    down = Requantize(SUMS, slopes, (Fraction(1, 3),), Grid.over(Int(4), zero_point=1))
    (levels,) = sketch.add("down", down, [sketch.input("sums", SUMS)], (2,), 8)
    values = np.random.default_rng(0).integers(-8, 8, (1, 16))
    sketch.add("table", Lookup(replace(down.results()[0], low=-8, high=7), values, Int(4)), [levels], (2,), 8)
    return sketch.design()


def sums() -> Design:
    """Two products of an image, of vectors and of windows."""
    draw, sketch = np.random.default_rng(2), Sketch()
    image = Tensor((4, 3, 2), Int(8), -100, 127)
    whole = Depthwise(image, draw.integers(-128, 128, (2, 3, 3)), pads=(1, 1, 1, 1), strides=(2, 1))
    sketch.add("windows", whole, [sketch.input("image", image)], (2, 1), 8)
    vectors = Tensor((1, 4, 6), Int(8, False), 3, 255)
    sketch.add("vectors", MatMul(vectors, draw.integers(-9, 9, (3, 6))), [sketch.input("rows", vectors)], (4, 2), 8)
    return sketch.design()


def two_bits_ignored(m: Module, name: str, x: Value, shape: Shape) -> Signal:
    """What ``saturate`` must not be: it does not look at the two highest bits."""
    return saturate(m, name, x[: max(shape.width, len(x) - 2)].as_signed(), shape)


def test_a_saturation_that_ignores_two_bits_passes_samples_but_not_the_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (requantize, multiply_add_shift):
        monkeypatch.setattr(module, "saturate", two_bits_ignored)
    design = network()
    samples = np.random.default_rng(1).integers(-400, 400, (6, *SUMS.shape))
    values = golden.trace(design.network, {"sums": samples})
    assert len(np.unique(values["down.o"])) > 4  # no dull samples
    simulator, names = prove.compile_simulator(design, tmp_path, engine=SimulationEngine.INTERPRETED)
    plan = prove.plan_runs(design, {"sums": samples}, simulator.name)
    assert prove.prove(design, simulator, names, plan).agrees
    found = directed_vectors.check_directed_vectors(design, tmp_path, SimulationEngine.INTERPRETED)
    assert not found.agrees
    assert "down.o[" in directed_vectors.directed_vector_error(found).problems[0].message


@pytest.mark.parametrize(("module", "core"), [(matmul.MatMul, "vectors"), (depthwise.Depthwise, "windows")])
def test_a_sum_without_its_highest_bit_passes_samples_but_not_the_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: type, core: str
) -> None:
    """A sum that lacks its highest bit passes samples, and is seen at the ends."""
    begin = module.__init__  # type: ignore[misc]

    def narrow(self: Any, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self.result = Shape(self.result.width - 1, True)

    monkeypatch.setattr(module, "__init__", narrow)
    design, draw = sums(), np.random.default_rng(3)
    samples = {"image": draw.integers(-9, 9, (2, 4, 3, 2)), "rows": draw.integers(3, 30, (2, 1, 4, 6))}
    simulator, names = prove.compile_simulator(design, tmp_path, engine=SimulationEngine.INTERPRETED)
    assert prove.prove(design, simulator, names, prove.plan_runs(design, samples, simulator.name)).agrees
    error = directed_vectors.directed_vector_error(
        directed_vectors.check_directed_vectors(design, tmp_path, SimulationEngine.INTERPRETED)
    )
    assert f"{core}.o[" in error.problems[0].message


def test_every_threshold_and_every_place_is_shown(tmp_path: Path) -> None:
    design = network()
    down, table = (node.operator for node in design.network.nodes)
    found = directed_vectors.check_directed_vectors(design, tmp_path, SimulationEngine.INTERPRETED)
    covered = found.coverage
    assert found.agrees and found.runs and all(run.firings_compared for run in found.runs)
    exact = down.exact
    assert covered.thresholds == covered.of_thresholds == int((exact.reached & exact.missed).sum())
    assert covered.of_places >= table.values.size and covered.places == covered.of_places
    assert (covered.cores, covered.of_cores) == (2, 2) and covered.ends == covered.of_ends == 2 * (3 + 1)
    shown = down.test_vectors(design.foldings["down"]).frames[0].reshape(-1, 3)
    assert shown.shape[0] % FRAMES == 0
    for channel, thresholds in enumerate(exact.thresholds):
        inner = thresholds[(thresholds > -2000) & (thresholds <= 1900)]
        assert {-2000, 1900, *inner, *(inner - 1)} <= set(shown[:, channel].tolist())


@pytest.mark.parametrize("bits", [3, 8, 11, 14])
def test_places_of_a_step_function_that_is_a_table(bits: int) -> None:
    """All of them, unless they are more than there is time for; then as many of each part of the range."""
    scale, grid = Fraction(6, 1 << bits), Grid.over(Int(4))
    vectors = ByTable(Tensor((1, 1, 1), Int(bits)), (scale,), (Fraction(0),), grid).test_vectors(RequantizeFolding(1))
    shown = np.unique(vectors.frames[0])
    assert vectors.of_places == 1 << bits and len(shown) >= vectors.places
    if bits < 12:
        assert vectors.places == len(shown) == 1 << bits
    else:
        assert MAX_ARGUMENTS // 2 <= vectors.places <= MAX_ARGUMENTS and np.diff(shown).max() <= 1 << (bits - 10)


def test_sums_are_driven_to_their_ends(tmp_path: Path) -> None:
    found = directed_vectors.check_directed_vectors(sums(), tmp_path, SimulationEngine.INTERPRETED)
    covered = found.coverage
    assert found.agrees and covered.cores == 2 and covered.ends == covered.of_ends == 2 * (2 + 3)


def of_two() -> Design:
    """A weighted difference and a product, each of two tensors."""
    sketch = Sketch()
    a, b = Tensor((2, 3, 4), Int(8), -120, 127), Tensor((2, 3, 4), Int(6, False), 2, 60)
    names = [sketch.input(name, of) for name, of in (("a", a), ("b", b), ("c", a), ("d", b))]
    sketch.add("difference", Add(a, b, (3, -2)), names[:2], (2,), 8)
    sketch.add("times", Multiply(a, b, (1, -1)), names[2:], (2,), 8)
    return sketch.design()


def test_what_two_tensors_make_is_driven_to_its_ends(tmp_path: Path) -> None:
    found = directed_vectors.check_directed_vectors(of_two(), tmp_path, SimulationEngine.INTERPRETED)
    covered = found.coverage
    assert found.agrees and covered.cores == covered.of_cores == 2 and covered.ends == covered.of_ends == 2 * 2 * 4


def test_a_sum_of_two_tensors_that_is_too_narrow_passes_samples_but_not_the_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = add.Add.__init__

    def narrow(self: Any, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self.result = Shape(self.result.width - 1, True)

    monkeypatch.setattr(add.Add, "__init__", narrow)
    design, draw = of_two(), np.random.default_rng(3)
    samples = {name: draw.integers(2, 20, (2, 2, 3, 4)) for name in "abcd"}
    simulator, names = prove.compile_simulator(design, tmp_path, engine=SimulationEngine.INTERPRETED)
    assert prove.prove(design, simulator, names, prove.plan_runs(design, samples, simulator.name)).agrees
    error = directed_vectors.directed_vector_error(
        directed_vectors.check_directed_vectors(design, tmp_path, SimulationEngine.INTERPRETED)
    )
    assert "difference.o[" in error.problems[0].message


def test_what_there_is_no_time_for_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directed_vectors, "MAX_LANES", 2)
    found = directed_vectors.check_directed_vectors(network(), tmp_path, SimulationEngine.INTERPRETED)
    covered = found.coverage
    assert (covered.cores, covered.of_cores) == (1, 2)
    assert covered.thresholds == covered.of_thresholds
    assert (
        covered.places < covered.of_places
        and "1 of 2 cores" in str(covered)
        and covered.left_out == ("table",)
        and str(covered).endswith("not table")
    )
