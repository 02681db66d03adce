"""Judge of the quantizer (link 2): what it chose, against plain rounding of the float model on the same samples.

Everything before golden is made by the quantizer, and golden equals what it made. So a quantizer that clips a range,
loses a sample or halves a bias would pass every link. Here its choice is compared with ``plain_rounding``, which shares
no line with it:

* each grid covers what the float model makes of the samples, but for a few numbers;
* rounding to it costs not much more than rounding to as many levels between the extremes;
* each tensor and each output of golden is about as near to the float model as those of the plainly rounded model;
* weights are rounded to nearest, and biases leave no mean error (``product_judge``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log10
from typing import Any

import numpy as np

from onnx_hw.messages.errors import ExitCode, Problem, UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.loops import loops_of
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.prove.model.float_fidelity import Fidelity
from onnx_hw.prove.model.known_values import KnownFrame
from onnx_hw.prove.model.plain_rounding import (
    ChosenGrid,
    Frame,
    SeenTensor,
    chosen_grids,
    plain_grid,
    plainly_rounded,
    see_tensors,
)
from onnx_hw.prove.model.product_judge import judge_products
from onnx_hw.samples.sqnr import NoiseStatistics

MAX_SAMPLES = 256
"""Samples of which ranges are derived, evenly chosen."""

MAX_SAMPLES_AGAIN = 16
"""Samples on which fidelity is measured once more, where it is too little on the frames of a build."""

MAX_OUTSIDE, MAX_OUTSIDE_OF_FEW = 0.005, 0.25
"""Greatest share of numbers that lie more than half a step outside of a grid, where that costs something; sound grids
of 8 bits leave out 1 in 5,000. The second one is for a grid of one step: of few bits, more may saturate, since that
makes the step finer.
"""

MAX_SATURATED_DB = 6.0
"""Greatest loss of a grid that leaves out more than that."""

MAX_NOISE_DB = 13.0
"""Greatest loss against as many levels between the extremes. With few samples, a grid is up to four times as wide."""

MAX_BELOW_DB = 18.0
"""Greatest loss of a tensor of golden against the plainly rounded model; 6 dB are usual, 15 behind a logarithm."""

MAX_OUTPUT_BELOW_DB = 24.0
"""The same for an output: a function such as Sigmoid may magnify what is left of a difference of two errors."""

WIDTHS = (1.1, 1.2, 1.35, 1.5, 1.7, 1.9)
"""Widths of other plain grids, relative to the extremes: those of sound grids lie between 1 and 4."""

LEAST_DB = 3.0
"""Fidelity of plain rounding below which a tensor is not judged: its numbers are lost in the noise anyhow."""

ENOUGH_DB = 60.0
"""Fidelity that is never too little: float32 itself ends not far above."""


@dataclass(frozen=True)
class QuantizerVerdict:
    """Verdict on the quantizer.

    Attributes:
        grids, tensors: numbers of what was judged: grids by samples, tensors and outputs by their fidelity.
        findings: what is wrong, in words.
        obstacle: why nothing was judged; empty where it was.
    """

    grids: int = 0
    tensors: int = 0
    findings: tuple[str, ...] = ()
    obstacle: str = ""


def judge_quantizer(
    quantized: Model,
    prepared: Model,
    samples: Mapping[str, np.ndarray],
    fidelity: Fidelity,
    frames: Sequence[Frame],
    equalized: Model | None = None,
) -> QuantizerVerdict:
    """Judge the grids and the network that were made of a float model.

    Args:
        quantized: the quantized model.
        prepared: the float model as prepared for quantization.
        samples: calibration samples by graph input, (samples, *shape).
        fidelity: fidelity of golden on ``frames``.
        equalized: the float model with the names of the quantized one; None where its products are not judged.
    """
    if quantized.states:
        return QuantizerVerdict(obstacle="the network keeps a state")
    if loops_of(prepared.graph.nodes):
        return QuantizerVerdict(obstacle="a tensor leads back to an earlier step")
    grids = chosen_grids(quantized, prepared)
    free = {name for name in grids if _may_saturate(prepared, name)}
    count = min(map(len, samples.values()), default=0)
    if len(free) == len(grids) or not count:
        return QuantizerVerdict(obstacle="there are no samples, or no grids")
    chosen = [{name: array[k] for name, array in samples.items()} for k in range(0, count, -(-count // MAX_SAMPLES))]
    try:
        seen = see_tensors(prepared, chosen, list(grids))
        grids = {name: grid for name, grid in grids.items() if seen[name].values}
        plain = _plain_grids(grids, seen)
        rounded = plainly_rounded(prepared, quantized, plain)
        yardsticks = _without(free, _plain_fidelity(prepared, rounded, fidelity, frames))
        bad = list(_judge_fidelity(fidelity, yardsticks))
        if bad:  # frames may be unlike the samples, and the quantizer knows those alone
            frames = chosen[:: -(-len(chosen) // MAX_SAMPLES_AGAIN)]
            fidelity = _on_samples(fidelity, frames)
            yardsticks = _without(free, _plain_fidelity(prepared, rounded, fidelity, frames))
            bad = list(_judge_fidelity(fidelity, yardsticks))
        if bad:
            least = _least_of_wider(yardsticks, prepared, quantized, plain, fidelity, frames)
            bad = list(_judge_fidelity(fidelity, least))
        of_products = judge_products(quantized, equalized, samples) if equalized is not None else ()
    except UserError as error:
        return QuantizerVerdict(obstacle=error.problems[0].message)
    judged = {name: grid for name, grid in grids.items() if name not in free}
    findings = [*_judge_grids(judged, plain, seen), *bad, *of_products]
    return QuantizerVerdict(len(judged), len(yardsticks), tuple(findings))


def _without(names: Collection[str], likeness: Mapping[str, NoiseStatistics]) -> dict[str, float | None]:
    """Return the fidelity of all other tensors, by name, dB; None where nothing differs."""
    return {name: statistics.sqnr_db for name, statistics in likeness.items() if name not in names}


def _on_samples(fidelity: Fidelity, frames: Sequence[Frame]) -> Fidelity:
    """Return the fidelity of the quantized model on other frames, such as calibration samples."""
    again = Fidelity(fidelity.model, fidelity.prepared, fidelity.quantized)
    for frame in frames:
        values: dict[str, Any] = {}
        outputs = reference.run(fidelity.quantized, frame, observe=values.__setitem__)
        held = {
            name: value for name, value in values.items() if isinstance(value, np.ndarray) and value.dtype.kind in "iu"
        }
        host = {name: values[name] for name in fidelity.host if name in values}
        again.add(frame, KnownFrame(held, host, outputs))
    return again


def _least_of_wider(
    nearest: Mapping[str, float | None],
    prepared: Model,
    quantized: Model,
    plain: Mapping[str, ChosenGrid],
    fidelity: Fidelity,
    frames: Sequence[Frame],
) -> dict[str, float | None]:
    """Return the least fidelity of the model that is rounded plainly to grids of several widths, by name, dB.

    What a wider grid costs anyhow is added. Most tensors lose nothing more. Behind a function that is steep for the
    numbers at hand, such as a Sigmoid of thousands, it is chance which few numbers lie on the wrong side: what the
    widths differ by is taken off.
    """
    found = {name: [inf if one is None else one] for name, one in nearest.items()}
    for width in WIDTHS:
        wider = {
            name: ChosenGrid(name, grid.low * width, grid.high * width, grid.step * width)
            for name, grid in plain.items()
        }
        made = _plain_fidelity(prepared, plainly_rounded(prepared, quantized, wider), fidelity, frames)
        for name in found.keys() & made.keys():
            one = made[name].sqnr_db
            found[name].append(inf if one is None else one + 20 * log10(width))
    return {name: 2 * min(each) - max(each) if max(each) < inf else None for name, each in found.items()}


def _may_saturate(model: Model, name: str) -> bool:
    """Return whether a tensor only meets thresholds, or functions that saturate, such as Sigmoid."""
    readers = [facts_of(node) for node in model.graph.nodes if name in node.inputs]
    return bool(readers) and all(row.effect in (Effect.DECIDES, Effect.BENDS) or row.jumps for row in readers)


def _plain_grids(grids: Mapping[str, ChosenGrid], seen: Mapping[str, SeenTensor]) -> dict[str, ChosenGrid]:
    """Return a plain grid for each tensor; tensors that share a grid have that of all their numbers."""
    spans: dict[tuple[float, float, float], tuple[float, float]] = {}
    for name, grid in grids.items():
        key, one = (grid.low, grid.high, grid.step), seen[name]
        low, high = spans.get(key, (one.low, one.high))
        spans[key] = min(low, one.low), max(high, one.high)
    return {name: plain_grid(grid, *spans[grid.low, grid.high, grid.step]) for name, grid in grids.items()}


def _judge_grids(
    grids: Mapping[str, ChosenGrid], plain: Mapping[str, ChosenGrid], seen: Mapping[str, SeenTensor]
) -> Iterator[str]:
    for name, grid in grids.items():
        numbers = np.concatenate(seen[name].values)
        beyond = (numbers < grid.low - grid.step / 2) | (numbers > grid.high + grid.step / 2)
        span = f"{seen[name].low:.4g} .. {seen[name].high:.4g}"
        if _decibels(float(np.square(numbers).mean()), _loss(numbers, grid)) >= ENOUGH_DB:
            continue
        if beyond.mean() > max(MAX_OUTSIDE, MAX_OUTSIDE_OF_FEW / max(1, grid.levels)):
            if _excess_db(numbers, grid, plain[name], MAX_SATURATED_DB) > MAX_SATURATED_DB:
                yield (
                    f"the integers of `{name}` must cover its numbers on the samples, {span}; they cover "
                    f"{grid.low:.4g} .. {grid.high:.4g}, and {beyond.mean():.1%} of the numbers lie outside"
                )
                continue
        else:
            numbers = numbers[~beyond]  # a few may saturate, and what they lose by that is not the step's fault
        excess = _excess_db(numbers, grid, plain[name], MAX_NOISE_DB)
        if excess > MAX_NOISE_DB:
            yield (
                f"the integers of `{name}` must be as fine as {plain[name].levels + 1:,} levels over {span}; they "
                f"cover {grid.low:.4g} .. {grid.high:.4g}, which costs {excess:.1f} dB more"
            )


def _excess_db(numbers: np.ndarray, grid: ChosenGrid, plain: ChosenGrid, most: float) -> float:
    """Return what rounding to a grid costs more than plain rounding, in dB; the first excess of at most ``most``.

    By chance, few numbers may lie on the plain grid; so grids of other widths are tried, scaled to the extremes.
    """
    lost, excess = _loss(numbers, grid), inf
    for width in (1.0, *WIDTHS):
        excess = min(excess, _decibels(lost * width**2, _loss(numbers, replace(plain, step=plain.step * width))))
        if excess <= most:
            break
    return excess


def _loss(numbers: np.ndarray, grid: ChosenGrid) -> float:
    return float(np.square(grid.rounded(numbers) - numbers).mean())


def _decibels(more: float, less: float) -> float:
    return 10 * log10(max(more, 1e-300) / max(less, 1e-300))


def _judge_fidelity(fidelity: Fidelity, plain: Mapping[str, float | None]) -> Iterator[str]:
    """Judge the fidelity of tensors and outputs against that of plain rounding, by name, dB; others are not judged."""
    for name, statistics in {**fidelity.host, **fidelity.tensors, **fidelity.outputs}.items():
        golden, other = statistics.sqnr_db, plain.get(name)
        most = MAX_OUTPUT_BELOW_DB if name in fidelity.outputs else MAX_BELOW_DB
        if golden is None or other is None or other < LEAST_DB:
            continue
        if golden < min(other - most, ENOUGH_DB - most):
            yield (
                f"`{name}` must be as near to the float model as plain rounding brings it, {other:.1f} dB; golden "
                f"has {golden:.1f} dB"
            )
            return  # what follows has its error from there


def _plain_fidelity(
    prepared: Model, rounded: Model, fidelity: Fidelity, frames: Sequence[Frame]
) -> dict[str, NoiseStatistics]:
    """Return the fidelity of the plainly rounded model, by the names of ``fidelity``."""
    found: dict[str, NoiseStatistics] = {}
    for frame in frames:
        true: dict[str, Any] = {}
        made: dict[str, Any] = {}
        reference.run(prepared, frame, observe=_keep(true, {*fidelity.host, *fidelity.tensors, *fidelity.outputs}))
        reference.run(rounded, frame, observe=_keep(made, {*(f"{name}/plain" for name in true), *true}))
        for name, wanted in true.items():
            given = made.get(f"{name}/plain", made.get(name))
            if isinstance(given, np.ndarray) and isinstance(wanted, np.ndarray) and wanted.dtype.kind == "f":
                found[name] = found.get(name, NoiseStatistics()).with_values(given, wanted)
    return found


def _keep(kept: dict[str, Any], names: set[str]) -> Any:
    def observe(name: str, value: Any) -> None:
        if name in names:
            kept[name] = value

    return observe


def verdict_error(verdict: QuantizerVerdict) -> UserError:
    """Make the error of a quantizer whose choice is worse than plain rounding."""
    hint = "this is a bug of onnx-hw, or the samples hold a few numbers far from all others: please report it"
    problems = [Problem("quantizer-differs", finding, hint=hint, stage="quantize") for finding in verdict.findings]
    return UserError(*problems, exit_code=ExitCode.MISMATCH)
