"""Deliberate faults: every core is broken on purpose, and the proof must see it.

A fault is a patch of the circuit, or of a constant of the law (the circuit is then off by one from where it stands);
the product has no hooks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import connect, flipped

from drawn import ByArithmetic, Case
from networks import alone, prove
from onnx_hw import timing
from onnx_hw.integers import Int
from onnx_hw.network import Tensor
from onnx_hw.ops.add import Add
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Folding
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.window import Window
from onnx_hw.prove import Run
from onnx_hw_rtl import add, core, depthwise, engine, gearbox, matmul, reduce, requantize, sliding
from onnx_hw_rtl.outbox import Outbox

IMAGE = Tensor((4, 4, 4), Int(8))
TALL = Tensor((5, 4, 4), Int(8))
COLUMN = Tensor((9, 1, 2), Int(8))
SIXTEENTHS = tuple(Fraction(k, 16) for k in (1, 2, 1, 4))  # every step is a tie
WEIGHTS = np.random.default_rng(0).integers(-128, 128, (5, 4))
KERNELS = np.random.default_rng(0).integers(-128, 128, (4, 2, 2))

CASES = {
    "window": Case(Window(IMAGE, (3, 3), pads=(1, 1, 1, 1), pad_value=-9, capacity=16), Folding(4, 4), depth=2),
    "pool": Case(Pool(TALL, "sum", (2, 2), (2, 2), (0, 0, 1, 1), capacity=8), Folding(4, 2), depth=2, seed=1),
    "depthwise": Case(
        Depthwise(TALL, KERNELS, (2, 2), (0, 0, 1, 1), pad_value=-9, capacity=8), Folding(4, 2), depth=2, seed=1
    ),
    "reduce": Case(Reduce(Tensor((1, 2, 6), Int(8)), "sum"), Folding(2, 2), depth=2, seed=3),
    "matmul": Case(MatMul(IMAGE, WEIGHTS), Folding(2, 2), depth=2),
    "gearbox": Case(Gearbox(Tensor((2, 2, 12), Int(8))), Folding(3, 4), depth=2),
    "requantize": Case(ByArithmetic(IMAGE, SIXTEENTHS, (Fraction(0),), -8, 7, 0, Int(4)), Folding(2, 2), depth=2),
    "fork": Case(Fork(IMAGE), Folding(2, 2), depth=2),
    "add": Case(Add(IMAGE, IMAGE, (7, -3)), Folding(2, 2), depth=2),
}
EVERY = tuple(CASES)
CASES |= {  # an operation reads what was written one cycle before and is overwritten one cycle later
    "narrow window": Case(Window(COLUMN, (3, 1), capacity=4), Folding(2, 6), depth=9),
    "narrow pool": Case(Pool(COLUMN, "max", (1, 1), capacity=2), Folding(2, 2), depth=9),
    "narrow depthwise": Case(Depthwise(COLUMN, KERNELS[:2, :1, :1], capacity=2), Folding(2, 2), depth=9),
}
BUFFERS = ("window", "pool", "depthwise", "gearbox")
SLIDING = ("window", "pool", "depthwise")
NARROW = ("narrow window", "narrow pool", "narrow depthwise")
ACCUMULATORS = ("pool", "depthwise", "reduce", "matmul")


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
    def _count_credits(self, m: Module, pop: Signal) -> None:
        self.depth += 1
        super()._count_credits(m, pop)
        self.depth -= 1


class CreditComesLate(Outbox):
    """A place that became free is known one cycle later."""

    def _count_credits(self, m: Module, pop: Signal) -> None:
        late = Signal()
        m.d.sync += late.eq(pop)
        super()._count_credits(m, late)


def outbox(faulty: type[Outbox]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(core, "Outbox", faulty)


# ---- the law ------------------------------------------------------------------------------------------------------


def law(**constants: Any) -> Callable[[pytest.MonkeyPatch], None]:
    def apply(patch: pytest.MonkeyPatch) -> None:
        for name, value in constants.items():
            patch.setattr(timing, name, value)

    return apply


# ---- engines ------------------------------------------------------------------------------------------------------


def looks_late(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """d off by one: the engine sees the state of the shared buffer one cycle late."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = engine.Engine.__init__

        def init(self: Any, m: Module, its_name: str, loops: Any, **arguments: Any) -> None:
            if its_name == name:
                late = Signal(init=name == "writer")
                m.d.sync += late.eq(arguments["condition"])
                arguments["condition"] = late
            original(self, m, its_name, loops, **arguments)

        patch.setattr(engine.Engine, "__init__", init)

    return apply


