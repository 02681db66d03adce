"""A shared buffer's two counters say what rule 4 of the firing law says of absolute numbers of beats."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from amaranth.hdl import Array, Module, Mux, Signal, Value

from onnx_hw_rtl.streams.shared_buffer import SharedBuffer
from support.formal.smt import Claim, Solver

BEATS, CAPACITY = 5, 4
NEEDS = (2, 2, 4, 4)
"""How many beats of the frame must be written for each operation of the reader; the last one is never looked at."""
RELEASED = (0, 1, 2, 5)
"""How many are given back after each: the last one, which may not be there yet, with the frame."""
SPAN = BEATS * 2 + CAPACITY
NUMBERS = 1 << 6
"""Beats are counted modulo so many, which no difference comes near."""


def claim_of(kind: type[SharedBuffer]) -> Claim:
    claim = Claim(m := Module())
    writes, reads = claim.input(1, "writes"), claim.input(1, "reads")
    buffer = kind(CAPACITY, NEEDS[0], SPAN)
    further = [b - a for a, b in zip(NEEDS, [*NEEDS[1:], BEATS + NEEDS[0]], strict=True)]
    freed = [b - a for a, b in zip((0, *RELEASED), RELEASED, strict=False)]

    written, frame = Signal(range(NUMBERS)), Signal(range(NUMBERS), name="frame")  # frame: its first beat
    turn = Signal(range(len(NEEDS)))
    last = turn == len(NEEDS) - 1
    buffer.count(
        m,
        SimpleNamespace(works=writes),
        SimpleNamespace(works=reads),
        further=Array(further)[turn],
        released=Array(freed)[turn],
    )
    with m.If(writes):
        m.d.sync += written.eq(written + 1)
    with m.If(reads):
        m.d.sync += [turn.eq(Mux(last, 0, turn + 1)), frame.eq(Mux(last, frame + BEATS, frame))]

    def less(a: Value, b: Value) -> Value:
        """a < b, of numbers that are near each other."""
        return (a - b)[: len(written)][-1]

    need, given_back = frame + Array(NEEDS)[turn], frame + Array((0, *RELEASED[:-1]))[turn]
    may_read, may_write = ~less(written, need), less(written, given_back + CAPACITY)
    claim.assumed = {"read": ~reads | may_read, "write": ~writes | may_write}
    claim.holds = {"beat": buffer.has_beat == may_read, "room": buffer.has_room == may_write}
    ahead, room = claim.see("ahead", len(buffer._ahead)), claim.see("room", len(buffer._room))
    claim.lemmas = {
        "ahead": ahead.as_signed() == (written - need)[: len(written)].as_signed(),
        "room": room.as_signed() == (given_back + CAPACITY - 1 - written)[: len(written)].as_signed(),
        "not_behind": ~less(written, (frame - (BEATS - NEEDS[-1]))[: len(written)]),
        "not_beyond": ~less(given_back + CAPACITY, written),
    }
    return claim


def test_both_conditions_are_those_of_the_law(tmp_path: Path) -> None:
    solver = Solver(claim_of(SharedBuffer), tmp_path)
    assert solver.counterexample(12) is None
    assert solver.step() is None


class TakesOneBeatMore(SharedBuffer):
    """Than there is room for."""

    def __init__(self, capacity: int, first_need: int, span: int) -> None:
        super().__init__(capacity + 1, first_need, span)


def test_a_broken_buffer_does_not_keep_the_law(tmp_path: Path) -> None:
    found = Solver(claim_of(TakesOneBeatMore).without_lemmas(), tmp_path).counterexample(12)
    assert found is not None and "holds_room" in found
