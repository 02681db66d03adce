"""Bits of what a normalization makes small differences of large: its data, and what that is a sum of."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onnx_hw import flow
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.quantization.placement import choose_quantized_values, wide_values
from onnx_hw.quantization.post_training import prepare_floats, quantize_prepared_floats
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.quantization.scheme import Precision, Scheme
from support.onnx_oracle import write
from support.qdq_models import Sketch

WIDTH = 4


def product(s: Sketch, x: str) -> str:
    return s.node("MatMul", x, s.constant(np.random.default_rng(len(s.nodes)).normal(size=(WIDTH, WIDTH)).astype("f")))


def norm(s: Sketch, x: str) -> str:
    return s.node("LayerNormalization", x, s.constant(np.ones(WIDTH, "f")), axis=-1)


def bits(s: Sketch, output: str, folder: Path) -> dict[str, int]:
    model = prepare_floats(
        canonicalize(flow.read(write(s, folder / "m.onnx", {"x": [1, 3, WIDTH]}, output)).frame.model)
    )
    return wide_values(model.graph, choose_quantized_values(model))


def test_data_of_the_product_in_front(tmp_path: Path) -> None:
    s = Sketch()
    data = s.node("Add", product(s, "x"), s.constant(np.full(WIDTH, 0.5, "f")))
    assert bits(s, product(s, norm(s, data)), tmp_path) == {"x": 12, data: 16}


def test_operands_of_sums(tmp_path: Path) -> None:
    """A residual sum before a normalization, and one before that; not the data of a product that is added."""
    s = Sketch()
    first = product(s, s.node("Relu", product(s, "x")))
    total = s.node("Add", "x", first)
    second = product(s, s.node("Relu", product(s, norm(s, total))))
    last = s.node("Add", total, s.node("Reshape", second, s.constant(np.array([1, 3, WIDTH]))))
    given = bits(s, product(s, norm(s, last)), tmp_path)
    assert given == {"x": 12, first: 12, total: 16, second: 12, last: 16}


def test_positions_of_many_places_have_fewer(tmp_path: Path) -> None:
    """Each place has a threshold for each integer."""
    s = Sketch()
    places = np.random.default_rng(0).normal(size=(1, 1 << 12, WIDTH)).astype("f")
    data = s.node("Add", product(s, "x"), s.constant(places))
    output = product(s, norm(s, data))
    model = prepare_floats(
        canonicalize(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 1 << 12, WIDTH]}, output)).frame.model)
    )
    assert wide_values(model.graph, choose_quantized_values(model))[data] == 12


def test_other_networks_have_none(tmp_path: Path) -> None:
    s = Sketch()
    weights = s.node("Softmax", product(s, "x"), axis=-1)
    assert bits(s, product(s, weights), tmp_path) == {}


def test_wider_integers_elsewhere_do_not_narrow_them(tmp_path: Path) -> None:
    """Also where all values get 9 bits since 8 lose too much; a width that the user names counts."""
    s = Sketch()
    data = product(s, "x")
    output = product(s, norm(s, data))
    model = prepare_floats(
        canonicalize(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 3, WIDTH]}, output)).frame.model)
    )
    ranges = SampleRanges({"x": np.random.default_rng(0).normal(size=(16, 1, 3, WIDTH)).astype(np.float32)})
    wide = quantize_prepared_floats(model, ranges, Scheme(data=Precision(3), widen=True)).widths
    assert wide is not None and wide.scheme.data_overrides[data].bits == 16
    named = quantize_prepared_floats(model, ranges, Scheme(data_overrides={data: Precision(7)})).model.graph
    assert f"{data}/int8" in named.values and f"{data}/int16" not in named.values


def test_wide_operands_of_sums_share_steps(tmp_path: Path) -> None:
    """Also behind data movement and over several sums; the steps hold the numbers of the largest operand."""
    s = Sketch()
    matrix = np.random.default_rng(0).normal(size=(WIDTH, WIDTH)).astype("f")
    parts = [s.node("MatMul", "x", s.constant(factor * matrix)) for factor in (np.float32(k) for k in (1, 9, 2))]
    moved = s.node("Reshape", parts[1], s.constant(np.array([1, 3, WIDTH])))
    output = product(s, s.node("Add", s.node("Add", parts[0], moved), s.node("Add", moved, parts[2])))
    model = prepare_floats(
        canonicalize(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 3, WIDTH]}, output)).frame.model)
    )
    ranges = SampleRanges({"x": np.random.default_rng(0).normal(size=(16, 1, 3, WIDTH)).astype(np.float32)})
    chosen = choose_quantized_values(model)
    wide = {name: Precision(bits) for name, bits in zip(parts, (16, 14, 12), strict=True) if name in chosen}
    assert len(wide) == 3
    found = quantize_prepared_floats(model, ranges, Scheme(data_overrides=wide)).model.graph.constants
    (scale,) = {float(found[f"{name}/scale"]) / float(found.get(f"{name}/denominator", 1)) for name in parts}
    frames = ranges.frames["x"]
    assert scale * (1 << 16) >= np.ptp(frames @ (9 * matrix)) > scale * (1 << 14)
