"""Cores that are broken on purpose: what a fault is, and how the proof must see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from amaranth.hdl import Signal

from onnx_hw.exact.integers import Int
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw_rtl.streams import engine
from support.design_bench import Bench, random_stall
from support.hand_built_designs import alone
from support.random_cases import Case

NARROW_IMAGE = Tensor((5, 4, 6), Int(8))
"""Operand of the cores whose netlists are searched for combinational paths."""

WIDE_IMAGE = Tensor((5, 4, 32), Int(8))
"""Operand of the cores whose netlists show how far a control reaches."""


@dataclass(frozen=True)
class Fault:
    """A patch of the circuit, at the seam of its engines and outboxes or in a core's own methods, or one of the law.

    Attributes:
        apply: breaks what is built from now on.
        cases: names of the cases that it must break; the one with the core's name where empty.
        of_law: whether it breaks the law alone; the circuit is then the sound one, which is built once.
    """

    name: str
    apply: Callable[[pytest.MonkeyPatch], None]
    cases: tuple[str, ...] = ()
    of_law: bool = False

    def check(self, case: Case, patch: pytest.MonkeyPatch) -> None:
        """Break the circuit or the law; the proof must see it in the case."""
        bench = sound_bench(case) if self.of_law else None
        self.apply(patch)
        run = prove_case(case, bench)
        assert run.mismatches or run.firing_mismatches, "the proof does not see the fault"


_SOUND: dict[int, tuple[Case, Bench]] = {}


def sound_bench(case: Case) -> Bench:
    """Return the bench of a case without a fault, built at most once in this process."""
    if id(case) not in _SOUND:
        _SOUND[id(case)] = case, bench_of(case)  # the case is kept, and with it its number
    return _SOUND[id(case)][1]


def bench_of(case: Case) -> Bench:
    return Bench(alone(case.operator, case.folding, case.depth))


def prove_case(case: Case, bench: Bench | None = None) -> Run:
    """Prove a case, stalled, in a bench of its own unless one is given."""
    bench = bench or bench_of(case)
    return bench.prove(random_stall(bench.design, case.frames, case.seed), frames=case.frames, seed=case.seed)


def looks_late(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """d off by one: the engine sees the state of the shared buffer one cycle late."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = engine.Engine.holds

        def holds(self: Any, which: int, condition: Any) -> Any:
            condition = original(self, which, condition)
            if self.name != name:
                return condition
            late = Signal(init=name == "writer")
            self.m.d.sync += late.eq(condition)
            return late

        patch.setattr(engine.Engine, "holds", holds)

    return apply


def stale_accumulator(patch: pytest.MonkeyPatch) -> None:
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
