"""Outbox: the FIFO at the end of an edge. It belongs to the producing core; how deep it is is decided last."""

from __future__ import annotations

from onnx_hw.ops.operator import Resources
from onnx_hw.ops.sliding import ring_blocks

DEEPEST_IN_LUTRAM = 33
"""FIFOs of more tokens live in block RAM."""

CREDIT_RETURN = 1
"""Cycles from a pop until its place may be reserved again, where producer and consumer are neighbours."""


def visible_after(depth: int) -> int:
    """V of the law, where they are: cycles from a token's arrival in the FIFO until its consumer sees it."""
    return 1 if depth <= DEEPEST_IN_LUTRAM else 3


LUTS_PER_CELL = 6
CELLS_BELOW_A_BLOCK = 21
"""On ECP5 distributed memory comes in cells of 16 words of 4 bits, and yosys makes at most so many of a memory that
might be block RAM."""


def outbox_resources(width: int, depth: int) -> Resources:
    """What a FIFO of ``depth`` tokens of ``width`` bits takes of an ECP5.

    The memory is counted. The counters, and the one or two multiplexers of each bit, are fitted to what yosys makes of
    the circuit.
    """
    if depth == 1:
        return Resources(lut=5)
    in_lutram = depth <= DEEPEST_IN_LUTRAM
    address = max(1, (depth - in_lutram - 1).bit_length())
    words = 1 << address
    banks = -(-words // 16)
    cells = banks * -(-width // 4)
    distributed = width * banks + LUTS_PER_CELL * cells
    if in_lutram:
        return Resources(lut=15 + 12 * address + distributed)
    if cells <= CELLS_BELOW_A_BLOCK:
        return Resources(lut=30 + 8 * address + 2 * width + distributed)
    return Resources(lut=30 + 8 * address + 2 * width, bram=max(1, ring_blocks(width, words, 1)))
