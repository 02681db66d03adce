"""Deliberate faults of Rearrange: the core is broken on purpose, and the proof must see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from amaranth.hdl import Const, Module, Signal

from onnx_hw.ops.rearrange import RearrangeFolding
from onnx_hw.timing import constraints
from onnx_hw_rtl.cores import rearrange
from onnx_hw_rtl.streams import engine
from support.injected_faults import looks_late, prove_case
from support.random_cases import Case
from support.rearrangements import MAPS, rearranged

Patch = Callable[[pytest.MonkeyPatch], None]


def case(name: str, lanes: tuple[int, int], capacity: int | None = None, **more: Any) -> Case:
    operator = rearranged(*MAPS[name], fill=-77)
    if capacity is not None:
        operator = type(operator)(operator.operand, operator.shape, operator.source, operator.fill, capacity)
    return Case(operator, RearrangeFolding(*lanes), **{"depth": 2} | more)


def live(name: str, lanes: tuple[int, int]) -> int:
    return rearranged(*MAPS[name]).live_capacity(RearrangeFolding(*lanes))


def at_live(name: str, lanes: tuple[int, int], **more: Any) -> Case:
    """With no beat to spare: what is released one operation early is overwritten before it is read."""
    return case(name, lanes, live(name, lanes), **more)


CASES = {
    "pad": case("pad constant", (4, 4)),
    "transpose": case("transpose (1, 0, 2)", (2, 2), seed=1),
    "backwards": case("slice backwards", (4, 2)),
    "depth to space": case("depth to space CRD", (4, 2)),
    "signal": case("a signal, padded", (2, 2)),
    "resize": case("upsample 3 × 1", (4, 4), capacity=8),
}
EVERY = tuple(CASES)
CASES |= {
    "tight": at_live("upsample 2", (4, 4), depth=9, seed=2),
    "narrow": case("column", (2, 2), capacity=2, depth=9),
    "crop": case("crop and pad", (4, 4), depth=9),
}


def at_elaboration(method: str, change: Callable[[Any, Any], Any]) -> Patch:
    """What a method of the circuit returns is changed: ``change(core, result)``."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = getattr(rearrange.Rearrange, method)
        patch.setattr(rearrange.Rearrange, method, lambda self, *given: change(self, original(self, *given)))

    return apply


def located(change: Callable[[Any], None]) -> Patch:
    """The circuit believes in another map."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = rearrange.Rearrange._locate

        def locate(self: Any, *given: Any) -> None:
            original(self, *given)
            change(self)

        patch.setattr(rearrange.Rearrange, "_locate", locate)

    return apply


def wrong_address(core: Any, parts: list[list[int]]) -> list[list[int]]:
    """One turn of the longest loop is a beat off."""
    longest = max(parts, key=len)
    longest[len(longest) // 2] += 1
    return parts


def wrong_slice(core: Any) -> None:
    """Two lanes of a stored beat are confused, in the last output beat alone."""
    last = core.takes[-1]
    core.takes[-1] = [taken ^ 1 if taken >= 0 else taken for taken in last]


def fill_is_ignored(core: Any) -> None:
    core.takes[core.takes == rearrange.FILL] = 0


def fill_is_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        rearrange.Rearrange, "_constant", lambda self: Const(self.fill + 1 & ((1 << self.bits) - 1), self.bits)
    )


def releases(by: int) -> Callable[[Any, Any], Any]:
    """Every turn but the last gives back more, or less."""

    def change(core: Any, turns: tuple[list[int], list[int]]) -> tuple[list[int], list[int]]:
        needed, released = turns
        return needed, [min(max(0, count + by), core.in_beats) for count in released[:-1]] + released[-1:]

    return change


def waits_for(more: int) -> Callable[[Any, Any], Any]:
    def change(core: Any, turns: tuple[list[int], list[int]]) -> tuple[list[int], list[int]]:
        needed, released = turns
        return [max(1, count + more) if count else 0 for count in needed], released

    return change


def padding_waits(core: Any, flag: Any) -> Any:
    """Turns that read nothing wait for the frame before."""
    return 0


def frames_begin_at_zero(patch: pytest.MonkeyPatch) -> None:
    """The place of a frame in the ring is forgotten."""
    patch.setattr(rearrange.Rearrange, "_base", lambda self, m, reader: Signal(range(self.ring)))


def ignores_room(patch: pytest.MonkeyPatch) -> None:
    """The writer stores what it gets."""
    patch.setattr(
        engine.Engine, "holds", lambda self, which, condition: Const(1, 1) if self.name == "writer" else condition
    )


def constant(**values: int) -> Patch:
    """Of the circuit's class."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        for name, value in values.items():
            patch.setattr(rearrange.Rearrange, name, value)

    return apply


