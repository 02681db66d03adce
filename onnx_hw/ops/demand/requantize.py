"""Demand of a requantizer's arithmetic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from onnx_hw.exact.digit_table import DigitTable
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import BITS_IN_LOGIC, Requantizer
from onnx_hw.exact.rounding_shift import RoundingShift
from onnx_hw.ops.demand.blocks import (
    added,
    counted,
    decoded,
    delayed,
    engine,
    loaded_memory,
    loaded_number,
    position,
    rom,
    unlike,
)
from onnx_hw.ops.stream_order import Order, channel_words, channels_of
from onnx_hw_boards.demand import Adder, Comparator, Demand, LogicFunction, Memory, Paired, Register, Unseen


def requantize_demand(
    circuit: Requantizer, operand: Int, order: Order, steps: int, latency: int, *, quick: bool = False
) -> Demand:
    """Return the demand of the whole core.

    Args:
        operand: the type of an argument.
        order: in which they come; each group of channels has constants of its own.
        steps: cycles a beat.
        latency: from the last step to the result.
        quick: whether no stage only waits.
    """
    chunks, run = order.groups, order.tile_groups
    rows = chunks if circuit.channels > 1 else 1
    loops = (chunks, run if chunks > 1 else 1, steps)
    if isinstance(circuit, DigitTable):
        return engine(loops, some_pop=1, some_push=1) + _digits_in_tables(circuit, loops, order.width)
    several = int(steps > 1)
    demand = engine(loops, some_pop=several, some_push=several) + delayed(1, latency)
    if steps > 1:
        demand += decoded((0, 1), counted(steps))
    copied = 2 * several
    if rows > 1 and run > 1:
        demand += decoded(range(rows * steps), counted(rows * steps))
    elif rows * steps > 1:
        demand += position(rows * steps)
    copied += counted(rows * steps)
    demand += delayed(copied, 1).copied(order.width)
    if isinstance(circuit, ThresholdRequantizer):
        return demand + _searches(circuit, operand.bits, order)
    if isinstance(circuit, RoundingShift):
        bits = operand.bits - circuit.shift + 1
        result = circuit.bounds_type.bits
        lane = delayed(operand.bits, 1) + Demand.of(LogicFunction(circuit.shift + 2)) + added(bits)
        return (
            demand + order.width * (lane + _loaded_clamp(bits, result)) + 2 * loaded_number(result) + loaded_number(1)
        )
    if quick:
        return demand + order.width * _quick_lane(circuit, operand)
    lane, channel, alike = _lane(circuit, operand, rows, steps)
    channels = order.lanes * channel.copied(order.pixels)
    if isinstance(circuit, MultiplyAddShift) and circuit.bounds_type is not None:
        demand += 2 * loaded_number(circuit.bounds_type.bits)
    return demand + order.width * (delayed(operand.bits, 1) + lane) + channels + alike.copied(order.width)


def _digits_in_tables(circuit: DigitTable, loops: tuple[int, ...], lanes: int) -> Demand:
    """Return the demand of lanes that look the products with digits up, and of what says which step is due."""
    chunks, _, steps = loops
    kinds = [circuit.kind(max(0, step - 1)) for step in range(steps)]
    rows = chunks if circuit.channels > 1 else 1
    due = decoded((0, 1), counted(steps)) + decoded(kinds, counted(steps)) + delayed(counted(rows), 1) + delayed(1, 4)
    digits, total = circuit.digits * circuit.digit_bits, circuit.sum_type.bits
    words = Memory(circuit.word_type.bits, rows * circuit.words[0].size, constant=True, in_logic=False)
    shifted = digits - circuit.digit_bits  # into the highest bits comes 0, which is a reset
    lane = Demand.of(LogicFunction(3, shifted), Register(digits), Paired(shifted), words)
    lane += Demand.of(Adder(total), Register(total), Paired(total))
    lane += Demand.of(Paired(Int.holding(circuit.low, circuit.high).bits))  # with the FIFO behind it
    due += Demand.of(Paired(sum(map(counted, loops))))
    return due + lanes * (lane + bounded(total - circuit.shift, circuit.low, circuit.high))


def _quick_lane(circuit: MultiplyAddShift | TableRequantizer, operand: Int) -> Demand:
    """Return the demand of a lane without the registers that only wait."""
    saturated = _saturate(operand.bits, circuit.clamp.bits) if circuit.clamp != operand else Demand()
    if isinstance(circuit, TableRequantizer):
        return saturated + _rom(circuit.entry_type.bits, 1 << circuit.clamp.bits)
    bounds = _clamp(circuit.sum_type.bits - circuit.shift, circuit.low, circuit.high)
    return saturated + _sum_and_ties(circuit, 0) + bounds


def _lane(
    circuit: MultiplyAddShift | TableRequantizer, operand: Int, rows: int, steps: int
) -> tuple[Demand, Demand, Demand]:
    """Return the demand of each lane by itself, of what the lanes of a channel have in common, pixel by pixel, and of
    what all lanes have in common.
    """
    saturated = _saturate(operand.bits, circuit.clamp.bits)
    match circuit:
        case MultiplyAddShift():
            own, constants, turn = _multiplication(circuit, rows, steps)
            if circuit.form is not None:
                return saturated + own + constants, Demand(), turn
            if rows == 1:
                return saturated + own, Demand(), turn + constants
            merged = all(memory.in_logic for memory, _ in constants.all(Memory))  # block RAMs are not merged
            return (saturated + own, constants, turn) if merged else (saturated + own + constants, Demand(), turn)
        case TableRequantizer():
            width, words = circuit.entry_type.bits, rows << circuit.clamp.bits
            table = _rom(width, words) if circuit.form is None else loaded_memory(width, words)
            return saturated + table + delayed(width, 1), Demand(), delayed(counted(rows), 1)


def _rom(width: int, words: int) -> Demand:
    return rom(unlike(width, words), words, in_logic=width * words <= BITS_IN_LOGIC)


def _saturate(bits: int, clamp: int) -> Demand:
    """Return the demand of a clamp with a register behind it."""
    if clamp >= bits:
        return Demand.of(Register(bits))
    return Demand.of(LogicFunction(bits - clamp + 1), LogicFunction(3, clamp), Register(clamp))


def _clamp(bits: int, low: int, high: int) -> Demand:
    """Return the demand of a clamp of a number of some bits, with a register behind it."""
    return bounded(bits, low, high) + Demand.of(Register(Int.holding(low, high).bits))


def bounded(bits: int, low: int, high: int) -> Demand:
    """Return the demand of a clamp of a number of some bits."""
    result_bits = Int.holding(low, high).bits
    if result_bits >= bits:
        return Demand()
    whole = (low == -(1 << result_bits - 1) and high == ~low) or (low == 0 and high == (1 << result_bits) - 1)
    beyond = LogicFunction(bits - result_bits + 1, 2) if whole else Comparator(bits)
    return Demand.of(beyond, *(() if whole else (beyond,)), LogicFunction(3, result_bits))


def _loaded_clamp(bits: int, result: int) -> Demand:
    """Return the demand of a clamp to loaded bounds, with a register behind it."""
    return Demand.of(Comparator(bits), Comparator(bits), LogicFunction(5, result), Register(result))


def _multiplication(circuit: MultiplyAddShift, rows: int, steps: int) -> tuple[Demand, Demand, Demand]:
    """Return the demand of rows of digits, their tree of adders, the sum over the steps, the addend and the bounds;
    then of what brings the constants, and of what waits with the turn.
    """
    x, digits, widest = circuit.clamp.bits + (not circuit.clamp.signed), circuit.rows(steps), circuit.sum_type.bits
    part, levels = -(-circuit.addend_bits // steps), (digits - 1).bit_length()
    constant = rows * steps == 1 and circuit.form is None
    each: list[tuple[int, ...]] = [(1, 2, 3, 4 + j) for j in range(digits)]  # any digit at all, and unlike the others
    kinds = _digits(circuit, digits, steps) if rows == 1 and circuit.form is None else each
    demand, turn = delayed(x, 1), Demand()
    if circuit.form is not None:
        constants = loaded_memory(2 * digits + part, rows * steps)
    else:
        constants = Demand() if constant else _rom(2 * digits + part, rows * steps)
        part = 0 if constant else unlike(part, rows * steps)
    if not constant:
        constants += delayed(part, levels + 1)
    for codes in set(kinds) - {()}:
        alone = constant and codes != (3,)  # x and 2x are the same registers
        demand += Demand.of(LogicFunction(4, x + 1 if len(set(codes) - {0}) > 1 else 0))
        demand += Demand.of(Register(0 if alone else x + 1)) + (Demand.of(Register(1)) if 3 in codes else Demand())
    demand += _tree(kinds, x, lacks=not constant)
    dropped = 0
    if steps > 1:
        zeros = circuit.addend_type.bits - circuit.addend_bits
        shifted = 2 * digits * (steps - 1)
        dropped = min(zeros, circuit.shift if circuit.tie_bit is None else circuit.tie_bit, shifted)
        turn += delayed(2, 3 + levels)
        demand += Demand.of(Adder(x + 2 * digits + 1), LogicFunction(2, x), Register(x + 2 * digits))
        demand += delayed(shifted - dropped, 1)
        constants += delayed(part * steps, 1)
    demand += _sum_and_ties(circuit, dropped)
    if circuit.bounds_type is not None:
        return demand + _loaded_clamp(widest - circuit.shift, circuit.bounds_type.bits), constants, turn
    return demand + _clamp(widest - circuit.shift, circuit.low, circuit.high), constants, turn


def _sum_and_ties(circuit: MultiplyAddShift, dropped: int) -> Demand:
    """Return the demand of the addend and of the correction of ties, for a sum without its ``dropped`` lowest bits."""
    widest = circuit.sum_type.bits
    first = (circuit.shift if circuit.tie_bit is None else circuit.tie_bit) - dropped  # bit of the sum that is read
    demand = Demand.of(Adder(widest - dropped, carried=first), Register(widest - dropped - first))
    if circuit.tie_bit is not None:
        ties = circuit.shift - circuit.tie_bit
        demand += Demand.of(
            Adder(widest - circuit.tie_bit, carried=ties), Register(widest - circuit.shift), LogicFunction(1)
        )
    return demand


def _tree(kinds: list[tuple[int, ...]], x: int, *, lacks: bool) -> Demand:
    """Return the demand of the sum over the digits of a step, a register behind each adder; sums of like digits are
    made once.

    Args:
        kinds: what the digits are in all steps; empty for one that is always 0.
        x: bits of what they multiply.
        lacks: whether a carry bit has to be kept with each sum.
    """
    demand = Demand()
    terms: list[tuple[int, int, tuple[Any, ...]]] = [(x + 1, 1, kind) for kind in kinds]  # bits, digits, which ones
    while len(terms) > 1:
        sums: list[tuple[int, int, tuple[Any, ...]]] = []
        known_sums: set[tuple[Any, ...]] = set()
        for (bits, count, low), (high, others, upper) in zip(terms[::2], terms[1::2], strict=False):
            both = (low, upper) if low or upper else ()
            sums.append((x + 2 * (count + others), count + others, both))
            if not both or both in known_sums:
                continue
            known_sums.add(both)
            if low and upper:
                demand += Demand.of(Adder(high + 2), Register(x + 2 * (count + others)), Register(int(lacks)))
            else:
                demand += delayed((bits if low else high) + lacks, 1)
        if len(terms) % 2:
            bits, _, kind = terms[-1]
            demand += delayed((bits + lacks) * bool(kind), 1)
            sums.append(terms[-1])
        terms = sums
    return demand


def _digits(circuit: MultiplyAddShift, digits: int, steps: int) -> list[tuple[int, ...]]:
    """Return what each digit of a step of the one multiplier is in all steps; digits that are always 0 are left out."""
    rest, found = int(circuit.multipliers[0]), []
    for _ in range(digits * steps):
        found.append(rest % 4)
        rest = (rest + 1) // 4
    return [codes if any(codes := tuple(found[j::digits])) else () for j in range(digits)]


def _searches(circuit: ThresholdRequantizer, bits: int, order: Order) -> Demand:
    """Return the demand of the searches of all lanes, with registers for their arguments."""
    channels, alike = channels_of(channel_words(order.tensor, order.lanes)), order.pixels
    if circuit.channels == 1:
        channels, alike = np.zeros((1, 1), dtype=np.int64), order.width
    result_bits = Int.holding(circuit.low, circuit.high).bits
    beside = delayed(bits, 1) + _saturate(bits, circuit.clamp.bits)
    beside += Demand.of(LogicFunction(circuit.depth, result_bits), Register(result_bits))
    turn = counted(len(channels)) * (1 + 3 * (circuit.depth - 1))
    demand, known_words = delayed(turn, 1).copied(order.width), set[bytes]()
    for lane in channels.T:
        thresholds = circuit.thresholds[lane]
        if (thresholds > circuit.clamp.min).any():  # what every argument passes needs no comparison
            search, first = _search(circuit, thresholds, known_words)
            demand += alike * (beside + search) + first.copied(alike)
    return demand


def _search(circuit: ThresholdRequantizer, thresholds: np.ndarray, seen: set[bytes]) -> tuple[Demand, Demand]:
    """Return the demand of a search: a comparison for each bit of the result, each with a memory twice as deep as the
    one before.

    Args:
        thresholds: (rows, 2^depth - 1) of the lane's channels.
        seen: what the bits of the first thresholds of other lanes are, channel by channel; this lane's are put into it.

    Returns:
        All but the first memory, which depends on the channel alone; and that memory.
    """
    bits, found, first = circuit.clamp.bits, Demand(), Demand()
    for step in range(circuit.depth):
        words, passed = thresholds[:, (1 << step) - 1 :: 2 << step], circuit.depth - 1 - step
        different, in_logic = _different(words.reshape(-1), bits), words.size * bits <= BITS_IN_LOGIC
        inverted = len(different)
        if passed or not in_logic:
            found += rom(len(different) if in_logic else bits, words.size, in_logic=in_logic)
        else:
            fresh = different - seen
            first, inverted = _first_memory(len(different), len(fresh), len(words), alone=not seen), len(fresh)
            seen |= fresh
        waits = (3 if step else 2) * bits  # the last one passes nothing on
        found += delayed(waits + 3 * passed, 1) + Demand.of(Comparator(bits, inverted), Register(1))
    return found, first


def _different(words: np.ndarray, bits: int) -> set[bytes]:
    """Return what the bits of some words are, word by word, constants left out; bits that are alike count once."""
    columns = words >> np.arange(bits)[:, None] & 1
    return {column.tobytes() for column in columns.astype(bool) if column.any() and not column.all()}


def _first_memory(different: int, fresh: int, words: int, *, alone: bool) -> Demand:
    """Return the demand of a memory of constants whose address is the same in all lanes.

    Args:
        different: bits of a word.
        fresh: how many of them no other lane has.
        alone: whether no other lane has delayed the address.
    """
    if not different:
        return Demand()
    whole = Memory(different, words, constant=True, in_logic=True, latency=2)
    used = replace(whole, width=fresh, latency=2 if alone else 1) if fresh else Register(0)
    return Demand.of(Unseen(whole, used))
