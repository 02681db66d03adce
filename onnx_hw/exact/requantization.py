"""Choice of a circuit for a requantizer: the cheapest one that is proven equal to the exact function."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.exact import lookup_requantizers, multiply_add_shift
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.step_function import Steps

Requantizer = MultiplyAddShift | TableRequantizer | ThresholdRequantizer

LARGEST_TABLE = 1 << 16
"""Greatest number of entries of a table, of all channels together: 28 block RAMs of bytes."""

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


def prove(circuit: Requantizer, exact: Steps) -> int:
    """Show that a circuit computes ``exact`` for every channel and every argument that can occur.

    The arithmetic of ``MultiplyAddShift`` is monotone in x (no multiplier is negative) and so is a search in ascending
    thresholds; two monotone functions that agree on both sides of every step of one, and at the ends, are equal. A
    table is compared entry by entry.

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
        case TableRequantizer():
            return _memory(rows << bits, Int.holding(circuit.low, circuit.high).bits) + LaneCost(3 * bits)
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