def does_not_wait_for_operands(patch: pytest.MonkeyPatch) -> None:
    """An operation that pops fires though the token is not there."""
    patch.setattr(engine, "_all", lambda conditions: Const(1, 1))
    original = engine.Engine._fire_with_one_input

    def fire(self: Any, go_next: Any, stream: Any, pops_at: Any) -> None:
        always = type("AlwaysValid", (), {"valid": Const(1, 1), "ready": stream.ready})()
        original(self, go_next, always, pops_at)

    patch.setattr(engine.Engine, "_fire_with_one_input", fire)


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


# ---- shared buffers -----------------------------------------------------------------------------------------------


def needs_differ(by: int) -> Callable[[pytest.MonkeyPatch], None]:
    """A window waits for one beat more, or less, than it touches."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = sliding.SlidingBuffer._needed
        patch.setattr(sliding.SlidingBuffer, "_needed", lambda self, row, column: original(self, row, column) + by)

    return apply


def in_a_taller_image(method: str) -> Callable[[pytest.MonkeyPatch], None]:
    """The last row is off by one: a method of the buffer believes that there is another."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = getattr(sliding.SlidingBuffer, method)

        def taller(self: Any, axis: int) -> Any:
            geometry = self.geometry
            (height, width, channels), (top, left, bottom, right) = geometry.shape, geometry.pads
            shape, pads = (height + 1, width, channels), (top, left, bottom - 1, right)
            self.geometry = replace(geometry, shape=shape, pads=pads)
            try:
                return original(self, axis)
            finally:
                self.geometry = geometry

        patch.setattr(sliding.SlidingBuffer, method, taller)

    return apply


def writes_in_stage(stage: int) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(sliding.SlidingBuffer, "WRITE_STAGE", stage)


def fetches_swapped_lanes(patch: pytest.MonkeyPatch) -> None:
    original = sliding.SlidingBuffer._fetch

    def fetch(self: Any, source: Any) -> Any:
        first, second, *others = original(self, source)
        return [second, first, *others]

    patch.setattr(sliding.SlidingBuffer, "_fetch", fetch)


def ring_of_one_block_less(patch: pytest.MonkeyPatch) -> None:
    original = gearbox._blocks_touched
    patch.setattr(gearbox, "_blocks_touched", lambda *arguments: original(*arguments) - 1)


# ---- constants ----------------------------------------------------------------------------------------------------


def one_weight_is_wrong(patch: pytest.MonkeyPatch) -> None:
    original = matmul.MatMul.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.weights[3, 1] ^= 1

    patch.setattr(matmul.MatMul, "__init__", init)


def one_kernel_weight_is_wrong(patch: pytest.MonkeyPatch) -> None:
    """The last tap of the last channel."""
    original = depthwise.Depthwise.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.weights[3, 3] ^= 1

    patch.setattr(depthwise.Depthwise, "__init__", init)


def weights_of_the_neighbour(patch: pytest.MonkeyPatch) -> None:
    """Two lanes have changed their weights."""
    original = depthwise.Depthwise._weights

    def weights(self: Any, *arguments: Any) -> Any:
        first, second, *others = original(self, *arguments)
        return [second, first, *others]

    patch.setattr(depthwise.Depthwise, "_weights", weights)


def weights_come_late(patch: pytest.MonkeyPatch) -> None:
    """Beside the element of the next tap."""
    original = depthwise.Depthwise._weights
    patch.setattr(
        depthwise.Depthwise,
        "_weights",
        lambda self, m, reader: [engine.delayed(m, weight, 1, "late") for weight in original(self, m, reader)],
    )


