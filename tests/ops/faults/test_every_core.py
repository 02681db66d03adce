"""Deliberate faults, which the proof must see: of what all cores share, their streams and engines, and of each core.

A fault is a patch of the circuit, or of a constant of the law (the circuit is then off by one from where it stands).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import connect, flipped

from onnx_hw.ir import design
from onnx_hw.timing import constraints
from onnx_hw_rtl.streams import core, engine
from onnx_hw_rtl.streams.outbox import Outbox
from support import core_tests
from support.injected_faults import Fault, looks_late, prove_case, sound_bench
from support.random_cases import Case

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


# ---- the list -----------------------------------------------------------------------------------------------------


CASES: dict[str, Case] = core_tests.collect("CASES")
EVERY = tuple(core_tests.operator_files())
"""Names of the cases that see the faults of every core: one for each operator."""


def every(holds: Callable[[Case], bool]) -> tuple[str, ...]:
    """Return the names of the cases of which something holds."""
    return tuple(name for name in EVERY if holds(CASES[name]))


def has_latency(case: Case) -> bool:
    """Whether a token takes a cycle at least, so that it could go around the outbox without a loop."""
    return all(engine.latency for engine in case.operator.schedule(case.folding).engines if engine.pushes)


def has_buffers(case: Case) -> bool:
    return bool(case.operator.schedule(case.folding).buffers)


def has_lanes(case: Case) -> bool:
    return all(order.width > 1 for order in case.operator.output_orders(case.folding))


FAULTS = [
    Fault("V is one more", outbox(LateByOne), EVERY),
    Fault("V is one less", outbox(EarlyByOne), every(has_latency)),
    Fault("the credit comes one cycle late", outbox(CreditComesLate), EVERY),
    Fault("one credit too many", outbox(OneCreditTooMany), EVERY),
    Fault("a beat is dropped under stall", outbox(DropsUnderStall), EVERY),
    Fault("two lanes are swapped", outbox(SwapsLanes), every(has_lanes)),
    Fault("the law says V + 1", law(visible_after=lambda *_: 2), EVERY, of_law=True),
    Fault("the law says V - 1", law(visible_after=lambda *_: 0), EVERY, of_law=True),
    Fault("the law says a credit comes late", law(CREDIT_RETURN=2), EVERY, of_law=True),
    Fault("the law says a credit comes early", law(CREDIT_RETURN=0), EVERY, of_law=True),
    Fault("the law says d + 1", law(BUFFER_DELAY=2), every(has_buffers), of_law=True),
    Fault("the law says d - 1", law(BUFFER_DELAY=0), every(has_buffers), of_law=True),
    Fault("the reader looks one cycle late", looks_late("reader"), every(has_buffers)),
    Fault("the writer looks one cycle late", looks_late("writer"), every(has_buffers)),
    Fault("operands are not waited for", does_not_wait_for_operands, EVERY),
]
FAULTS_OF_CORES = [
    replace(fault, cases=fault.cases or (name,))
    for name in core_tests.operator_files()
    for fault in core_tests.load(name).FAULTS
]
"""Deliberate faults of single cores, their buffers, constants and arithmetic, from the cores' own test files."""


def in_their_cases(faults: list[Fault]) -> list[object]:
    """Parameters (fault, name of a case) of a test."""
    return [pytest.param(fault, name, id=f"{name}: {fault.name}") for fault in faults for name in fault.cases]


@pytest.mark.parametrize("name", CASES)
def test_without_a_fault(name: str) -> None:
    assert prove_case(CASES[name], sound_bench(CASES[name])).agrees


@pytest.mark.parametrize(("fault", "name"), in_their_cases(FAULTS))
def test_fault_is_caught(fault: Fault, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.check(CASES[name], monkeypatch)


@pytest.mark.parametrize(("fault", "name"), in_their_cases(FAULTS_OF_CORES))
def test_fault_of_a_core_is_caught(fault: Fault, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.check(CASES[name], monkeypatch)


def test_a_wrong_firing_is_told_with_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design, "CREDIT_RETURN", 2)
    run = prove_case(CASES["fork"], sound_bench(CASES["fork"]))
    assert run.mismatches == 0
    assert re.fullmatch(
        r"node\.fork, operation 2: predicted cycle \d+, circuit cycle \d+, cycle \d+", str(run.difference)
    )
