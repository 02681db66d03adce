"""Exact arithmetic of a requantizer, as its circuit takes it."""

from __future__ import annotations

from typing import Any

from onnx_hw.exact.digit_table import DigitTable
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import Requantizer


def circuit_arithmetic(chosen: Requantizer, steps: int) -> Any:
    """Return the constants of a requantizer's circuit that takes a number of steps for a beat."""
    from amaranth.hdl import Shape

    from onnx_hw_rtl.cores import requantize as rtl

    clamp = Shape(chosen.clamp.bits, chosen.clamp.signed)
    match chosen:
        case MultiplyAddShift() as circuit:
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
            )
        case DigitTable() as circuit:
            total = Shape(circuit.sum_type.bits, True)
            ends = circuit.shift, circuit.low, circuit.high
            return rtl.DigitTable(clamp, circuit.digit_bits, circuit.words, circuit.word_type.bits, total, *ends)
        case TableRequantizer() as circuit:
            entry_bits = 0 if circuit.form is None else circuit.form.entry.bits + (not circuit.form.entry.signed)
            return rtl.TableRequantizer(clamp, circuit.entries, entry_bits)
        case ThresholdRequantizer() as circuit:
            return rtl.ThresholdRequantizer(clamp, circuit.thresholds, circuit.low, circuit.high)
