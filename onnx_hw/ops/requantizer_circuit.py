"""Arithmetic of a requantizer as its core takes it, and the single numbers in it that are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx_hw.exact.digit_table import DigitTable
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import Requantizer
from onnx_hw.exact.rounding_shift import RoundingShift


def circuit_arithmetic(circuit: Requantizer, steps: int) -> Any:
    """Return the circuit's constants as the core takes them, for a number of cycles spent on a beat."""
    from amaranth.hdl import Shape

    from onnx_hw_rtl.cores import requantize as rtl

    clamp = Shape(circuit.clamp.bits, circuit.clamp.signed)
    match circuit:
        case MultiplyAddShift():
            return rtl.MultiplyAddShift(
                clamp,
                [int(m) for m in circuit.multipliers],
                [int(c) for c in circuit.addends],
                circuit.shift,
                circuit.low,
                circuit.high,
                Shape(circuit.sum_type.bits, True),
                circuit.tie_bit,
                circuit.tie_parity,
                steps,
                None if circuit.form is None else (circuit.digits, circuit.form.addend.bits, circuit.form.zeros),
                None if circuit.bounds_type is None else Shape(circuit.bounds_type.bits, circuit.bounds_type.signed),
            )
        case DigitTable():
            total = Shape(circuit.sum_type.bits, True)
            ends = circuit.shift, circuit.low, circuit.high
            return rtl.DigitTable(clamp, circuit.digit_bits, circuit.words, circuit.word_type.bits, total, *ends)
        case TableRequantizer():
            entry_bits = 0 if circuit.form is None else circuit.form.entry.bits + (not circuit.form.entry.signed)
            return rtl.TableRequantizer(clamp, circuit.entries, entry_bits)
        case RoundingShift():
            bounds = Shape(circuit.bounds_type.bits, circuit.bounds_type.signed)
            return rtl.RoundingShift(circuit.shift, circuit.low, circuit.high, circuit.parity, bounds)
        case ThresholdRequantizer():
            return rtl.ThresholdRequantizer(clamp, circuit.thresholds, circuit.low, circuit.high)


def latency_of(circuit: Requantizer, steps: int) -> int:
    """Return the pipeline stages of the arithmetic, behind the last step."""
    match circuit:
        case MultiplyAddShift():
            levels = (circuit.rows(steps) - 1).bit_length()
            return 6 + levels + (steps > 1) + (circuit.tie_bit is not None)
        case DigitTable():
            return 2
        case TableRequantizer():
            return 5
        case RoundingShift():
            return 3
        case ThresholdRequantizer():
            return 3 + 3 * circuit.depth


def loaded_numbers(circuit: Requantizer) -> Mapping[str, tuple[int, Int]]:
    """Return the single numbers that are loaded, and their types, by their names in the core."""
    if not isinstance(circuit, MultiplyAddShift | RoundingShift) or circuit.bounds_type is None:
        return {}
    numbers = {"low": (circuit.low, circuit.bounds_type), "high": (circuit.high, circuit.bounds_type)}
    return numbers | ({"parity": (circuit.parity, Int(1, False))} if isinstance(circuit, RoundingShift) else {})
