"""Choosing a circuit for a requantizer: the cheapest one that is proven equal to the exact function."""

from __future__ import annotations

from math import ceil

from onnx_hw.integers import Int
from onnx_hw.quantize import lookups, multiply_add_shift
from onnx_hw.quantize.lookups import Table, Thresholds
from onnx_hw.quantize.multiply_add_shift import MultiplyAddShift
from onnx_hw.quantize.steps import Steps

__all__ = ["Requantizer", "area", "choose", "prove"]

Requantizer = MultiplyAddShift | Table | Thresholds

LARGEST_TABLE = 1 << 16
"""Entries, of all channels together, of the largest table considered: 28 block RAMs of bytes."""

BITS_PER_BLOCK_RAM = 18 * 1024
LUTS_PER_MULTIPLIER = 537
LUTS_PER_BLOCK_RAM = 402
"""A resource weighs as much as its share of an LFE5U-85F: 83,640 LUTs, 156 multipliers, 208 block RAMs."""


def choose(exact: Steps) -> Requantizer:
    """The cheapest circuit equal to ``exact`` on every argument that can occur; its proof has been carried out."""
    candidates: list[Requantizer] = [lookups.thresholds(exact)]
    found = multiply_add_shift.find(exact)
    if found is not None:
        candidates.append(found)
    if exact.channels << Int.holding(*exact.busy).bits <= LARGEST_TABLE:
        candidates.append(lookups.table(exact))
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
        case Thresholds():
            if (circuit.thresholds[:, 1:] < circuit.thresholds[:, :-1]).any():
                raise ValueError("thresholds must ascend")
    channel, x = exact.every_argument(circuit.clamp) if isinstance(circuit, Table) else exact.witnesses()
    given, wanted = circuit.apply(channel, x), exact.at(channel, x)
    wrong = (given != wanted).nonzero()[0]
    if wrong.size:
        k = wrong[0]
        raise ValueError(
            f"the requantizer must give {wanted[k]} for {x[k]} in channel {channel[k]}, not {given[k]}"
            f" ({wrong.size} of {x.size} compared values differ)"
        )
    return int(x.size)


def area(circuit: Requantizer) -> float:
    """What one lane costs, in LUTs of an LFE5U-85F: an estimate for comparing forms."""
    match circuit:
        case MultiplyAddShift():
            constants = circuit.channels * (circuit.multiplier_type.bits + circuit.addend_type.bits)
            return (
                LUTS_PER_MULTIPLIER * multipliers(circuit)
                + _memory(constants if circuit.channels > 1 else 0)
                + circuit.sum_type.bits
                + circuit.clamp.bits
            )
        case Table():
            return _memory(circuit.bits) + circuit.clamp.bits
        case Thresholds():
            # every comparison has a memory of its own, twice as deep as the one before
            memories = (circuit.channels * circuit.clamp.bits << step for step in range(circuit.depth))
            return sum(_memory(bits) + circuit.clamp.bits for bits in memories)


def multipliers(circuit: MultiplyAddShift) -> int:
    """Hardware multipliers (18 × 18) of one lane."""
    if circuit.multiplierless:
        return 0
    return ceil(circuit.clamp.bits / 18) * ceil(circuit.multiplier_type.bits / 18)


def _memory(bits: int) -> float:
    """A read-only memory: four-input LUTs of 16 bits while it is small, block RAMs beyond."""
    return min(bits / 16, LUTS_PER_BLOCK_RAM * ceil(bits / BITS_PER_BLOCK_RAM))
