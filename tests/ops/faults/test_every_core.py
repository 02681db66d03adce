"""Deliberate faults of what all cores share, their streams and engines: the proof must see each of them.

A fault is a patch of the circuit, or of a constant of the law (the circuit is then off by one from where it stands).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import connect, flipped

from onnx_hw.ir import design
from onnx_hw.timing import constraints
from onnx_hw_rtl.streams import core, engine
from onnx_hw_rtl.streams.outbox import Outbox
from support.injected_faults import (
    ACCUMULATORS,
    BUFFERS,
    CASES,
    EVERY,
    ONE_LANE,
    Fault,
    each_in_its_cores,
    looks_late,
    prove_case,
)

# ---- outboxes -----------------------------------------------------------------------------------------------------


class Disturbed(Outbox):
    """A good outbox inside a bad one."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.inner = inner = Outbox(self.shape, self.depth)
        connect(m, inner.o, flipped(self.o))
        m.d.comb += [inner.reserve.eq(self.reserve), self.credit_next.eq(inner.credit_next)]
        m.d.comb += [inner.write.eq(self.write), inner.data.eq(self.data)]
        self.disturb(m, inner)
        return m

    def disturb(self, m: Module, inner: Outbox) -> None:
        raise NotImplementedError


class LateByOne(Disturbed):
    """V + 1."""

    def disturb(self, m: Module, inner: Outbox) -> None:
        write, data = Signal(), Signal.like(self.data)
        m.d.sync += [write.eq(self.write), data.eq(self.data)]
        m.d.comb += [inner.write.eq(write), inner.data.eq(data)]


class EarlyByOne(Disturbed):
    """V - 1: a token goes around an empty outbox at once."""

    def disturb(self, m: Module, inner: Outbox) -> None:
        around = Signal()
        m.d.comb += [
            around.eq(~inner.o.valid & self.o.ready & self.write),
            inner.write.eq(self.write & ~around),
            self.o.valid.eq(inner.o.valid | self.write),
            self.o.payload.eq(Mux(inner.o.valid, inner.o.payload.as_value(), self.data.as_value())),
        ]


class DropsUnderStall(Disturbed):
    """A token that arrives while another one is refused is lost."""

    def disturb(self, m: Module, inner: Outbox) -> None:
        m.d.comb += inner.write.eq(self.write & ~(self.o.valid & ~self.o.ready))


class SwapsLanes(Disturbed):
    """Lanes 0 and 1."""

    def disturb(self, m: Module, inner: Outbox) -> None:
        m.d.comb += inner.data.eq(Cat(self.data[1], self.data[0], *(self.data[k] for k in range(2, self.shape.length))))


class OneCreditTooMany(Outbox):
    def count_credits(self, m: Module, pop: Signal) -> None:
        self.depth += 1
        super().count_credits(m, pop)
        self.depth -= 1


class CreditComesLate(Outbox):
    """A place that became free is known one cycle later."""

    def count_credits(self, m: Module, pop: Signal) -> None:
        late = Signal()
        m.d.sync += late.eq(pop)
        super().count_credits(m, late)


def outbox(faulty: type[Outbox]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(core.Core, "outbox_type", faulty)


# ---- the law ------------------------------------------------------------------------------------------------------


def law(**constants: Any) -> Callable[[pytest.MonkeyPatch], None]:
    def apply(patch: pytest.MonkeyPatch) -> None:
        for name, value in constants.items():
            patch.setattr(constraints if hasattr(constraints, name) else design, name, value)

    return apply


# ---- engines ------------------------------------------------------------------------------------------------------


def does_not_wait_for_operands(patch: pytest.MonkeyPatch) -> None:
    """An operation that pops fires though the token is not there."""
    patch.setattr(engine.Engine, "has_token", lambda self, stream: Const(1, 1))


def forgets_to_clear(patch: pytest.MonkeyPatch) -> None:
    """The accumulator is cleared in the first frame alone (in a matmul, the first pixel)."""
    original = engine.Engine.decode

    def decode(self: Any, what: Any, shape: Any = 1, name: str = "flag") -> Any:
        current = original(self, what, shape, name)
        if name != "first":
            return current
        ends, in_first_frame = original(self, self.is_last(*self.loops)), Signal(init=1)
        with self.m.If(self.fire & ends):
            self.m.d.sync += in_first_frame.eq(0)
        return current & in_first_frame

    patch.setattr(engine.Engine, "decode", decode)


# ---- the list -----------------------------------------------------------------------------------------------------


FAULTS = [
    Fault("V is one more", outbox(LateByOne)),
    Fault("V is one less", outbox(EarlyByOne), tuple(name for name in EVERY if name != "fork")),
    Fault("the credit comes one cycle late", outbox(CreditComesLate)),
    Fault("one credit too many", outbox(OneCreditTooMany)),
    Fault("a beat is dropped under stall", outbox(DropsUnderStall)),
    Fault("two lanes are swapped", outbox(SwapsLanes), tuple(name for name in EVERY if name not in ONE_LANE)),
    Fault("the law says V + 1", law(visible_after=lambda *_: 2)),
    Fault("the law says V - 1", law(visible_after=lambda *_: 0)),
    Fault("the law says a credit comes late", law(CREDIT_RETURN=2)),
    Fault("the law says a credit comes early", law(CREDIT_RETURN=0)),
    Fault("the law says d + 1", law(BUFFER_DELAY=2), BUFFERS),
    Fault("the law says d - 1", law(BUFFER_DELAY=0), BUFFERS),
    Fault("the reader looks one cycle late", looks_late("reader"), BUFFERS),
    Fault("the writer looks one cycle late", looks_late("writer"), BUFFERS),
    Fault("operands are not waited for", does_not_wait_for_operands),
    Fault("an accumulator is stale in frame two", forgets_to_clear, ACCUMULATORS),
]


@pytest.mark.parametrize("name", CASES)
def test_without_a_fault(name: str) -> None:
    assert prove_case(CASES[name]).agrees


@pytest.mark.parametrize(("fault", "name"), each_in_its_cores(FAULTS))
def test_fault_is_caught(fault: Fault, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.check(name, monkeypatch)


def test_a_wrong_firing_is_told_with_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "CREDIT_RETURN", 2)
    run = prove_case(CASES["fork"])
    assert run.mismatches == 0
    assert re.fullmatch(
        r"node\.fork, operation 2: predicted cycle \d+, circuit cycle \d+, cycle \d+", str(run.difference)
    )
