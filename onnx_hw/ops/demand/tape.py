"""Demand of what brings weights from outside the chip: the reader of a flash, the deal, and the check of results."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_hw.ops.demand.blocks import counted, delayed, engine, position
from onnx_hw_boards.demand import Adder, Demand, LogicFunction, Memory, Register
from onnx_hw_link.flash_tape import ROW_BYTES, FlashTiming, whole_rows

COMMAND_STEPS, DIGEST_NIBBLES = 64, 32
"""Entries of the reader's two tables: what the pins show, and the digest, four bits at a time."""

CRC_BITS, CRC_GATES = 32, 9
"""Bits of the CRC, and how many of them are sums after two bits."""

PASSES_AHEAD_BITS = 16
"""Bits of the counter of passes whose frames have not left."""


def reader_demand(tape_bytes: int, timing: FlashTiming) -> Demand:
    """Return the demand of the reader of a flash, without the FIFO behind it."""
    rows = timing.pass_bytes(whole_rows(tape_bytes)) // ROW_BYTES
    loops = engine([rows, ROW_BYTES, 2, 2 * timing.half_period], inputs=0, outputs=1, conditions=1, some_push=1)
    once = Demand.of(Register(counted(timing.once)), Adder(counted(timing.once)), LogicFunction(4, 4))
    tables = Demand.of(
        LogicFunction(counted(COMMAND_STEPS), 6), LogicFunction(counted(DIGEST_NIBBLES), 4), LogicFunction(4, 26)
    )
    pins = Demand.of(Register(28), LogicFunction(4, 8))
    crc = Demand.of(Register(CRC_BITS + 4), LogicFunction(3, CRC_GATES), LogicFunction(4, 8))
    data = Demand.of(Register(8)) + delayed(7, timing.latency)
    return loops + once + tables + pins + crc + data


def deal_demand(word_bits: Sequence[int], group_words: int, groups: int, runs: int) -> Demand:
    """Return the demand of a deal, without the FIFOs behind it.

    Args:
        word_bits: bits of a word of each core.
        group_words, groups: greatest number of words of a group, and of groups of a run.
        runs: runs of a frame.
    """
    ports, longest = len(word_bits) + 1, max(-(-bits // 8) for bits in word_bits)
    entry = counted(ports) + max(1, counted(groups))
    table = Demand.of(Memory(entry, max(2, runs), constant=True), Register(2 * entry), LogicFunction(4, entry))
    place = position(longest) + position(group_words) + position(groups) + position(runs)
    ends = Demand.of(LogicFunction(max(2, counted(ports)), counted(longest) + counted(group_words)))
    ends += Demand.of(LogicFunction(4, 3 * ports + 9), Register(len(word_bits) + 3))
    return engine([], inputs=1, outputs=len(word_bits)) + table + place + ends + Demand.of(Register(8 + 8 * longest))


def check_demand() -> Demand:
    """Return the demand of the end of a link that holds results until their weights are known to be right."""
    counter = Demand.of(Adder(PASSES_AHEAD_BITS), Register(PASSES_AHEAD_BITS + 5))
    return counter + Demand.of(LogicFunction(PASSES_AHEAD_BITS), LogicFunction(4, 14))
