"""A gearbox emits the elements that came in, in turn, when the firing law says so: beats of 2 into beats of 3.

A pixel has five channels: three beats come in, the last one half used, and two leave. Beside the circuit stands a plain
list of the beats that came, of which every beat that leaves takes its elements.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value

from onnx_hw_rtl.cores.gearbox import Gearbox
from onnx_hw_rtl.streams.stream import StreamShape, bits_of
from support.formal.naive_edge import NaiveEdge
from support.formal.outbox_lemmas import all_of, lemmas_of_outbox
from support.formal.smt import Claim, Solver

CHANNELS, IN, OUT, CAPACITY, DEPTH = 5, 2, 3, 4, 2
IN_BEATS = 3
NEEDS, GIVEN_BACK = (2, 3), (0, 1)
"""Beats of the pixel that must have come before each beat leaves, and how many are given back before it leaves."""
SLOTS = 8
"""Of the list, which is a ring: more than are ever needed at once."""


class NaiveGearbox:
    """The list, and both sides' places in it.

    Attributes:
        slots: the last beats that came.
        base: slot of the first beat of the pixel that leaves.
        ahead: beats that have come since then.
        comes_at: which beat of its pixel comes next.
        leaves_at: which beat of its pixel leaves next.
        came: one did in the cycle before.
        left: stage by stage after a beat leaves the list, (whether there is one, its elements).
    """

    def __init__(self, m: Module, valid: Value, data: Value, place_free: Value) -> None:
        self.slots = Array(Signal(IN, name=f"slot{k}") for k in range(SLOTS))
        self.base, self.ahead = Signal(range(SLOTS), name="base"), Signal(range(SLOTS), name="ahead_of_base")
        self.comes_at, self.leaves_at = Signal(range(IN_BEATS), name="comes_at"), Signal(name="leaves_at")
        self.came = Signal(name="came")
        self.may_come, self.comes, self.leaves = Signal(name="may_come"), Signal(name="comes"), Signal(name="leaves")
        m.d.comb += [
            self.may_come.eq(self.ahead < Array(GIVEN_BACK)[self.leaves_at] + CAPACITY),
            self.comes.eq(valid & self.may_come),
            self.leaves.eq((self.ahead >= Array(NEEDS)[self.leaves_at]) & place_free),
        ]
        ends = self.leaves & self.leaves_at
        m.d.sync += [self.came.eq(self.comes), self.ahead.eq(self.ahead + self.comes - Mux(ends, IN_BEATS, 0))]
        with m.If(self.comes):
            m.d.sync += self.slots[self.slot(self.ahead)].eq(data)
            m.d.sync += self.comes_at.eq(Mux(self.comes_at == IN_BEATS - 1, 0, self.comes_at + 1))
        with m.If(self.leaves):
            m.d.sync += [self.leaves_at.eq(~self.leaves_at), self.base.eq(self.base + Mux(ends, IN_BEATS, 0))]
        elements = Cat(self.slots[self.slot(beat)] for beat in range(IN_BEATS))
        self.left = [(self.leaves, Mux(self.leaves_at, elements[OUT:], elements[:OUT]))]
        for k in range(1, Gearbox.LATENCY + 1):
            there, beat = Signal(name=f"left{k}"), Signal(OUT, name=f"beat{k}")
            m.d.sync += [there.eq(self.left[-1][0]), beat.eq(self.left[-1][1])]
            self.left.append((there, beat))

    def slot(self, beat: Any) -> Value:
        """Where a beat lies, counted from the first one of the pixel that leaves."""
        return (self.base + beat)[: len(self.base)]


def claim_of(kind: type[Gearbox]) -> Claim:
    claim = Claim(m := Module())
    m.submodules.gearbox = box = kind(
        channels=CHANNELS, i=StreamShape(IN, 1), o=StreamShape(OUT, 1), capacity=CAPACITY, depth=DEPTH
    )
    valid, data, ready = claim.input(1, "valid"), claim.input(IN, "data"), claim.input(1, "ready")
    m.d.comb += [box.i.valid.eq(valid), bits_of(box.i.payload).eq(data), box.o.ready.eq(ready)]
    place_free = Signal(name="place_free")
    naive = NaiveGearbox(m, valid, data, place_free)
    edge = NaiveEdge(m, OUT, DEPTH, 1, naive.leaves, *naive.left[-1], ready)
    m.d.comb += place_free.eq(edge.free != 0)
    claim.holds = {
        "ready": box.i.ready == naive.may_come,
        "fires": box.fires == Cat(naive.comes, naive.leaves),
        "valid": box.o.valid == edge.valid,
        "payload": ~edge.valid | (bits_of(box.o.payload) == edge.tokens[0]),
    }
    claim.lemmas = {
        **{
            f"o_{what}": lemma
            for what, lemma in lemmas_of_outbox(claim, "gearbox.outbox_o", box.outboxes["o"], edge).items()
        },
        **lemmas_of_control(claim, naive, edge),
        **lemmas_of_data(claim, naive),
    }
    return claim


def lemmas_of_control(claim: Claim, naive: NaiveGearbox, edge: NaiveEdge) -> dict[str, Value]:
    def see(wire: str, shape: Any = 1) -> Signal:
        return claim.see(f"gearbox.{wire}", shape)

    needs, given_back = Array(NEEDS)[naive.leaves_at], Array(GIVEN_BACK)[naive.leaves_at]
    arriving = [there for there, _ in naive.left[1:]]
    return {
        "ahead": naive.ahead <= given_back + CAPACITY,
        "not_behind": naive.ahead >= Mux(naive.leaves_at, NEEDS[0], 0),
        "comes_at": naive.comes_at == naive.ahead % IN_BEATS,
        "came": ~naive.came | (naive.ahead != 0),
        "owed": edge.owed == sum(arriving),
        "has_beat": see("ahead", 5).as_signed() == naive.ahead - needs,
        "has_room": see("room", 5).as_signed() == given_back + CAPACITY - 1 - naive.ahead,
        "writer": see("writer_go") & see("writer_pop"),
        "reader": see("reader_push") & (see("reader_go") == (edge.free != 0)),
        "writer_next": see("writer_beat_next", range(IN_BEATS)) == Mux(naive.comes_at == 2, 0, naive.comes_at + 1),
        "reader_next": see("reader_beat_next") == ~naive.leaves_at,
        "further": see("reader_further", 4) == Mux(naive.leaves_at, 2, 1),
        "freed": see("reader_freed", 4) == Mux(naive.leaves_at, 2, 1),
        "lasts": (see("writer_last") == (naive.comes_at == 2)) & (see("reader_last") == naive.leaves_at),
        "arriving": Cat(see("write_1"), see("write_2"), see("written_1")) == Cat(arriving),
    }


def lemmas_of_data(claim: Claim, naive: NaiveGearbox) -> dict[str, Value]:
    """Every beat that is still needed lies in the ring at its place, but for one that has just come."""

    def see(wire: str, shape: Any = 1) -> Signal:
        return claim.see(f"gearbox.{wire}", shape)

    def chosen(of: list[Value], place: Value) -> Value:
        return Mux(place, Cat(of)[OUT:], Cat(of)[:OUT])

    ring = [Array(see(f"place{p}_from0_words[{b}]", IN) for b in range(2)) for p in range(IN_BEATS)]
    controls = [see(f"place{p}_copy0.register", 3) for p in range(IN_BEATS)]
    write_block, read_block = see("writer_block"), see("reader_block")
    new = (naive.ahead - 1)[: len(naive.ahead)]  # the beat that has just come
    lie = []
    for beat in range(GIVEN_BACK[-1] + CAPACITY):
        needed = (naive.ahead > beat) & ~(naive.came & (new == beat)) & (beat >= Array(GIVEN_BACK)[naive.leaves_at])
        there = ring[beat % IN_BEATS][read_block ^ (beat // IN_BEATS)]
        lie.append(~needed | (there == naive.slots[naive.slot(beat)]))
    read = [words[control[2]] for words, control in zip(ring, controls, strict=True)]
    stored = [see(f"place{p}_from0_1", IN) for p in range(IN_BEATS)]
    first, second, third = naive.left[1:]
    return {
        "positions": (see("writer_place", 2) == naive.comes_at) & (see("reader_place") == naive.leaves_at),
        "blocks": write_block ^ read_block == (naive.ahead >= IN_BEATS),
        "data": ~naive.came | (see("data_1", IN) == naive.slots[naive.slot(new)]),
        "strobes": all_of(c[0] == naive.came & (naive.comes_at == (p + 1) % IN_BEATS) for p, c in enumerate(controls)),
        "written_to": ~naive.came | all_of(c[1] == read_block ^ (new >= IN_BEATS) for c in controls),
        "ring": all_of(lie),
        "stage1": ~first[0] | (chosen(read, see("read_place_1")) == first[1]),
        "stage2": ~second[0] | (chosen(stored, see("read_place_copy0.register")) == second[1]),
        "stage3": ~third[0] | (see("chosen", OUT) == third[1]),
    }


def test_a_gearbox_is_a_list_of_elements(tmp_path: Path) -> None:
    solver = Solver(claim_of(Gearbox), tmp_path)
    assert solver.counterexample(8) is None
    assert solver.step() is None


class StoresTooMuch(Gearbox):
    """It gives a place of the ring away before its beat is read."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.capacity += 2


def test_a_broken_gearbox_is_none(tmp_path: Path) -> None:
    found = Solver(claim_of(StoresTooMuch).without_lemmas(), tmp_path).counterexample(8)
    assert found is not None and "holds_ready" in found
