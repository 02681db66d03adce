"""The memories that a core demands are those of its circuit: which of them are block RAMs depends on each one."""

from __future__ import annotations

import re
from collections import Counter
from math import gcd, lcm
from random import Random
from typing import Any

import numpy as np
import pytest

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import ThresholdRequantizer
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.ops.add import Add
from onnx_hw.ops.demand.blocks import memories
from onnx_hw.ops.demand.requantize import requantize_demand
from onnx_hw.ops.demand.sliding import reached
from onnx_hw.ops.folding import ElementFolding, EvenFolding
from onnx_hw.ops.gearbox import Gearbox, GearboxFolding
from onnx_hw.ops.kept_state import KeptState
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.rearrange import Rearrange, RearrangeFolding
from onnx_hw.ops.reduce import Reduce, ReduceFolding
from onnx_hw.ops.regroup import Regroup, RegroupFolding
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Adder, Comparator, Demand, Memory, Multiplexer, Unseen
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_boards.families.family import Family
from onnx_hw_boards.families.gowin.recipes import GOWIN
from onnx_hw_boards.families.ice40.recipes import ICE40_UP
from onnx_hw_rtl.target import Target
from support.random_cores import drawn, kinds

WRITTEN = re.compile(r"^  memory width (\d+) size (\d+) \\(?:ring|vector|weights|elements|powers|state_from)\w*", re.M)
OTHERWISE_NAMED = {"gearbox", "reduce", "regroup"}
"""Kinds of cores whose memories have other names than ``WRITTEN`` matches; other tests below look at them."""


@pytest.mark.parametrize("kind", [kind for kind in kinds() if kind not in OTHERWISE_NAMED])
def test_memories_that_are_written(kind: str) -> None:
    for turn in range(2):
        core = drawn(kind, 41, turn)
        assert_memories_are_stated(core.operator, core.folding)


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_memories_of_few_words(capacity: int) -> None:
    """All weights of a pixel come in one word; a memory has two at least."""
    operator = MatMul(Tensor((1, 1, 3), Int(8)), Tensor((1, 4, 3), Int(6)), capacity=capacity)
    assert_memories_are_stated(operator, MatMulFolding(3, 4))


@pytest.mark.parametrize("tile", [1, 2, 4, 16])
def test_memories_of_a_tile(tile: int) -> None:
    """The vectors of all its pixels, and two groups of weights."""
    operator = MatMul(Tensor((4, 4, 12), Int(8)), np.arange(120).reshape(10, 12), taped=True, tile=tile)
    for lanes in ((2, 3), (12, 1), (1, 5)):
        assert_memories_are_stated(operator, MatMulFolding(*lanes, tile=tile))


def test_memory_of_both_ports() -> None:
    """The address of a wide state goes to the write and to the read port, and has twice as many copies."""
    assert_memories_are_stated(KeptState(Tensor((8, 8, 16), Int(8))), EvenFolding(16))


def assert_memories_are_stated(operator: Operator[Any], folding: Any) -> None:
    demand = operator.demand(folding)
    stated = demand.all(Memory) + [
        (part.whole, count) for part, count in demand.all(Unseen) if isinstance(part.whole, Memory)
    ]
    said = Counter[tuple[int, int]]()
    for part, count in stated:
        if not part.constant:
            said[part.width, part.depth] += count
    rtlil = to_rtlil(operator.core(folding, dict.fromkeys(operator.outputs, 2)), Target(ICE40_UP.primitives()))
    assert said == Counter((int(width), int(size)) for width, size in WRITTEN.findall(rtlil)), operator