def requantizes_with(change: Callable[[Any], dict[str, Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other constants than those that were proven."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = requantize.Requantize.__init__

        def init(self: Any, arithmetic: Any, **named: Any) -> None:
            original(self, replace(arithmetic, **change(arithmetic)), **named)

        patch.setattr(requantize.Requantize, "__init__", init)

    return apply


def one_addend_is_wrong(arithmetic: requantize.MultiplyAddShift) -> dict[str, Any]:
    addends = list(arithmetic.addends)
    addends[3] += 1 << (arithmetic.shift - 1)
    return {"addends": addends}


def one_pixel_less(patch: pytest.MonkeyPatch) -> None:
    original = reduce.Reduce.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named | {"pixels": named["pixels"] - 1})

    patch.setattr(reduce.Reduce, "__init__", init)


def adds_with(*digits: tuple[tuple[int, int], ...]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other factors; as many digits, so that the timing stays."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = add.Add.__init__

        def init(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **named | {"digits": digits})

        patch.setattr(add.Add, "__init__", init)

    return apply


# ---- the list -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    name: str
    apply: Callable[[pytest.MonkeyPatch], None]
    cores: tuple[str, ...] = EVERY


FAULTS = [
    Fault("V is one more", outbox(LateByOne)),
    Fault("V is one less", outbox(EarlyByOne), tuple(name for name in EVERY if name != "fork")),
    Fault("the credit comes one cycle late", outbox(CreditComesLate)),
    Fault("one credit too many", outbox(OneCreditTooMany)),
    Fault("a beat is dropped under stall", outbox(DropsUnderStall)),
    Fault("two lanes are swapped", outbox(SwapsLanes)),
    Fault("the law says V + 1", law(visible_after=lambda depth: 2)),
    Fault("the law says V - 1", law(visible_after=lambda depth: 0)),
    Fault("the law says a credit comes late", law(CREDIT_RETURN=2)),
    Fault("the law says a credit comes early", law(CREDIT_RETURN=0)),
    Fault("the law says d + 1", law(BUFFER_DELAY=2), BUFFERS),
    Fault("the law says d - 1", law(BUFFER_DELAY=0), BUFFERS),
    Fault("the reader looks one cycle late", looks_late("reader"), BUFFERS),
    Fault("the writer looks one cycle late", looks_late("writer"), BUFFERS),
    Fault("operands are not waited for", does_not_wait_for_operands),
    Fault("an accumulator is stale in frame two", forgets_to_clear, ACCUMULATORS),
    Fault("a window waits for a beat too many", needs_differ(+1), SLIDING),
    Fault("a window does not wait for its last beat", needs_differ(-1), SLIDING),
    Fault("the padding begins a row too late", in_a_taller_image("_inside"), SLIDING),
    Fault("the last row waits for a row that is not there", in_a_taller_image("_last_touched"), SLIDING),
    Fault("two lanes of the window are swapped", fetches_swapped_lanes, SLIDING),
    Fault("a beat is written after it is read", writes_in_stage(4), NARROW),
    Fault("a beat is overwritten before it is read", writes_in_stage(1), NARROW),
    Fault("the ring is a block too short", ring_of_one_block_less, ("gearbox",)),
    Fault("one weight of one lane is wrong", one_weight_is_wrong, ("matmul",)),
    Fault("one weight of one lane is wrong", one_kernel_weight_is_wrong, ("depthwise",)),
    Fault("two lanes have each other's weights", weights_of_the_neighbour, ("depthwise",)),
    Fault("the weights come one cycle late", weights_come_late, ("depthwise",)),
    Fault(
        "ties go to the odd neighbour", requantizes_with(lambda a: {"tie_parity": 1 - a.tie_parity}), ("requantize",)
    ),
    Fault("the result saturates too late", requantizes_with(lambda a: {"high": a.high + 1}), ("requantize",)),
    Fault("one channel's addend is wrong", requantizes_with(one_addend_is_wrong), ("requantize",)),
    Fault("a digit of a factor has the wrong sign", adds_with(((1, 3), (1, 0)), ((-1, 2), (1, 0))), ("add",)),
    Fault("a digit of a factor has the wrong weight", adds_with(((1, 3), (-1, 0)), ((-1, 2), (1, 1))), ("add",)),
    Fault("the last pixel belongs to the next frame", one_pixel_less, ("reduce",)),
]


def prove_case(case: Case) -> Run:
    lanes = case.folding.in_lanes, case.folding.out_lanes
    return prove(alone(case.operator, lanes, case.depth), frames=case.frames, seed=case.seed)


@pytest.mark.parametrize("name", CASES)
def test_without_a_fault(name: str) -> None:
    assert prove_case(CASES[name]).agrees


@pytest.mark.parametrize(
    ("fault", "name"),
    [pytest.param(fault, name, id=f"{name}: {fault.name}") for fault in FAULTS for name in fault.cores],
)
def test_fault_is_caught(fault: Fault, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.apply(monkeypatch)
    run = prove_case(CASES[name])
    assert run.mismatches or run.firing_mismatches, "the proof does not see the fault"


def test_a_wrong_value_is_told_in_the_words_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensor, frame, row, column, channel: output 3 is lane 1 of the second group."""
    one_weight_is_wrong(monkeypatch)
    run = prove_case(CASES["matmul"])
    assert run.firing_mismatches == 0
    assert re.fullmatch(r"node\.o\[0, 0, 0, 3\]: golden -?\d+, circuit -?\d+, cycle \d+", str(run.difference))


def test_a_wrong_firing_is_told_with_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "CREDIT_RETURN", 2)
    run = prove_case(CASES["fork"])
    assert run.mismatches == 0
    assert re.fullmatch(
        r"node\.fork, operation 2: predicted cycle \d+, circuit cycle \d+, cycle \d+", str(run.difference)
    )
