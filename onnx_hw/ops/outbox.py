"""Outbox: the FIFO at the end of an edge. It belongs to the producing core; how deep it is is decided last."""

from __future__ import annotations

from onnx_hw.ops.demand.blocks import BITS_PER_COPY, copied
from onnx_hw.ops.operator import Resources, priced
from onnx_hw_boards.demand import Demand, LogicFunction, LoopCounter, Memory, Register, UpDown
from onnx_hw_boards.families.default import usual_price
from onnx_hw_boards.families.family import Price

DEEPEST_IN_LUTRAM = 33
"""FIFOs of more tokens live in block RAM, where no chip's family says otherwise."""

CREDIT_RETURN = 1
"""Cycles from a pop until its place may be reserved again, where producer and consumer are neighbours."""


def visible_after(depth: int, deepest_at_once: int = DEEPEST_IN_LUTRAM) -> int:
    """Return V of the law: the cycles from a token's arrival in the FIFO until its consumer sees it.

    Args:
        deepest_at_once: tokens of the deepest FIFO whose memory is read in the cycle of its address; not in block RAM.
    """
    return 1 if depth <= deepest_at_once else 3


def outbox_demand(width: int, depth: int, deepest_at_once: int = DEEPEST_IN_LUTRAM) -> Demand:
    """Return the demand of a FIFO of ``depth`` tokens of ``width`` bits: credits, storage, output register."""
    parts, credits = -(-width // BITS_PER_COPY), depth.bit_length()
    strobes = copied(1, width) if parts > 1 else Demand()
    if depth == 1:
        return Demand.of(Register(width + 3 + credits), LogicFunction(4, 4)) + strobes
    in_lutram = depth <= deepest_at_once
    address = max(1, (depth - in_lutram - 1).bit_length())
    demand = Demand.of(Register(2 * address), LoopCounter(1 << address), LoopCounter(1 << address))  # pointers
    if in_lutram:
        flags, held, gates = 3, address + 1, 14
        memory = Memory(width, 1 << address, at_once=True, bypassed=True, parts=parts)
        demand += Demand.of(memory, Register(width)) + strobes
    else:
        flags, held, gates = 6, credits, 16
        demand += Demand.of(Memory(width, 1 << address), Register(3 * width), LogicFunction(4, 2 * width))
    if parts > 1:
        demand += copied(2 if in_lutram else 4, width) + Demand.of(LogicFunction(4, 1)).copied(2 + parts)
    demand += Demand.of(UpDown(credits), UpDown(held), Register(2 + credits + held + flags))
    return demand + Demand.of(LogicFunction(4, gates))


def outbox_resources(
    width: int, depth: int, price: Price = usual_price, deepest_at_once: int = DEEPEST_IN_LUTRAM
) -> Resources:
    """Return the cost of such a FIFO on the chips of a family."""
    return priced(outbox_demand(width, depth, deepest_at_once), price=price)