def law(**values: Any) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        for name, value in values.items():
            patch.setattr(constraints, name, value)

    return apply


def operator_latency(by: int) -> Patch:
    """The law counts another number of stages."""
    from onnx_hw.ops.rearrange import Rearrange

    return lambda patch: patch.setattr(Rearrange, "LATENCY", Rearrange.LATENCY + by)


def stale_selects(patch: pytest.MonkeyPatch) -> None:
    """What selects the elements comes one cycle late."""
    original = rearrange.Selects.resolve

    def resolve(self: Any, m: Module, answers: Any) -> Any:
        return engine.delayed(m, original(self, m, answers), 1, "late")

    patch.setattr(rearrange.Selects, "resolve", resolve)


@dataclass(frozen=True)
class Fault:
    name: str
    apply: Patch
    cases: tuple[str, ...] = EVERY


FAULTS = [
    Fault("an address is off by one", at_elaboration("_separate", wrong_address)),
    Fault("the wrong slice of a beat", located(wrong_slice), ("transpose", "backwards", "depth to space")),
    Fault("the fill is ignored", located(fill_is_ignored), ("pad", "signal")),
    Fault("another fill", fill_is_another, ("pad", "signal")),
    Fault("a beat is given back too early", at_elaboration("_turns", releases(+1)), ("resize", "tight")),
    Fault("a beat is given back too late", at_elaboration("_turns", releases(-1)), ("resize", "tight")),
    Fault("a turn does not wait for its last beat", at_elaboration("_turns", waits_for(-1)), ("backwards", "resize")),
    Fault("a turn waits for a beat too many", at_elaboration("_turns", waits_for(+1)), ("backwards", "resize")),
    Fault("padding waits for the frame before", at_elaboration("_needs_nothing", padding_waits), ("crop",)),
    Fault("a frame begins where the first did", frames_begin_at_zero, ("pad", "resize", "transpose")),
    Fault("the writer ignores the room", ignores_room, ("resize", "tight")),
    Fault("the reader looks one cycle late", looks_late("reader")),
    Fault("the writer looks one cycle late", looks_late("writer")),
    Fault("the law says d + 1", law(BUFFER_DELAY=2)),
    Fault("the law says d - 1", law(BUFFER_DELAY=0)),
    Fault("the pipeline has a stage more than the law", operator_latency(-1)),
    Fault("the pipeline has a stage less than the law", operator_latency(+1)),
    Fault("a result is taken a cycle late", constant(LATENCY=8)),
    Fault("a result is taken a cycle early", constant(LATENCY=6)),
    Fault("a beat is written after it is read", constant(WRITE_STAGE=5), ("narrow",)),
    Fault("a beat is overwritten before it is read", constant(WRITE_STAGE=2), ("narrow",)),
    Fault("the pattern comes one cycle late", stale_selects, ("pad", "backwards", "depth to space")),
]


@pytest.mark.parametrize("name", CASES)
def test_without_a_fault(name: str) -> None:
    assert prove_case(CASES[name]).agrees


@pytest.mark.parametrize(
    ("fault", "name"),
    [pytest.param(fault, name, id=f"{name}: {fault.name}") for fault in FAULTS for name in fault.cases],
)
def test_fault_is_caught(fault: Fault, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.apply(monkeypatch)
    run = prove_case(CASES[name])
    assert run.mismatches or run.firing_mismatches, "the proof does not see the fault"
