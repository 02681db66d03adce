"""Choice of a circuit for a requantizer: the cheapest one that is proven equal to the exact function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from onnx_hw.exact import lookup_requantizers, multiply_add_shift
from onnx_hw.exact.digit_table import DIGIT_BITS, DigitTable, digit_table
from onnx_hw.exact.integers import Int
from onnx_hw.exact.loadable_line import STEEPEST_LINE_ROOM, LoadableLine
from onnx_hw.exact.lookup_requantizers import LoadableTable, TableRequantizer, ThresholdRequantizer
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.rounding_shift import LoadableBounds, RoundingShift, shift_in_form
from onnx_hw.exact.step_function import Steps

Requantizer = MultiplyAddShift | DigitTable | TableRequantizer | ThresholdRequantizer | RoundingShift
LoadableForm = LoadableLine | LoadableTable | LoadableBounds
"""Form of a requantizer whose constants are loaded at run time."""

WIDEST_LOADABLE_TABLE = 8
"""Greatest width, in bits, of arguments of which a line is loaded as a table."""

WIDEST_LOADABLE_FUNCTION = 10
"""Greatest width, in bits, of arguments of which any function is loaded as a table: as many as a block RAM has words.
"""

FINER_SLOPES, STEEPER_SLOPES = 8, 3
"""Bits by which loaded slopes may need to be finer, or be steeper, than those of the first constants. A slope needs
bits to keep clear of the ties of all its steps: of random slopes, one in some hundreds needs eight more than another.
"""

GREATER_ADDENDS = 2
"""Bits by which loaded addends may be greater than the first ones, at least."""

FINER_SHORT_SLOPES, SHORT_SLOPE_BITS = 4, 16
"""Bits by which loaded slopes may be finer where those of the first constants are m/2^S, m having this many bits."""

LARGEST_TABLE = 1 << 16
"""Greatest number of entries of a table, of all channels together: 28 block RAMs of bytes."""

LARGEST_QUICK_TABLE = 1 << 13
"""Greatest number of entries of a table, of all channels together, that takes the place of a search on a loop."""

BITS_IN_LOGIC = 4608
"""Greatest size, in bits, of a memory that is made of look-up tables."""

BLOCK_RAMS = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
"""Shapes (words, bits) of a block RAM."""

LUTS_PER_BLOCK_RAM = 402
"""Weight of a block RAM: a resource weighs its share of an LFE5U-85F (83,640 LUTs, 208 block RAMs)."""


@dataclass(frozen=True)
class LaneCost:
    """Estimated cost of one lane: four-input look-up tables, block RAMs of 18 kbit."""

    lut: int = 0
    bram: int = 0

    def __add__(self, other: LaneCost) -> LaneCost:
        return LaneCost(self.lut + other.lut, self.bram + other.bram)


def choose(exact: Steps) -> Requantizer:
    """Choose the cheapest circuit equal to ``exact`` on every argument that can occur, and prove it."""
    candidates: list[Requantizer] = [lookup_requantizers.thresholds(exact)]
    multiply = multiply_add_shift.find(exact)
    if multiply is not None:
        candidates.append(multiply)
    if exact.channels << Int.holding(*exact.active_range).bits <= LARGEST_TABLE:
        candidates.append(lookup_requantizers.table(exact))
    best = min(candidates, key=area)
    prove(best, exact)
    return best


def digit_tables(exact: Steps, operand: Int) -> dict[int, DigitTable]:
    """Return circuits equal to ``exact`` that look products up, by the steps of a beat, each proven; empty without any.

    Args:
        operand: type of the arguments, which are not saturated.
    """
    tables: dict[int, DigitTable] = {}
    line = multiply_add_shift.find(exact, operand)
    for digit_bits in DIGIT_BITS:
        table = digit_table(line, operand, digit_bits) if line is not None else None
        if table is not None and table.steps not in tables:
            prove(table, exact)
            tables[table.steps] = table
    return tables


def proven_line(exact: Steps) -> MultiplyAddShift | None:
    """Return the multiplication equal to ``exact``, proven; None for a function that is no line."""
    line = multiply_add_shift.find(exact)
    if line is not None:
        prove(line, exact)
    return line


def quick_table(circuit: Requantizer, exact: Steps) -> TableRequantizer | None:
    """Return the table in place of a circuit that searches, proven; None for other circuits, or if it is large."""
    if not isinstance(circuit, ThresholdRequantizer):
        return None
    if exact.channels << Int.holding(*exact.active_range).bits > LARGEST_QUICK_TABLE:
        return None
    table = lookup_requantizers.table(exact)
    prove(table, exact)
    return table


ROOM_OF_ADDENDS = 18
"""Bits of loaded addends, at least, below the lowest bit of a result."""


def loadable_form(
    exact: Steps, operand: Int, result: Int, slopes: Sequence[Fraction] = (), *, bounded: bool = False
) -> LoadableForm | None:
    """Return a form for functions like this one, and for this one; None where no multiplication computes it.

    Args:
        operand, result: the types of arguments and results.
        slopes: slopes of the function, where they are known.
        bounded: whether functions like this one may have bounds of their own, even where this one has none.
    """
    if operand.bits <= WIDEST_LOADABLE_TABLE:
        return LoadableTable(exact.channels, operand, result)
    if not bounded:  # without bounds of its own, where it needs none
        form = _line_form(exact.onto(result.min, result.max), operand, slopes)
        if form is not None:
            return form
    line = _line_form(exact if exact.low < exact.high else exact.onto(result.min, result.max), operand, slopes, result)
    if line is None and operand.bits <= WIDEST_LOADABLE_FUNCTION:
        return LoadableTable(exact.channels, operand, result)
    return line


def _line_form(
    exact: Steps, operand: Int, slopes: Sequence[Fraction], loaded: Int | None = None
) -> LoadableLine | None:
    """Return the form of a multiplication for functions like this one; arguments as for ``loadable_form``.

    Args:
        loaded: the type of bounds, where they are loaded.
    """
    if slopes and all(map(_is_short, slopes)):
        shift = max(slope.denominator for slope in slopes).bit_length() + FINER_SHORT_SLOPES
        widest, zeros = int(max(slopes) * (1 << shift + STEEPER_SLOPES)), 0
    else:
        circuit = multiply_add_shift.find(exact)
        if circuit is None or circuit.tie_bit is not None:
            return None
        shift = circuit.shift + FINER_SLOPES
        widest = int(circuit.multipliers.max()) << FINER_SLOPES + STEEPER_SLOPES
        zeros = max(0, min(circuit.addend_type.bits - circuit.addend_bits, shift - ROOM_OF_ADDENDS)) // 2
    narrow = LoadableLine.over(exact, operand, shift, widest, zeros, loaded)
    wide = replace(narrow, zeros=0, addend=Int(narrow.addend.bits + STEEPEST_LINE_ROOM))
    for form, reserve in ((narrow, GREATER_ADDENDS), (wide, 0)):
        found = multiply_add_shift.find_in_form(exact, form)
        if found is not None and all(abs(int(c)) >> form.addend.bits - 1 - reserve == 0 for c in found.addends):
            return form
    return None


def _is_short(slope: Fraction) -> bool:
    """Return whether a slope is m/2^S with a short m, as ``requantizer_friendly_scales`` chooses it."""
    numerator, denominator = slope.as_integer_ratio()
    return denominator & denominator - 1 == 0 and numerator.bit_length() <= SHORT_SLOPE_BITS


def in_form(exact: Steps, form: LoadableForm) -> Requantizer | None:
    """Return the circuit of a form that is proven to compute a function; None where none of this form does."""
    match form:
        case LoadableLine():
            if form.low <= exact.low and exact.high <= form.high and (not form.loads_bounds or exact.low == exact.high):
                exact = exact.onto(form.low, form.high)
            circuit: Requantizer | None = multiply_add_shift.find_in_form(exact, form)
        case LoadableTable():
            circuit = lookup_requantizers.table_in_form(exact, form)
        case LoadableBounds():
            circuit = shift_in_form(exact, form)
    if circuit is not None:
        prove(circuit, exact)
    return circuit


def prove(circuit: Requantizer, exact: Steps) -> int:
    """Show that a circuit computes ``exact`` for every channel and every argument that can occur.

    The arithmetic of ``MultiplyAddShift`` is monotone in x (no multiplier is negative), so is the sum of the words of
    one line per channel, and so is a search in ascending thresholds; two monotone functions that agree on both sides of
    every step of one, and at the ends, are equal. A table of results is compared entry by entry.

    Returns:
        the number of values compared.

    Raises:
        ValueError: the circuit differs, or its form is not monotone; says where.
    """
    if circuit.channels != exact.channels:
        raise ValueError(f"the circuit must serve {exact.channels} channels, not {circuit.channels}")
    match circuit:
        case MultiplyAddShift():
            if any(m < 0 for m in circuit.multipliers):
                raise ValueError("no multiplier may be negative")
            if circuit.tie_bit is not None and not 0 <= circuit.tie_bit <= circuit.shift:
                raise ValueError(f"the tie bit must be in 0..{circuit.shift}, not {circuit.tie_bit}")
        case DigitTable():
            if not circuit.is_monotone:
                raise ValueError("the words of a channel must be those of one line, which does not fall")
        case ThresholdRequantizer():
            if (circuit.thresholds[:, 1:] < circuit.thresholds[:, :-1]).any():
                raise ValueError("thresholds must ascend")
    channel, x = exact.every_argument(circuit.clamp) if isinstance(circuit, TableRequantizer) else exact.witnesses()
    actual, expected = circuit.apply(channel, x), exact.at(channel, x)
    wrong = (actual != expected).nonzero()[0]
    if wrong.size:
        k = wrong[0]
        raise ValueError(
            f"the requantizer must give {expected[k]} for {x[k]} in channel {channel[k]}, not {actual[k]}"
            f" ({wrong.size} of {x.size} compared values differ)"
        )
    return int(x.size)


def area(circuit: Requantizer) -> int:
    """Estimate the weight of one lane that serves all channels, to compare forms."""
    return weight_in_luts(costs(circuit, circuit.channels))


def weight_in_luts(each: LaneCost) -> int:
    """Return the weight in LUTs of an LFE5U-85F."""
    return each.lut + LUTS_PER_BLOCK_RAM * each.bram


def costs(circuit: Requantizer, channels: int, steps: int = 1) -> LaneCost:
    """Estimate the cost of one lane that serves this number of channels, in this number of steps a beat."""
    rows, bits = channels if circuit.channels > 1 else 1, circuit.clamp.bits
    match circuit:
        case MultiplyAddShift():
            return _multiplication(circuit, rows, steps)
        case DigitTable():
            words = _memory(rows * circuit.words[0].size, circuit.word_type.bits)
            return words + LaneCost(bits + circuit.sum_type.bits)
        case TableRequantizer():
            return _memory(rows << bits, circuit.entry_type.bits) + LaneCost(3 * bits)
        case RoundingShift():
            return LaneCost(2 * bits - circuit.shift)
        case ThresholdRequantizer():
            # every comparison has a memory of its own, twice as deep as the one before
            memories = (_memory(rows << step, bits) for step in range(circuit.depth))
            return sum(memories, start=LaneCost((circuit.depth + 2) * bits))


def _multiplication(circuit: MultiplyAddShift, rows: int, steps: int) -> LaneCost:
    digits, bits = circuit.rows(steps), circuit.clamp.bits + 1
    fixed = LaneCost(bits + circuit.sum_type.bits // 2 + 20)
    if rows * steps == 1:  # a constant: a digit of 0 costs nothing, another no more than its adder
        return fixed + LaneCost(round(circuit.mean_nonzero_digits) * (bits + digits))
    if steps > 1:
        fixed += LaneCost(2 * (bits + 2 * digits))
    constants = _memory(rows * steps, 2 * digits + -(-circuit.addend_bits // steps))
    return fixed + constants + LaneCost(digits * (bits + 1) + (digits - 1) * (bits + digits))


def _memory(words: int, width: int) -> LaneCost:
    """Estimate a read-only memory's cost: a table holds 16 bits; beyond 64 words further tables choose."""
    if words * width > BITS_IN_LOGIC:
        return LaneCost(0, min(-(-words // depth) * -(-width // bits) for depth, bits in BLOCK_RAMS))
    return LaneCost(-(-words // 16) * width if words <= 64 else words * width // 12)
