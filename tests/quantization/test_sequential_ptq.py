"""Integers chosen by their effect: what they cost on new samples, against rounding to nearest within what was seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import choose
from onnx_hw.ir import golden
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.requantize import Requantize
from onnx_hw.quantization.biases import separate_biases
from onnx_hw.quantization.cross_layer_equalization import equalize_channels
from onnx_hw.quantization.gptq_rounding import ColumnStatistics, fit_to_floats, gptq_round, search_scales
from onnx_hw.quantization.post_training import prepare_floats
from onnx_hw.quantization.ranges.batched_run import pick_samples
from onnx_hw.quantization.ranges.calibrate import Range, RangeMethod
from onnx_hw.quantization.ranges.mse import mse_range
from onnx_hw.quantization.scheme import Precision, Scheme
from support.onnx_oracle import random_frames, write
from support.qdq_models import Sketch
from support.random_float_models import FloatDrawing


def lost(span: Range, values: np.ndarray, bits: int = 8) -> float:
    """The mean square of what integers of a range are off by."""
    grid = Precision(bits).data_grid(span)
    real = (grid.integers(values) - float(grid.zero_point[0])) * float(grid.step[0])
    return float(np.square(real - values).mean())


@pytest.mark.parametrize("count", [4, 16, 64])
def test_ranges_serve_new_samples(count: int) -> None:
    """Better than the least and the greatest number, on average over tensors whose samples differ in size."""
    gain = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        sizes = random.lognormal(0, 0.3, 2 * count)
        samples = np.maximum(random.standard_t(6, (2 * count, 200)) * sizes[:, None], -0.5)
        chosen = mse_range(list(samples[:count]), 8)
        seen = Range(float(samples[:count].min()), float(samples[:count].max()))
        gain.append(np.log(lost(seen, samples[count:]) / lost(Range(chosen.low, chosen.high), samples[count:])))
    assert np.mean(gain) > 0.02


def test_many_bits_leave_room_for_new_samples() -> None:
    """What none of the samples shows is what many bits lose: on average over tensors most of it is kept."""
    gain = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        samples = random.normal(0, 1, (200, 60)) * random.lognormal(0, 0.2, (200, 1))
        chosen = mse_range(list(samples[:8]), 12)
        seen = Range(float(samples[:8].min()), float(samples[:8].max()))
        found = [lost(span, samples[8:], 12) for span in (seen, Range(chosen.low, chosen.high))]
        gain.append(np.log10(found[0] / found[1]))
    assert np.mean(gain) > 1


def test_alone_a_tensor_keeps_decibels_and_among_many_it_makes_little_noise() -> None:
    """On new samples, over many tensors: each of the two ranges is the better one at what it was chosen for."""
    found = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        samples = random.normal(0, 1, (64, 30)) * random.lognormal(0, 0.4, (64, 1))
        spans = (mse_range(list(samples[:6]), 9, tensors=tensors) for tensors in (1, 5000))
        found.append([[lost(Range(s.low, s.high), part, 9) for part in np.split(samples[4:], 10)] for s in spans])
    alone, among_many = np.array(found).swapaxes(0, 1)
    assert np.log10(alone).mean() < np.log10(among_many).mean() - 0.03
    assert among_many.mean() < alone.mean() * 0.7


def test_ranges_of_odd_samples() -> None:
    assert mse_range([np.zeros(3), np.zeros(3)], 8).high == 0
    one = mse_range([np.array([0.5, 2.0])], 8)
    assert (one.low, one.high) == (0.0, 2.0)  # nothing is known of others
    only = mse_range([np.zeros(4), np.full(4, 2.0), np.zeros(4)], 8)
    assert only.high >= 2 and only.saturation > only.rounding  # what only one sample shows
    bounded = mse_range([np.array([-4.0, 3.0]), np.array([-4.0, 2.0]), np.array([-1.0, 1.0])], 12)
    assert bounded.low == -4 and bounded.high > 3.1  # what is as low twice goes no lower
    assert mse_range([np.array([-1.0, 3.0]), np.array([-2.0, 3.0])], 8, symmetric=True).low <= -3


@pytest.mark.parametrize("seed", range(8))
def test_weights_are_rounded_by_their_effect(seed: int) -> None:
    """Of correlated columns the sums are nearer, on new rows too; integers keep to their bounds."""
    random = np.random.default_rng(seed)
    groups, outputs, count, bits = 1 + seed % 3, 5, 12, 3 + seed % 4
    mixing = random.normal(0, 1, (groups, count, count)) * random.lognormal(0, 1, (1, count, 1))
    rows = np.maximum(random.normal(0, 1, (groups, 400, count)) @ mixing, 0)
    weights, most = random.normal(0, 1, (groups, outputs, count)), (1 << bits - 1) - 1
    known = ColumnStatistics.of(rows[:, :200])
    scale = search_scales(weights, known, most)
    nearest = np.clip(np.rint(weights / scale[:, :, None]), -most, most)
    found = gptq_round(weights, known, scale, np.zeros_like(scale), -most, most)
    assert np.abs(found).max() <= most and (found != nearest).any()
    fresh = rows[:, 200:] - rows[:, 200:].mean(axis=1, keepdims=True)
    errors = [np.square(((q * scale[:, :, None]) - weights) @ fresh.transpose(0, 2, 1)).sum() for q in (found, nearest)]
    assert errors[0] < errors[1]


def test_few_integers_are_such_that_none_is_better_changed_alone() -> None:
    """Nor does another scale beside the one that is found lose less."""
    random = np.random.default_rng(0)
    weights, most = random.normal(0, 1, (2, 3, 9)), 7
    known = ColumnStatistics.of(np.maximum(random.normal(0, 1, (2, 90, 9)) @ random.normal(0, 1, (2, 9, 9)), 0))

    def lost(scale: np.ndarray, change: np.ndarray) -> np.ndarray:
        found = np.clip(gptq_round(weights, known, scale, np.zeros((2, 3)), -most, most) + change, -most, most)
        off = weights - found * scale[:, :, None]
        return ((off @ known.covariance) * off).sum(axis=2)

    scale = search_scales(weights, known, most)
    least = lost(scale, np.zeros(9))
    for change in np.concatenate([np.eye(9), -np.eye(9)]):
        assert (lost(scale, change) >= least - 1e-12).all()
    assert all((lost(scale * factor, np.zeros(9)).sum() >= least.sum()) for factor in (0.7, 1.4))


def test_columns_that_know_of_nothing_round_to_nearest() -> None:
    weights = np.random.default_rng(0).normal(0, 1, (2, 3, 4))
    known = ColumnStatistics.of(np.zeros((2, 5, 4)))
    scale = np.full((2, 3), 0.1)
    assert np.array_equal(gptq_round(weights, known, scale, np.zeros((2, 3)), -99, 99), np.rint(weights / 0.1))


def drawn(folder: Path, seed: int) -> Model:
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(3)
    return flow.read(write(drawing.sketch, folder / "m.onnx", inputs, *outputs))


def assert_same(a: Model, b: Model, frames: dict[str, np.ndarray]) -> None:
    for k in range(2):
        frame = {name: array[k] for name, array in frames.items()}
        wanted, found = (reference.run(model, frame) for model in (a, b))
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(array).max())))


@pytest.mark.parametrize("seed", range(20))
def test_a_term_behind_every_product_changes_nothing(tmp_path: Path, seed: int) -> None:
    model = prepare_floats(canonicalize(drawn(tmp_path, seed)))
    found, terms = separate_biases(model)
    frames = random_frames(model, 3)
    equal, _ = equalize_channels(found, pick_samples(frames, found.graph), terms)
    assert terms
    assert_same(model, found, frames)
    assert_same(model, equal, frames)


def separable(folder: Path, seed: int, multiplier: int = 1) -> tuple[Model, dict[str, np.ndarray]]:
    """Pointwise, depthwise, pointwise: channels a hundred times as large as others lie between."""
    random, s = np.random.default_rng(seed), Sketch()
    sizes = np.logspace(-2, 0, 8)[random.permutation(8)].reshape(-1, 1, 1, 1)
    floats = [
        random.normal(0, 0.5, (8, 3, 1, 1)) * sizes,
        random.normal(0, 0.3, (8 * multiplier, 1, 3, 3)) / np.repeat(sizes, multiplier, axis=0),
        random.normal(0, 0.3, (5, 8 * multiplier, 1, 1)),
    ]
    a, b, c = (s.constant(array.astype(np.float32)) for array in floats)
    bias = s.constant((0.1 * sizes.reshape(-1)).astype(np.float32))
    y = s.node("Relu", s.node("Conv", s.node("Relu", s.node("Conv", "x", a, bias)), b, group=8, pads=[1] * 4))
    model = flow.read(s.write(folder / "m.onnx", [1, 3, 6, 6], s.node("Conv", y, c)))
    return model, {"x": random.normal(0, 1, (12, 1, 3, 6, 6)).astype(np.float32)}


def decibels(model: Model, frames: dict[str, np.ndarray], scheme: Scheme | None = None) -> float:
    """Signal to noise of golden on the second half of the frames, quantized with the first."""
    half = len(frames["x"]) // 2
    network = flow.quantize(model, {"x": frames["x"][:half]}, scheme)
    (found,) = golden.run(network, {"x": frames["x"][half:]}).values()
    wanted = np.stack([next(iter(reference.run(model, {"x": frame}).values())) for frame in frames["x"][half:]])
    return float(10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum()))


@pytest.mark.parametrize("multiplier", [1, 2])
def test_small_channels_before_a_depthwise_product_count(tmp_path: Path, multiplier: int) -> None:
    gain = []
    for seed in range(4):
        model, frames = separable(tmp_path, seed, multiplier)
        gain.append(decibels(model, frames) - decibels(model, frames, Scheme(ranges=RangeMethod.MIN_MAX)))
    assert np.mean(gain) > 4


def test_the_whole_loses_less(tmp_path: Path) -> None:
    """On average over drawn networks, with weights of four bits."""
    four = Precision(4, symmetric=True, per_channel=True)
    gain = []
    for seed in range(6):
        model, frames = separable(tmp_path, 100 + seed)
        one, other = (decibels(model, frames, Scheme(weights=four, ranges=r)) for r in list(RangeMethod)[:2])
        gain.append(one - other)
    assert np.mean(gain) > 3


def test_requantizers_are_as_they_were_designed(tmp_path: Path) -> None:
    """Behind products multipliers of at most ten bits, without a correction of ties."""
    lengths = []
    for seed in range(30, 34):
        model = drawn(tmp_path, seed)
        network = flow.quantize(model, random_frames(model, 4))
        made = {name: node.operator for node in network.nodes for name in node.outputs}
        for node in network.nodes:
            if isinstance(node.operator, Requantize) and isinstance(made.get(node.inputs[0]), MatMul | Depthwise):
                circuit = choose(node.operator.exact)
                if isinstance(circuit, MultiplyAddShift):
                    assert circuit.tie_bit is None
                    lengths += [int(m).bit_length() for m in circuit.multipliers]
    assert len(lengths) > 20 and np.mean(np.array(lengths) <= 10) >= 0.95


def with_odd_outputs(folder: Path, odd: np.ndarray) -> tuple[Model, dict[str, np.ndarray]]:
    """Two dense layers; some more outputs of the first have these weights, (outputs, 8). The last input is always 0."""
    random, s = np.random.default_rng(0), Sketch()
    usual, last = random.normal(0, 0.02, (10, 8)), random.normal(0, 0.3, (12, 13))
    layers = [np.concatenate([usual, odd]), last[:, : 10 + len(odd)]]
    first, second = (s.constant(array.astype(np.float32)) for array in layers)
    y = s.node("Gemm", s.node("Relu", s.node("Gemm", "x", first, transB=1)), second, transB=1)
    frames = random.normal(0, 1, (40, 1, 8)).astype(np.float32)
    frames[..., -1] = 0
    return flow.read(s.write(folder / "m.onnx", [1, 8], y, rank=2)), {"x": frames}


@pytest.mark.parametrize(
    ("weight", "at", "longest"), [(0, 0, 10), (1e-12, 0, 10), (1.0, 7, 16), (1e5, 7, None)], ids=str
)
def test_outputs_that_are_dead_do_not_make_others_coarse(
    tmp_path: Path, weight: float, at: int, longest: int | None
) -> None:
    """Zeros have whatever scale; what vanishes any; what reads a dead input one that may be very large."""
    odd = np.zeros((3, 8))
    odd[:, at] = weight
    model, frames = with_odd_outputs(tmp_path, odd)
    network = flow.quantize(model, frames)
    (requantize,) = (node.operator for node in network.nodes if isinstance(node.operator, Requantize))
    circuit = choose(requantize.exact)
    assert longest is None or max(int(m).bit_length() for m in circuit.multipliers) <= longest
    assert decibels(model, frames) > decibels(*with_odd_outputs(tmp_path, np.zeros((0, 8)))) - 1


@pytest.mark.parametrize("seed", range(4))
def test_weights_make_up_for_what_the_data_lacks(seed: int) -> None:
    """Of data whose errors depend on the data the sums come nearer to those in floats; of noise nothing is learned."""
    random = np.random.default_rng(seed)
    exact, weights = random.normal(0, 1, (2, 600, 6)), random.normal(0, 1, (2, 3, 6))
    targets = exact @ weights.transpose(0, 2, 1) + 5
    given = exact + 0.1 * exact[:, :, ::-1]
    moved = fit_to_floats(weights, given[:, :300], targets[:, :300])
    errors = [np.square((given @ w.transpose(0, 2, 1) - targets + 5)[:, 300:]).sum() for w in (moved, weights)]
    assert errors[0] < errors[1] / 2
    noise = targets[:, :300] + random.normal(0, 1, (2, 300, 3))
    assert np.abs(fit_to_floats(weights, exact[:, :300], noise) - weights).max() < 0.1


def test_few_samples_that_hardly_vary_keep_the_mean(tmp_path: Path) -> None:
    """Their mean errors are the same in every sample, so that few samples suffice."""
    off = []
    for seed in range(6):
        random, s = np.random.default_rng(seed), Sketch()
        weights = s.constant(random.normal(0, 0.5, (12, 6)).astype(np.float32))
        bias = s.constant(random.normal(0, 0.1, 6).astype(np.float32))
        model = flow.read(s.write(tmp_path / "m.onnx", [1, 12], s.node("Gemm", s.node("Relu", "x"), weights, bias), 2))
        frames = (random.uniform(2, 3, 12) + random.normal(0, 0.05, (208, 1, 12))).astype(np.float32)
        (found,) = golden.run(flow.quantize(model, {"x": frames[:8]}), {"x": frames[8:]}).values()
        wanted = np.stack([next(iter(reference.run(model, {"x": frame}).values())) for frame in frames[8:]])
        off.append(float(np.square((found - wanted).mean(axis=0)).mean() / wanted.var(axis=0).mean()))
    assert np.mean(off) < 0.01, off