@pytest.mark.parametrize("seed", range(20))
def test_what_a_gearbox_never_reads_is_not_stored(seed: int) -> None:
    """Lanes behind the last channel, which beats that are no divisor of the channels have."""
    draw = Random(seed)
    channels = draw.randint(2, 24)
    while True:
        folding = GearboxFolding(draw.randint(1, min(channels, 12)), draw.randint(1, min(channels, 12)))
        operator = Gearbox(Tensor((3, 3, channels), Int(5)))
        if not operator.illegal(folding) and not operator.parts(folding):  # whole ratios have no ring
            break
    places = min(-(-channels // folding.in_lanes), lcm(folding.in_lanes, folding.out_lanes) // folding.in_lanes)
    taken = {(c // folding.in_lanes % places, c % folding.in_lanes) for c in range(channels)}
    group = gcd(folding.in_lanes, folding.out_lanes)
    whole = {(place, lane // group) for place, lane in taken}
    assert sum(part.width * count for part, count in operator.demand(folding).all(Memory)) >= 5 * len(taken)
    beats = -(-channels // folding.out_lanes) * folding.out_lanes
    most = {(c // folding.in_lanes % places, c % folding.in_lanes // group) for c in range(beats)}
    assert sum(part.width * count for part, count in operator.demand(folding).all(Memory)) <= 5 * group * len(
        most | whole
    )


@pytest.mark.parametrize("seed", range(20))
def test_slices_that_synthesis_cannot_leave_out(seed: int) -> None:
    """Whatever flip-flops that start as 0 and never differ may hold, by trying all of it."""
    draw = Random(seed)
    most = draw.randint(2, 12)
    numbers = np.array([draw.randrange(most) for _ in range(draw.randint(1, 5))])
    columns = [numbers >> k & 1 for k in range(most.bit_length())]
    found = set()
    for number in range(1 << len(columns)):
        bits = [number >> k & 1 for k in range(len(columns))]
        kept = all(a.any() or not bit for a, bit in zip(columns, bits, strict=True))
        if kept and all(
            bit == other
            for a, bit in zip(columns, bits, strict=True)
            for b, other in zip(columns, bits, strict=True)
            if (a == b).all()
        ):
            found.add(min(number, most - 1))
    assert reached(columns, most) == sorted(found)
    assert found >= {0, *numbers.tolist()}


@pytest.mark.parametrize(("bits", "rows", "lanes", "blocks"), [(6, 1, 3, 0), (9, 1, 3, 0), (10, 1, 3, 3), (9, 4, 1, 1)])
def test_a_table_is_a_block_where_it_is_said_to_be(bits: int, rows: int, lanes: int, blocks: int) -> None:
    """One of 4,608 bits is none; the tables of a lane's channels are one memory."""
    dtype = Int(9)
    values = np.random.default_rng(bits).integers(dtype.min, dtype.max + 1, (rows, 1 << bits))
    operator, folding = Lookup(Tensor((2, 2, rows * lanes), Int(bits)), values, dtype), ElementFolding(lanes)
    netlist = to_rtlil(operator.core(folding, {"o": 1}), Target(ECP5.primitives()))
    assert netlist.count(r"cell \DP16KD ") == ECP5.cost(operator.demand(folding)).bram == blocks


def test_an_address_of_nine_bits_takes_no_tenth_in_its_table() -> None:
    """2,048 words of nine bits are one block RAM, of ten two."""
    source = np.random.default_rng(0).integers(0, 512, 2048)
    source[[0, -1]] = 511, 0  # all of the operand has come before the first, and is kept until after the last
    operator = Rearrange(Tensor((1, 512, 1), Int(8)), (1, 2048, 1), source, capacity=512)
    folding = RearrangeFolding(1, 1)
    assert max(operator.plan(folding).loops) == 2048
    netlist = to_rtlil(operator.core(folding, {"o": 1}), Target(ECP5.primitives()))
    assert netlist.count(r"cell \DP16KD ") == 1


def test_totals_that_are_read_early_may_be_block_ram() -> None:
    """Where look-up tables are no memories, and there are many totals."""
    few, many = (Reduce(Tensor((4, 4, channels), Int(8)), "sum") for channels in (8, 16))
    assert ICE40_UP.cost(few.demand(ReduceFolding(4))).bram == 0
    assert ICE40_UP.cost(many.demand(ReduceFolding(1))).bram == 1 and ECP5.cost(many.demand(ReduceFolding(1))).bram == 0


def test_an_operand_that_is_subtracted_is_inverted_where_a_carry_does_not() -> None:
    plus, minus = (Add(*[Tensor((4, 4, 4), Int(8))] * 2, (1, sign)) for sign in (1, -1))  # type: ignore[call-arg]
    added, subtracted = (ICE40_UP.cost(one.demand(one.folding_type(2))).lut for one in (plus, minus))
    assert subtracted >= added + 2 * 7


@pytest.mark.parametrize("seed", range(8))
def test_thresholds_of_two_words_compare_for_nothing_where_a_carry_does(seed: int) -> None:
    """Each bit of them is a constant, the turn, or the turn's complement, in all lanes; iCE40 inverts these once."""
    draw = Random(seed)
    bits, lanes = draw.randint(8, 14), draw.randint(2, 6)
    half = 1 << bits - 2
    one, other = (np.array([draw.randrange(-half, half)], dtype=np.int64) for _ in range(2))
    ends = np.array([-half, half - 1])  # so that the clamp is as wide as the arguments of the other lanes
    compared = []
    for rows in (2, 3):
        thresholds = np.array([one, other] * lanes + [ends[:1], ends[1:]] * lanes)[: rows * lanes]
        circuit = ThresholdRequantizer(Int(bits), thresholds, 0, 1)
        order = Order(Tensor((2, 2, rows * lanes), Int(bits)), lanes)
        found = requantize_demand(circuit, Int(bits), order, 1, 6)
        inverted = [part.inverted for part, count in found.all(Comparator) for _ in range(count)]
        assert len(inverted) == lanes
        compared.append(sum(inverted))
    assert compared[0] <= 2 and compared[1] <= 6  # 2 ** rows - 2 bits that are no constants


def test_a_lane_that_every_argument_passes_is_no_comparison() -> None:
    thresholds = np.array([[5], [-64], [9], [-64]])
    order = Order(Tensor((2, 2, 4), Int(7)), 2)
    found = requantize_demand(ThresholdRequantizer(Int(7), thresholds, 0, 1), Int(7), order, 1, 6)
    assert sum(count for _, count in found.all(Comparator)) == 1


@pytest.mark.parametrize("tie_bit", [0, 3, 6])
def test_a_sum_whose_ties_are_corrected_is_kept_once_more(tie_bit: int) -> None:
    """Before the correction from the bit on at which it is made, behind it what the shift leaves; so is the adder."""
    multiplier, addend = np.array([99], dtype=object), np.array([1 << 7], dtype=object)
    order, made = Order(Tensor((2, 2, 4), Int(16)), 2), []
    for corrected in (None, tie_bit):
        circuit = MultiplyAddShift(Int(16), multiplier, addend, 8, -128, 127, corrected)
        assert circuit.sum_type.bits == 23
        demand = requantize_demand(circuit, Int(16), order, 1, 6)
        made.append((ECP5.cost(demand).ff, sum(part.bits * count for part, count in demand.all(Adder))))
    (plain, added), (kept, corrections) = made
    assert kept - plain == order.width * (8 - tie_bit + 23 - 8)
    assert corrections - added == order.width * (23 - tie_bit)


def test_a_part_that_nobody_reads_is_nothing_where_synthesis_sees_it() -> None:
    """With its register, and no less than nothing."""
    unread = memories(32, 16, ((0, 16),))
    assert GOWIN.cost(unread) == GOWIN.cost(memories(16, 16))
    assert ECP5.cost(unread) == ECP5.cost(memories(32, 16))


@pytest.mark.parametrize("family", [ECP5, ICE40_UP, GOWIN], ids=repr)
def test_a_constant_beside_one_lane_is_a_reset(family: Family) -> None:
    def tables(*ways: int, cleared: bool) -> list[int]:
        parts = (Multiplexer(count, 64, tree=True, cleared=cleared) for count in ways)
        return [family.cost(Demand.of(part)).lut for part in parts]

    assert tables(2, 3, cleared=True) == tables(1, 2, cleared=False)
    assert tables(4, 9, cleared=True) == tables(4, 9, cleared=False)
    at = np.arange(32).reshape(4, 4, 2)
    padded = np.pad(at, ((1, 1), (1, 1), (0, 0)), constant_values=-1)
    for source, constant in ((at[1:], False), (padded, True)):
        operator = Rearrange(Tensor((4, 4, 2), Int(8)), source.shape, source.reshape(-1))
        demand = operator.demand(RearrangeFolding(2, 2))
        chosen = [part for part, count in demand.all(Multiplexer) for _ in range(count)]
        assert [(part.ways, part.cleared) for part in chosen] == [(2, True) if constant else (1, False)] * 2


@pytest.mark.parametrize("operator", [Gearbox, Reduce, Regroup], ids=lambda kind: str(kind.__name__))
def test_words_that_may_be_block_ram_are_read_by_a_clock_there(operator: type) -> None:
    """What is read at once and then registered would be made of a block RAM with bypasses around it."""
    image = Tensor((4, 4, 8), Int(8))
    core, folding = {
        Gearbox: lambda: (Gearbox(image), GearboxFolding(2, 3)),
        Reduce: lambda: (Reduce(image, "sum"), ReduceFolding(1)),
        Regroup: lambda: (Regroup(image), RegroupFolding(1, 1, 2)),
    }[operator]()  # type: ignore[index]
    read = re.compile(r"  cell \$memrd_v2 .*?\n  end\n", re.S)
    for family, at_once in ((ICE40_UP, False), (ECP5, True), (GOWIN, True)):
        ports = read.findall(to_rtlil(core.core(folding, {"o": 1}), Target(family.primitives())))
        assert ports and all(("CLK_ENABLE 0" in port) == at_once for port in ports), family.name
