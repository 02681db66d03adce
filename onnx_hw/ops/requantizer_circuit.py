"""Folding of a requantizer, its arithmetic as the core takes it, and the single numbers in it that are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from onnx_hw.exact.digit_table import DigitTable
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import Requantizer, prove
from onnx_hw.exact.rounding_shift import RoundingShift
from onnx_hw.exact.step_function import Steps
from onnx_hw.ops.folding import Folding


@dataclass(frozen=True, repr=False)
class RequantizeFolding(Folding):
    """Folding of a requantizer.

    Attributes:
        lanes: channels per beat.
        steps: cycles spent on a beat.
        pixels: pixels per beat.
        tile: pixels of a tile; 0 for those of a beat.
        blocks: 1 where products with digits, one digit a step, or the results are looked up in block RAM; else 0.
        quick: 1 for a pipeline without stages that only wait, as on a loop; else 0.
    """

    lanes: int
    steps: int = 1
    pixels: int = 1
    tile: int = 0
    blocks: int = 0
    quick: int = 0

    @property
    def width(self) -> int:
        """Elements that are treated side by side."""
        return self.lanes * self.pixels


def of_few_stages(circuit: Requantizer | None, operand: Int, exact: Steps) -> Requantizer | None:
    """Return arithmetic for a pipeline without stages that only wait, proven equal to ``exact``, or None.

    One table, or a shift, needs nothing that depends on the channel. A shift also needs no saturation if the bounds of
    the result are reached all the same.
    """
    if isinstance(circuit, TableRequantizer) and circuit.channels == 1 and circuit.form is None:
        return circuit
    if not isinstance(circuit, MultiplyAddShift) or circuit.channels > 1 or circuit.form is not None:
        return None
    if int(circuit.multipliers[0]).bit_count() != 1:
        return None
    unsaturated = replace(circuit, clamp=operand)
    try:
        prove(unsaturated, exact)
    except ValueError:
        return circuit
    return unsaturated


def circuit_arithmetic(circuit: Requantizer, steps: int, quick: Int | None = None) -> Any:
    """Return the circuit's constants as the core takes them.

    Args:
        steps: cycles spent on a beat.
        quick: the type of an argument, for a pipeline without stages that only wait.
    """
    from amaranth.hdl import Shape

    from onnx_hw_rtl.cores import requantize as rtl

    clamp = Shape(circuit.clamp.bits, circuit.clamp.signed)
    given = None if quick is None else Shape(quick.bits, quick.signed)
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
                given,
            )
        case DigitTable():
            total = Shape(circuit.sum_type.bits, True)
            ends = circuit.shift, circuit.low, circuit.high
            return rtl.DigitTable(clamp, circuit.digit_bits, circuit.words, circuit.word_type.bits, total, *ends)
        case TableRequantizer():
            entry_bits = 0 if circuit.form is None else circuit.form.entry.bits + (not circuit.form.entry.signed)
            return rtl.TableRequantizer(clamp, circuit.entries, entry_bits, given)
        case RoundingShift():
            bounds = Shape(circuit.bounds_type.bits, circuit.bounds_type.signed)
            return rtl.RoundingShift(circuit.shift, circuit.low, circuit.high, circuit.parity, bounds)
        case ThresholdRequantizer():
            return rtl.ThresholdRequantizer(clamp, circuit.thresholds, circuit.low, circuit.high)


def latency_of(circuit: Requantizer, steps: int, quick: Int | None = None) -> int:
    """Return the pipeline stages of the arithmetic, behind the last step; ``quick`` as for ``circuit_arithmetic``."""
    if quick is not None:
        ties = isinstance(circuit, MultiplyAddShift) and circuit.tie_bit is not None
        return 2 + (circuit.clamp != quick) + ties
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
