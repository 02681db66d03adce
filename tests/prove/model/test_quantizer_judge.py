"""The judge of the quantizer sees what golden and the model share, and calls no sound choice a fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.prove.model.float_fidelity import Fidelity
from onnx_hw.prove.model.known_values import known_values
from onnx_hw.prove.model.quantizer_judge import QuantizerVerdict, judge_quantizer
from onnx_hw.quantization import gptq_rounding, insert_qdq, sequential_ptq
from onnx_hw.quantization.ranges import calibrate, choose_grids
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.quantization.scheme import Precision, Scheme
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.stage import Stage
from support.fixture_paths import EXAMPLES
from support.onnx_oracle import random_frames, write
from support.random_float_models import FloatDrawing
from support.random_spectrograms import draw_spectrogram
from support.transformers import vision_transformer

DIGITS = EXAMPLES / "digits"
Inject = Callable[[pytest.MonkeyPatch], None]


def digits_images() -> np.ndarray:
    """Images of the samples, in sixteenths from 0 to 1."""
    return np.load(DIGITS / "digits_calibration.npz")["image"].astype(np.float32)


def verdict_on(
    model: Any, samples: dict[str, np.ndarray], frames: list[dict[str, np.ndarray]], scheme: Scheme | None = None
) -> QuantizerVerdict:
    """The verdict on a float model that is quantized with samples, and compared on frames."""
    made = flow.quantized(model, SampleRanges(samples), scheme)
    assert made.floats is not None
    fidelity = Fidelity(*made.floats, made.model)
    for frame in frames:
        fidelity.add(frame, known_values(made.step, frame))
    return judge_quantizer(made.model, made.floats[1], samples, fidelity, frames, made.equalized)


def verdict_of(
    scheme: Scheme | None = None, scale: np.ndarray | None = None, others: tuple[np.ndarray, np.ndarray] | None = None
) -> QuantizerVerdict:
    """The verdict on digits; of samples whose brightness differs by ``scale`` where it is given.

    ``others`` are samples and frames in place of those.
    """
    model = flow.read(DIGITS / "digits_float.onnx")
    images = digits_images()
    samples = {"image": images if scale is None else images * scale.reshape(-1, 1, 1, 1, 1).astype(np.float32)}
    frames = [{"image": image} for image in samples["image"][:4]]
    if others is not None:
        samples, frames = {"image": others[0]}, [{"image": image} for image in others[1]]
    return verdict_on(model, samples, frames, scheme)


@pytest.mark.parametrize("bits", [2, 3, 4, 6, 8, 12, 16])
def test_a_sound_choice_passes(bits: int) -> None:
    verdict = verdict_of(Scheme(data=Precision(bits)))
    assert verdict.findings == () and verdict.obstacle == ""
    assert verdict.grids == 3 and verdict.tensors == 5


@pytest.mark.parametrize("levels", [1, 2, 4, 16])
def test_frames_may_lie_between_the_levels_of_the_samples(levels: int) -> None:
    """Black and white samples, or few greys, say nothing about the greys of other images."""
    images = digits_images()
    seen = (np.round(images * levels) / levels).astype(np.float32)
    finer = (np.round(images[:4] * 200) / 255).astype(np.float32)
    verdict = verdict_of(others=(seen, finer))
    assert verdict.findings == () and verdict.tensors == 5


ODD_SAMPLES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "one": lambda array, draw: array[:1],
    "two": lambda array, draw: array[:2],
    "zeros": lambda array, draw: 0 * array,
    "ones": lambda array, draw: 0 * array + 1,
    "mostly zeros": lambda array, draw: np.where(draw.random(array.shape) < 0.9, 0, array),
    "signs": lambda array, draw: np.sign(array),
}


@pytest.mark.parametrize("kind", ODD_SAMPLES)
@pytest.mark.parametrize("seed", [6, 8])
def test_odd_samples_are_no_fault_of_the_quantizer(tmp_path: Path, seed: int, kind: str) -> None:
    """Numbers beyond what the samples show saturate, as with plain rounding."""
    assert odd_verdict(tmp_path, seed, ODD_SAMPLES[kind], 1.0).findings == ()


def test_values_without_numbers_do_not_widen_the_grid_that_a_sum_shares(tmp_path: Path) -> None:
    """With 16 bits the operands of a sum have one grid; the samples are 0, a HardSigmoid makes 0.5 of them."""
    verdict = odd_verdict(tmp_path, 52, ODD_SAMPLES["zeros"], 1.0, Scheme(data=Precision(16)))
    assert verdict.findings == () and verdict.obstacle == ""


def test_samples_that_are_all_the_same_are_no_fault_of_the_quantizer(tmp_path: Path) -> None:
    model = flow.read(vision_transformer(tmp_path / "m.onnx"))
    drawn = random_frames(model, 12)
    samples = {name: np.ones_like(array) for name, array in drawn.items()}
    frames = [{name: array[k] for name, array in drawn.items()} for k in range(2)]
    assert verdict_on(model, samples, frames).findings == ()


def test_frames_unlike_the_samples_are_no_fault_of_the_quantizer(tmp_path: Path) -> None:
    """Sounds a hundred times as quiet end far below what the logarithm saw."""
    drawn = draw_spectrogram(0, 12)
    model = flow.read(write(drawn.sketch, tmp_path / "m.onnx", drawn.shapes, drawn.output))
    samples = {"x": drawn.samples.astype(np.float32)}
    frames = [{"x": (sample / 100).astype(np.float32)} for sample in samples["x"][:6]]
    assert verdict_on(model, samples, frames, Scheme(weights=Precision(4))).findings == ()


@pytest.mark.parametrize("seed", [62, 94, 102])
def test_a_few_numbers_far_from_all_others_may_saturate(tmp_path: Path, seed: int) -> None:
    def with_outliers(array: np.ndarray, draw: np.random.Generator) -> np.ndarray:
        return np.where(draw.random(array.shape) < 0.01, 50 * array, array)

    verdict = odd_verdict(tmp_path, seed, with_outliers, 1.0, Scheme(data=Precision(4), weights=Precision(4)))
    assert verdict.findings == () and verdict.obstacle == ""


@pytest.mark.parametrize("seed", [3, 6, 11])
@pytest.mark.parametrize("size", [1e-4, 1e4])
def test_numbers_of_any_size_are_no_fault_of_the_quantizer(tmp_path: Path, seed: int, size: float) -> None:
    """A Sigmoid of thousands is a step: which numbers lie on its wrong side is chance."""
    assert odd_verdict(tmp_path, seed, lambda array, draw: size * array, size).findings == ()


def odd_verdict(
    folder: Path,
    seed: int,
    change: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    size: float,
    scheme: Scheme | None = None,
) -> QuantizerVerdict:
    """The verdict on a drawn model whose samples are changed; the frames are only brought to a size."""
    drawing = FloatDrawing(seed)
    inputs, outputs = drawing.draw(3 + seed % 4)
    model, draw = flow.read(write(drawing.sketch, folder / "m.onnx", inputs, *outputs)), np.random.default_rng(seed)
    drawn = random_frames(model, 12)
    samples = {name: change(array, draw).astype(np.float32) for name, array in drawn.items()}
    frames = [{name: (size * array[k]).astype(np.float32) for name, array in drawn.items()} for k in range(6)]
    return verdict_on(model, samples, frames, scheme)


def unequal() -> np.ndarray:
    """Factors of brightness: the last sample is dark and of integers, which are no one else's."""
    return np.array([*np.linspace(2.1, 2.9, 127), 1.0])


