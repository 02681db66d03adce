"""Bits that are searched for: the cheapest that reach a goal, and the file that repeats them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.quantization.decisions import IntegerDecisions, QuantError
from onnx_hw.quantization.goal import Goal
from onnx_hw.quantization.mixed_precision.search import WIDTHS, WidthSearch
from onnx_hw.quantization.mixed_precision.sensitivity import TensorKey
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.runtime.options import QuantizeOptions
from onnx_hw.samples.sqnr import NoiseStatistics
from support.cli_runner import call
from support.fixture_paths import EXAMPLES

DIGITS = EXAMPLES / "digits"


@pytest.mark.parametrize("seed", range(6))
def test_the_cheapest_widths_are_found_although_noise_is_misjudged(seed: int) -> None:
    """Nearly the least cost of all widths there are; the noise of weights and of data is another than foreseen."""
    random = np.random.default_rng(seed)
    places = [TensorKey(kind, name) for kind in ("data", "weights") for name in "ab"]
    gains, costs = random.lognormal(0, 2, 4), random.lognormal(3, 1, 4)
    noises = {p: {b: g * 4.0**-b for b in WIDTHS} for p, g in zip(places, gains, strict=True)}
    prices = {p: {b: c * b for b in WIDTHS} for p, c in zip(places, costs, strict=True)}
    wrong = {"data": 2.5, "weights": 0.4}

    def noise(bits: dict[TensorKey, int]) -> float:
        return sum(wrong[p.kind] * noises[p][b] for p, b in bits.items())

    def quantize(scheme: Scheme, learned: object, judges: object) -> IntegerDecisions:
        precision_of = {"data": scheme.data_precision, "weights": scheme.weight_precision}
        bits = {p: precision_of[p.kind](p.name) for p in places}
        made = NoiseStatistics(signal=1.0, noise=noise({p: precision.bits for p, precision in bits.items()}))
        return IntegerDecisions(held={"y": QuantError(made, made)})

    found = WidthSearch(Goal(40.0), Scheme(), [{}] * 8, None, ["y"], noises, prices, quantize).run()
    allowed = [dict(zip(places, bits, strict=True)) for bits in product(WIDTHS, repeat=4)]
    least = min(sum(prices[p][b] for p, b in bits.items()) for bits in allowed if noise(bits) <= 1e-4)
    assert found.sqnr_db >= 40 and least <= found.costs <= 1.1 * least


def test_what_rare_samples_make_is_doubted() -> None:
    """Noise that one of the samples makes needs more bits than the same of all: one standard error more."""
    places = {TensorKey("data", "a"): {bits: 4.0**-bits for bits in WIDTHS}}
    prices = {TensorKey("data", "a"): {bits: float(bits) for bits in WIDTHS}}

    def quantize(shares: np.ndarray, scheme: Scheme) -> IntegerDecisions:
        noise = 4.0 ** -scheme.data_precision("a").bits
        made = NoiseStatistics(signal=1.0, noise=noise)
        return IntegerDecisions(held={"y": QuantError(made, made)}, noises={"y": noise * shares})

    found = []
    for shares in (np.full(4, 0.25), np.array([1.0, 0.0, 0.0, 0.0])):
        goal = Goal(float(20 * np.log10(2) * 8 - 1.5))
        chosen = WidthSearch(
            goal, Scheme(), [{}] * 8, None, ["y"], places, prices, lambda s, *_, x=shares: quantize(x, s)
        ).run()
        found.append((chosen.costs, chosen.sqnr_db))
    assert found[0] == (8.0, pytest.approx(20 * np.log10(2) * 8))
    assert found[1] == (9.0, pytest.approx(20 * np.log10(2) * 9 - 10 * np.log10(2)))


def test_what_no_width_reaches_is_said() -> None:
    places = {TensorKey("data", "a"): dict.fromkeys(WIDTHS, 1e-3)}
    held = NoiseStatistics(signal=1.0, noise=1e-3)
    decisions = IntegerDecisions(held={"y": QuantError(held, held)})
    search = WidthSearch(Goal(40.0), Scheme(), [{}], None, ["y"], places, places, lambda *_: decisions)
    with pytest.raises(UserError, match=r"40 dB.*30\.0 dB"):
        search.run()


def test_a_goal_is_reached_and_repeated(tmp_path: Path) -> None:
    """On samples that were not there; the file in the folder makes the same network."""
    model, inputs = DIGITS / "digits_float.onnx", tmp_path / "few.npz"
    with np.load(DIGITS / "digits_calibration.npz") as stored:
        images = stored["image"]
    np.savez(inputs, image=images[:32])
    told = ["build", model, "--calibration", inputs, "--stop-after", "quantize", "--out"]
    for place, choice in (("one", ["--sqnr", "33"]), ("other", ["--precision", tmp_path / "one/precision.toml"])):
        result = call(*told, tmp_path / place, *choice)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "one/network.txt").read_text() == (tmp_path / "other/network.txt").read_text()
    assert len({line[-1] for line in (tmp_path / "one/precision.toml").read_text().splitlines() if "=" in line}) > 1


def test_a_goal_is_instead_of_bits() -> None:
    with pytest.raises(UserError, match="one of them"):
        QuantizeOptions(data=9, sqnr=30.0)
    for wrong in (0.0, 1000.0, float("nan")):
        with pytest.raises(UserError, match="between 1"):
            Goal(wrong)


def test_classes_stay_right() -> None:
    """With few bits, more than with a signal to noise that needs none to be right."""
    model = flow.read(DIGITS / "digits_float.onnx")
    with np.load(DIGITS / "digits_calibration.npz") as stored:
        images = stored["image"][:32]
    made = flow.quantized(model, SampleRanges({"image": images}), Scheme(goal=Goal(accuracy_loss=4.0)))
    assert made.widths is not None and made.widths.sqnr_db < 30
    wanted = [next(iter(reference.run(model, {"image": image}).values())).argmax() for image in images]
    (found,) = golden.run(made.network, {"image": images}).values()
    assert (found.reshape(32, -1).argmax(axis=1) != wanted).mean() <= 0.1
