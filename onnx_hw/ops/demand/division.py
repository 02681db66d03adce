"""Demand of dividers, and of the rings that hold the elements of a pixel until it is read again."""

from __future__ import annotations

from onnx_hw.ops.demand.blocks import (
    counted,
    decoded,
    delayed,
    memories,
    memory_parts,
    position,
    shared_buffer,
)
from onnx_hw_boards.demand import Adder, Comparator, Demand, LogicFunction, Multiplexer, Register


def divider_demand(
    lanes: int, numerator: int, denominator: int, quotient: int, steps: int, *, saturates: bool = True
) -> Demand:
    """Return the demand of dividers that share their denominator.

    Args:
        lanes: dividers.
        numerator, denominator, quotient: bits.
        steps: 1 for a stage per bit of the quotient, or the bits of the quotient.
        saturates: whether a quotient may be greater than its bits hold.
    """
    high = max(1, numerator - quotient)
    start = Demand.of(Comparator(max(high, denominator)), Register(1)) if saturates else Demand()
    digit = Demand.of(Adder(denominator + 1, inverted=0), Multiplexer(2, denominator), Register(denominator))
    rounding = Demand.of(Comparator(denominator + 1), Adder(quotient + 1), Register(quotient + 1))
    if steps == 1:
        waiting = sum(quotient - stage + stage for stage in range(quotient + 1))
        lane = start + quotient * digit + delayed(min(high, denominator) + waiting + quotient * saturates, 1) + rounding
        return lanes * lane + delayed(denominator * (quotient + 1), 1)
    loads = Demand.of(LogicFunction(3, denominator + quotient), Register(2 * quotient))
    return lanes * (start + digit + loads + rounding) + delayed(denominator, 1)


def pixel_ring_demand(width: int, beats: int, steps: int, waits: int, places: int | None = None) -> Demand:
    """Return the demand of a shared buffer for the beats of a pixel, with its memory.

    Args:
        width: bits of a beat.
        beats: beats of a pixel.
        steps: operations that read a beat.
        waits: cycles that a beat waits before it is written.
        places: beats that the memory holds at least; None for a pixel and a beat more.
    """
    words = max(2, 1 << counted(beats + 1 if places is None else places))
    demand = shared_buffer(3 * beats + 2, (0, beats), (0, 1))
    demand += decoded((0, beats), counted(beats) + counted(steps)) if beats * steps > 1 else Demand()
    demand += 2 * position(words) + delayed(width, waits)
    demand += delayed(2 * counted(words) + 1, 1).copied(memory_parts(width, words))
    return demand + memories(width, words) + delayed(width, 1)