# ---- faults of the quantizer -----------------------------------------------------------------------------------------


def keeps_the_last_sample(patch: pytest.MonkeyPatch) -> None:
    real = calibrate.calibrate

    def of_last(model: Any, frames: Any, *others: Any) -> Any:
        return real(model, {name: array[-1:] for name, array in frames.items()}, *others)

    patch.setattr(calibrate, "calibrate", of_last)


def of_ranges(change: Callable[[Any], Any], *, samples: slice = slice(None)) -> Inject:
    def apply(patch: pytest.MonkeyPatch) -> None:
        real = choose_grids.mse_range
        patch.setattr(choose_grids, "mse_range", lambda arrays, *a, **named: change(real(arrays[samples], *a, **named)))

    return apply


def halves_every_bias(patch: pytest.MonkeyPatch) -> None:
    halves_biases(patch)


def halves_the_last_bias(patch: pytest.MonkeyPatch) -> None:
    halves_biases(patch, only="scores")


def halves_biases(patch: pytest.MonkeyPatch, only: str = "") -> None:
    writer = next(kind for kind in vars(insert_qdq).values() if isinstance(kind, type) and "term" in vars(kind))
    real = writer.term  # type: ignore[attr-defined]

    def term(self: Any, nodes: Any, name: str) -> Any:
        known = self.known.terms[name]
        if only not in name:
            return real(self, nodes, name)
        stored = isinstance(known, insert_qdq.StoredTerm)
        self.known.terms[name] = replace(known, integers=known.integers // 2) if stored else known / np.float32(2)
        return real(self, nodes, name)

    patch.setattr(writer, "term", term)


def rounds_weights_of_others(patch: pytest.MonkeyPatch) -> None:
    real = sequential_ptq.gptq_round
    patch.setattr(sequential_ptq, "gptq_round", lambda weights, *others: real(weights - 0.5, *others))


def rounds_weights(rounding: Callable[..., Any]) -> Inject:
    """Compensation goes on as before, and hides most of it."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(gptq_rounding, "np", SimpleNamespace(**{**vars(np), "rint": rounding}))

    return apply


FAULTS: dict[str, tuple[Inject, str]] = {
    "the last sample is kept": (keeps_the_last_sample, "must cover its numbers"),
    "ranges of the last sample": (of_ranges(lambda span: span, samples=slice(-1, None)), "must"),
    "half of every range": (of_ranges(lambda span: replace(span, high=span.high / 2)), "must cover its numbers"),
    "ends are swapped": (of_ranges(lambda span: replace(span, low=-span.high, high=-span.low)), "must cover"),
    "ranges are five times as wide": (of_ranges(lambda span: replace(span, high=span.high * 5)), "must be as fine as"),
    "half of every bias": (halves_every_bias, "as near to the float model as plain rounding"),
    "half of the last bias": (halves_the_last_bias, "the bias behind `scores"),
    "weights are rounded down": (rounds_weights(np.floor), "must be rounded to nearest; they are rounded down"),
    "weights are rounded up": (rounds_weights(np.ceil), "must be rounded to nearest; they are rounded up"),
    "weights are rounded towards 0": (rounds_weights(np.trunc), "they are rounded towards 0"),
    "weights are moved": (rounds_weights_of_others, "as near to the float model as plain rounding"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_quantizer_is_named(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inject, said = FAULTS[fault]
    scale = unequal() if "last sample" in fault else None
    assert verdict_of(scale=scale).findings == ()
    inject(monkeypatch)
    findings = verdict_of(scale=scale).findings
    assert findings and any(said in finding for finding in findings), findings


def test_a_finding_ends_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    halves_every_bias(monkeypatch)
    options = BuildOptions(
        model=DIGITS / "digits_float.onnx",
        calibration=DIGITS / "digits_calibration.npz",
        out=tmp_path / "out",
        stop_after=Stage.QUANTIZE,
    )
    with pytest.raises(UserError, match="as near to the float model") as raised:
        build(options)
    assert raised.value.exit_code == ExitCode.MISMATCH
    assert {problem.code for problem in raised.value.problems} == {"quantizer-differs"}
