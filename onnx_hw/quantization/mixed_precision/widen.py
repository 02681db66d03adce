"""Wider integers for the tensors that lose most, where the usual width costs the outputs too much.

Most models keep 30 to 50 dB with eight bits everywhere. Those of which a value spans decades (the power of a spectrum
before its logarithm), or that multiply many tensors by each other, do not. The decisions of a first pass go in; if they
are good enough, they are kept. Otherwise the loss of each tensor is measured (``sqnr_by_tensor.py``), the cheapest
additional bits that should suffice are chosen, and the integers are chosen anew. ``post_training`` calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.quantization.decisions import IntegerDecisions
from onnx_hw.quantization.exact_values import ExactGroup
from onnx_hw.quantization.mixed_precision.cost import EXACT
from onnx_hw.quantization.mixed_precision.search import ChosenWidths, CostTable
from onnx_hw.quantization.mixed_precision.sensitivity import TensorKey
from onnx_hw.quantization.mixed_precision.sqnr_by_tensor import TensorLoss
from onnx_hw.quantization.scheme import Precision, Scheme
from onnx_hw.samples.sqnr import MIN_POWER

LEAST_DB = 30.0
"""Least ratio of the outputs' variance to their noise, in dB, with which the usual width is kept."""

LEAST_GATED_DB = 35.0
"""The same for a model that multiplies values by each other: a rare sample lies beyond the ranges of many of its values
at once, so that new samples may lose some dB more than the samples that judge.
"""

GATED_BITS = 9
"""Width of all values of such a model, in bits, where the usual width loses too much: ranges become wider, too."""

AIM_DB = 33.0
"""Ratio that is aimed at with wider tensors, in dB: it is an estimate, and new samples fare a little worse."""

ENOUGH_DB = 32.0
"""Ratio at which no further widths are tried, in dB."""

MAX_ROUNDS = 4
"""Greatest number of times that the integers are chosen anew."""

MAX_ROUNDED_BITS = 12
"""Greatest width of a value that can be exact, in bits: beyond, a requantizer costs more than the exact value."""

ROUND_DB = 3.0
"""Ratio that every further round aims at above the one before, in dB: an estimate was wrong."""

WIDER = (9, 10, 12, 14, 16)
"""Offered widths, in bits."""


@dataclass(frozen=True)
class WidenedTensors(ChosenWidths):
    """Widths of the tensors that are wider than the others."""

    def __str__(self) -> str:
        overrides = (*self.scheme.data_overrides.values(), *self.scheme.weight_overrides.values())
        bits = [precision.bits for precision in overrides]
        tensors = "1 tensor" if len(bits) == 1 else f"{len(bits)} tensors"
        width = f"{bits[0]} bits" if len(set(bits)) == 1 else f"{min(bits, default=0)} to {max(bits, default=0)} bits"
        exact = f"{len(self.scheme.exact)} exact" if self.scheme.exact else ""
        return ", ".join(filter(None, (f"{tensors} of {width}" if bits else "", exact)))


def noise_of(decisions: IntegerDecisions) -> float:
    """Return the noise over the variance of the logits where it is largest; infinite where a number is not finite."""
    if not decisions.finite:
        return float("inf")
    ratios = [decisions.noises[name].sum() / max(spread, MIN_POWER) for name, spread in decisions.spreads.items()]
    return float(max(ratios, default=0.0))


