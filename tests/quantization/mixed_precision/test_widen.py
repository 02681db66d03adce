"""Wider integers where the usual width costs too much: gated blocks and spectrograms, drawn by seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.quantization.decisions import IntegerDecisions
from onnx_hw.quantization.mixed_precision.cost import MAX_EXPONENT_BITS, multiplies_values, widest_operands
from onnx_hw.quantization.mixed_precision.sensitivity import TensorKey
from onnx_hw.quantization.mixed_precision.sqnr_by_tensor import TensorLoss
from onnx_hw.quantization.mixed_precision.widen import WIDER, widen_tensors
from onnx_hw.quantization.ranges.calibrate import Range
from onnx_hw.quantization.scheme import DEFAULT, Scheme
from onnx_hw.quantization.scheme_from_options import format_precision_file, scheme_from_options
from onnx_hw.runtime.options import QuantizeOptions
from support.onnx_oracle import by_onnxruntime, write
from support.qdq_models import Sketch
from support.random_gated_blocks import DrawnFloats, draw_gated_blocks
from support.random_spectrograms import draw_spectrogram


def kept_db(drawn: DrawnFloats, folder: Path, scheme: Scheme | None = None) -> tuple[float, Network]:
    """Return variance to noise on new samples, in dB, and the network."""
    path = write(drawn.sketch, folder / "m.onnx", drawn.shapes, drawn.output)
    network = flow.quantize(flow.read(path), {"x": drawn.samples}, scheme)
    found = golden.run(network, {"x": drawn.others})[drawn.output]
    wanted = by_onnxruntime(path, {"x": drawn.others})[drawn.output]
    return float(10 * np.log10(wanted.var() / np.mean((found - wanted) ** 2))), network


@pytest.mark.parametrize("seed", [2])
def test_the_power_of_a_spectrum_gets_the_bits_it_needs(tmp_path: Path, seed: int) -> None:
    drawn = draw_spectrogram(seed)
    usual, _ = kept_db(drawn, tmp_path, DEFAULT)
    wide, _ = kept_db(drawn, tmp_path)
    assert not usual > 20 and wide > 25  # the former may be NaN: the logarithm of a negative sum


def test_the_power_before_a_logarithm_stays_exact(tmp_path: Path) -> None:
    """A floor of -60 dB is far below the step of 16 bits; power and mel bands are sums that nothing rounds."""
    drawn = draw_spectrogram(1, least=1e-6)
    kept, network = kept_db(drawn, tmp_path)
    assert kept > 25
    assert not {"the_add4", "the_mul2", "the_mul3", "the_pow2"} & {node.name for node in network.nodes}  # requantizers
    assert max(tensor.dtype.bits for tensor in network.tensors.values()) > 24


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "loudness_db"), [(3, 10), (4, 10), (0, 40), (11, 40)])
def test_more_spectrograms(tmp_path: Path, seed: int, loudness_db: float) -> None:
    assert kept_db(draw_spectrogram(seed, least=1e-6, loudness_db=loudness_db), tmp_path)[0] > 25


def test_a_precision_file_repeats_exact_values(tmp_path: Path) -> None:
    drawn = draw_spectrogram(6)
    model = flow.read(write(drawn.sketch, tmp_path / "m.onnx", drawn.shapes, drawn.output))
    exact, file = frozenset(("add4", "mul2", "pow3")), tmp_path / "bits.toml"
    file.write_text(format_precision_file(Scheme(exact=exact)))
    scheme = scheme_from_options(QuantizeOptions(precision=file))
    assert scheme is not None and scheme.exact == exact
    network = flow.quantize(model, {"x": drawn.samples[:8]}, scheme)
    assert not {"the_add4", "the_mul2", "the_pow3"} & {node.name for node in network.nodes}
    with pytest.raises(UserError, match="`add4` can only be exact together with `add4` and `mul2` and `pow3`"):
        flow.quantize(model, {"x": drawn.samples[:8]}, Scheme(exact=frozenset(("add4",))))
    with pytest.raises(UserError, match="`conv0` cannot be exact"):
        flow.quantize(model, {"x": drawn.samples[:8]}, Scheme(exact=frozenset(("conv0",))))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5])
def test_gated_blocks_keep_what_others_keep(tmp_path: Path, seed: int) -> None:
    drawn = draw_gated_blocks(seed)
    assert kept_db(drawn, tmp_path, DEFAULT)[0] < 28 < kept_db(drawn, tmp_path)[0]


def decisions(noise: float) -> IntegerDecisions:
    return IntegerDecisions(noises={"y": np.array([noise])}, spreads={"y": 1.0})


def test_what_is_good_enough_is_kept() -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing is chosen anew")

    assert widen_tensors(DEFAULT, decisions(0.9e-3), {}, (), {}, False, never, never) is None  # type: ignore[arg-type]


def test_the_cheapest_bits_that_suffice_are_chosen() -> None:
    """One value makes nearly all of the noise; of the two others one costs nothing and one may not be wider."""
    noises = {"loud": 0.099, "cheap": 0.0005, "table": 0.00005}
    keys = {name: TensorKey("data", name) for name in noises}
    prices = {"loud": 10, "cheap": 0, "table": 50}
    costs = {keys[name]: {bits: price * bits for bits in (8, *WIDER)} for name, price in prices.items()}
    tried: list[Scheme] = []

    def choose(scheme: Scheme) -> IntegerDecisions:
        tried.append(scheme)
        extra = {name: scheme.data_precision(name).bits - 8 for name in noises}
        return decisions(sum(noise * 4.0 ** -extra[name] for name, noise in noises.items()))

    def measure(integers: IntegerDecisions) -> list[TensorLoss]:
        bits = tried[-1].data_precision if tried else DEFAULT.data_precision
        return [
            TensorLoss(keys[name], bits(name).bits, noise * 4.0 ** (8 - bits(name).bits), 0.0, 0.0, 0.0)
            for name, noise in noises.items()
        ]

    result = widen_tensors(DEFAULT, decisions(0.1), costs, {"table": 8}, {}, False, choose, measure)
    assert result is not None and len(tried) == 1
    best, widths = result
    chosen = {name: precision.bits for name, precision in widths.scheme.data_overrides.items()}
    assert chosen["loud"] == 12 and chosen["cheap"] > 8 and "table" not in chosen
    assert best.noises["y"].sum() < 10**-3.2 and widths.sqnr_db > 32
    one = replace(widths.scheme, data_overrides={"loud": DEFAULT.data})
    assert str(replace(widths, scheme=one)) == "1 tensor of 8 bits"


def test_a_model_of_gates_gets_a_bit_more_first() -> None:
    """Products of values make rare samples rarer still: it must keep more on the samples that judge."""
    tried: list[Scheme] = []

    def choose(scheme: Scheme) -> IntegerDecisions:
        tried.append(scheme)
        return replace(decisions(1e-4), data={})

    def never(*_: object) -> None:
        raise AssertionError("nothing is measured")

    first = replace(decisions(0.9e-3), data={"y": DEFAULT.data.data_grid(Range(-1, 1))})
    costs = {TensorKey("data", "y"): {9: 1.0}}
    assert widen_tensors(DEFAULT, first, costs, {}, {}, False, never, never) is None  # type: ignore[arg-type]
    result = widen_tensors(DEFAULT, first, costs, {}, {}, True, choose, never)  # type: ignore[arg-type]
    assert result is not None and [scheme.data_precision("y").bits for scheme in tried] == [9]


def test_a_softmax_needs_a_table_and_makes_a_model_gated(tmp_path: Path) -> None:
    """Its data is read by a table of exponentials; the function behind it has a larger one."""
    s, random = Sketch(), np.random.default_rng(0)
    matrices = [s.constant(random.normal(0, 0.5, (6, 6)).astype(np.float32)) for _ in range(2)]
    scores = s.node("MatMul", "x", matrices[0])
    weights = s.node("Softmax", s.node("Transpose", scores, perm=[1, 0]))
    path = write(s, tmp_path / "m.onnx", {"x": [6, 6]}, s.node("Sin", s.node("MatMul", weights, matrices[1])))
    graph = canonicalize(flow.read(path)).graph
    assert widest_operands(graph, ["x", scores, weights]) == {scores: MAX_EXPONENT_BITS}
    assert multiplies_values(graph, ["x", scores, weights])
    assert not multiplies_values(graph, ["x"])