def widen_tensors(
    scheme: Scheme,
    decisions: IntegerDecisions,
    costs: CostTable,
    operands: Mapping[str, int],
    groups: Mapping[str, ExactGroup],
    gated: bool,
    choose: Callable[[Scheme], IntegerDecisions],
    measure: Callable[[IntegerDecisions], Sequence[TensorLoss]],
) -> tuple[IntegerDecisions, WidenedTensors] | None:
    """Return better decisions and the widths that they have; None where the given ones are good enough or the best.

    Args:
        scheme: scheme of the decisions.
        decisions: integers of a first pass.
        costs: cost of each tensor at the usual and at each of the wider widths.
        operands: greatest width, in bits, of values for which a table has an entry for every integer.
        groups: values that can stay without integers, each with the others that do so with it.
        gated: whether the model multiplies values by each other.
        choose: function that chooses the integers of a scheme.
        measure: function that returns the loss of each tensor.
    """
    before = noise_of(decisions)
    if before <= 10 ** (-(LEAST_GATED_DB if gated else LEAST_DB) / 10):
        return None
    best, noise, widths, found = decisions, before, scheme, decisions
    if gated:
        wide = replace(scheme.data, bits=GATED_BITS)
        widths = replace(scheme, data_overrides=dict.fromkeys(decisions.data, wide) | _at_least(scheme, GATED_BITS + 1))
        found = choose(widths)
        if noise_of(found) < noise:
            best, noise, scheme = found, noise_of(found), widths
    for turn in range(MAX_ROUNDS):
        if noise <= 10 ** (-ENOUGH_DB / 10):
            break
        aim = 10 ** (-(AIM_DB + turn * ROUND_DB) / 10) / noise_of(found)
        chosen = _widened(widths, measure(found), aim, costs, operands, groups)
        if chosen == widths:
            break
        widths = chosen
        found = choose(widths)
        if noise_of(found) < noise:
            best, noise, scheme = found, noise_of(found), widths
    if best is decisions:
        return None
    overrides = {"data": scheme.data_overrides, "weights": scheme.weight_overrides}
    total = sum(_cost(costs[TensorKey(k, name)], p.bits) for k, each in overrides.items() for name, p in each.items())
    total += sum(costs[TensorKey("data", name)][EXACT] for name in scheme.exact)
    return best, WidenedTensors(scheme, total, float(-10 * np.log10(noise)))


def _at_least(scheme: Scheme, bits: int) -> dict[str, Precision]:
    """Return the precision of the values that have that many bits already."""
    return {name: precision for name, precision in scheme.data_overrides.items() if precision.bits >= bits}


def _cost(by_width: Mapping[int, float], bits: int) -> float:
    """Return the cost of a width, or of the next narrower one that is offered: values of a loop have others, too."""
    return by_width[max((width for width in by_width if width <= bits and width != EXACT), default=min(by_width))]


def _widened(
    scheme: Scheme,
    losses: Sequence[TensorLoss],
    share: float,
    costs: CostTable,
    operands: Mapping[str, int],
    groups: Mapping[str, ExactGroup],
) -> Scheme:
    """Return a scheme with the cheapest widths that should reduce the noise to a share of it.

    One bit more quarters the noise of a tensor, and an exact value has none. The tensors are widened step by step, each
    time the one whose step saves most noise for its cost.
    """
    exact = set(scheme.exact)
    bits = {loss.tensor: loss.bits for loss in losses}
    lost = {loss.tensor: loss.noise for loss in losses if loss.noise > 0}
    allowed = sum(lost.values()) * min(0.5, share)
    while sum(lost.values()) > allowed:
        steps: list[tuple[float, TensorKey, int]] = []
        for key, each in lost.items():
            if key.kind == "data" and key.name in groups:
                members = [TensorKey("data", name) for name in groups[key.name].names]
                cost = max(sum(costs[one][EXACT] - _cost(costs[one], bits[one]) for one in members), 1.0)
                steps.append((sum(lost.get(one, 0.0) for one in members) / cost, key, EXACT))
            wider = next((width for width in WIDER if width > bits[key]), None)
            most = operands.get(key.name, MAX_ROUNDED_BITS if key.name in groups else WIDER[-1])
            if wider is None or (key.kind == "data" and wider > most):
                continue
            cost = max(costs[key][wider] - _cost(costs[key], bits[key]), 1.0)
            steps.append((each * (1 - 4.0 ** (bits[key] - wider)) / cost, key, wider))
        if not steps:
            break
        _, key, wider = max(steps)
        if wider == EXACT:
            group = groups[key.name]
            exact |= group.names
            lost = {one: each for one, each in lost.items() if one.kind != "data" or one.name not in group.names}
            factors = [TensorKey("data", name) for name in group.factors]
            bits |= dict.fromkeys(factors, max((bits[one] for one in factors), default=0))
            continue
        lost[key] *= 4.0 ** (bits[key] - wider)
        bits[key] = wider
    usual = {"data": scheme.data, "weights": scheme.weights}
    wide = {
        kind: {
            k.name: replace(precision, bits=b)
            for k, b in bits.items()
            if k.kind == kind and b > precision.bits and (kind == "weights" or k.name not in exact)
        }
        for kind, precision in usual.items()
    }
    return replace(scheme, data_overrides=wide["data"], weight_overrides=wide["weights"], exact=frozenset(exact))
