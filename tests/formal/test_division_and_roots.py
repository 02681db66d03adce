"""Steps of divisions and of inverse roots: their invariants by induction for widths in use, their results for all
arguments of few bits.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.sim import Simulator

from onnx_hw.exact.inverse_root import inverse_root
from onnx_hw_rtl.arithmetic import inverse_root as root_circuit
from onnx_hw_rtl.arithmetic.divider import Division, delayed_denominators, divide_in_pipeline, divide_in_steps, step
from support.formal.smt import Claim, Solver

WIDTHS = [9, 33, 57]
"""Bits of a denominator: of int8 by uint8, of a Softmax, and of one with a float32 scale."""


def claim_of_division(bits: int, after: Division, claim: Claim, d: Signal, state: Division) -> Claim:
    """2·r + the next bit = q·d + r' and 0 ≤ r' < d, if 0 ≤ r < d; and what decides the rounding."""
    claim.assumed["remainder"] = state.remainder < d
    assert after.quotient is not None and state.quotient is not None
    subtracted = Mux(after.quotient[0], d, Const(0, bits))
    claim.holds["quotient"] = 2 * state.remainder + state.left[-1] == subtracted + after.remainder
    claim.holds["remainder"] = after.remainder < d
    up = d < Cat(state.quotient[0], state.remainder)
    twice = 2 * state.remainder
    claim.holds["rounding"] = up == ((twice > d) | ((twice == d) & state.quotient[0]))
    return claim


@pytest.mark.parametrize("bits", WIDTHS)
def test_a_step_of_a_division(bits: int, tmp_path: Path) -> None:
    claim = Claim(Module())
    d, r, left, quotient = (claim.input(n, name) for n, name in ((bits, "d"), (bits, "r"), (2, "left"), (2, "q")))
    state = Division(r, left, quotient, Const(0, 1))
    assert Solver(claim_of_division(bits, step(state, d), claim, d, state), tmp_path).counterexample(1) is None


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_greatest_quotient_without_saturation(bits: int, tmp_path: Path) -> None:
    """From n = 2^bits · d on, r stays d, every bit is 1, and the last one is rounded up."""
    claim = Claim(Module())
    d, left, quotient = (claim.input(n, name) for n, name in ((bits, "d"), (2, "left"), (2, "q")))
    after = step(Division(d, left, quotient, Const(0, 1)), d)
    claim.assumed |= {"zero": ~left[-1], "divisor": d.any()}
    assert after.quotient is not None
    claim.holds["stays"] = after.quotient[0] & (after.remainder == d) & (d < Cat(after.quotient[0], after.remainder))
    assert Solver(claim, tmp_path).counterexample(1) is None


def test_a_wrong_step_is_refused(tmp_path: Path) -> None:
    """Another correction than the denominator's."""
    claim = Claim(Module())
    d, r, left, quotient = (claim.input(n, name) for n, name in ((9, "d"), (9, "r"), (2, "left"), (2, "q")))
    state = Division(r, left, quotient, Const(0, 1))
    wrong = claim_of_division(9, step(state, d ^ 1), claim, d, state)
    assert Solver(wrong, tmp_path).counterexample(1) is not None


def claim_of_root(half: int, bits: int, wrong: int = 0) -> Claim:
    """0 ≤ R < 2·A + w in every cycle, while w stays; so the bits so far are the first ones of the root."""
    claim = Claim(m := Module())
    w = Signal(2 * half, name="kept", reset_less=True)
    m.d.sync += w.eq(w)
    first, strobe = claim.input(1, "first"), claim.input(1, "strobe")
    with pytest.MonkeyPatch.context() as patch:  # one control, not copies that would have to be equal
        patch.setattr(root_circuit, "spread", lambda m, control, width, name: [(slice(0, width), control)])
        root = root_circuit.root_in_steps(m, w ^ wrong, half, bits, first=first, strobe=strobe)
    other = claim.input(len(root), "other")
    claim.holds["is_a_number"] = (root < other) | (root >= other)  # keeps the registers that it is made of
    remainder = claim.see("root_remainder", 2 * half + bits + 2)
    multiple = claim.see("root_multiple", 2 * half + bits + 1)
    held = claim.see("kept", 2 * half)
    claim.assumed["normalized"] = held[-2:].any()
    claim.lemmas["remainder"] = remainder < 2 * multiple + held
    claim.assumed["bits_left"] = first | ~multiple[-2:].any()  # after bits + 1 steps the root is complete
    return claim


@pytest.mark.parametrize(("half", "bits"), [(6, 8), pytest.param(27, 16, marks=pytest.mark.slow)])
def test_the_invariant_of_a_root(half: int, bits: int, tmp_path: Path) -> None:
    assert Solver(claim_of_root(half, bits), tmp_path).step() is None
    (tmp_path / "wrong").mkdir()
    assert Solver(claim_of_root(half, bits, wrong=1), tmp_path / "wrong").step() is not None


def test_all_quotients_of_few_bits() -> None:
    """One division a cycle; ties, 2^bits for everything beyond."""
    m = Module()
    n, d, bits = Signal(8), Signal(4, init=1), 4
    result = divide_in_pipeline(m, "one", n, delayed_denominators(m, d, bits), bits)
    pairs = [(a, b) for b in range(1, 16) for a in range(256)]
    wanted = [min(round_half_even(a, b), 16) if a < 16 * b else 16 for a, b in pairs]
    found: list[int] = []

    async def bench(context: object) -> None:
        for k in range(len(pairs) + bits + 2):
            if k < len(pairs):
                context.set(n, pairs[k][0])  # type: ignore[attr-defined]
                context.set(d, pairs[k][1])  # type: ignore[attr-defined]
            await context.tick()  # type: ignore[attr-defined]
            if k >= bits + 1:
                found.append(context.get(result))  # type: ignore[attr-defined]

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert found[: len(wanted)] == wanted


def test_quotients_that_do_not_saturate() -> None:
    """Up to n = 2^bits · d, without the comparison that finds greater ones; in a pipeline and in steps."""
    bits, pairs = 4, [(a, b) for b in range(1, 16) for a in range(16 * b + 1)]
    wanted = [round_half_even(a, b) for a, b in pairs]
    m = Module()
    n, d, later, first = Signal(8), Signal(4, init=1), Signal(4, init=1), Signal()
    m.d.sync += later.eq(d)
    one = divide_in_pipeline(m, "one", n, delayed_denominators(m, d, bits), bits, saturates=False)
    other = divide_in_steps(m, "other", n, (d, later), bits, first=first, strobe=Const(1, 1), saturates=False)
    found: list[tuple[int, int]] = []

    async def bench(context: object) -> None:
        for pair in pairs:
            context.set(n, pair[0])  # type: ignore[attr-defined]
            context.set(d, pair[1])  # type: ignore[attr-defined]
            for k in range(bits + 2):
                context.set(first, k == 0)  # type: ignore[attr-defined]
                await context.tick()  # type: ignore[attr-defined]
                if k == bits:
                    in_steps = context.get(other)  # type: ignore[attr-defined]
            found.append((context.get(one), in_steps))  # type: ignore[attr-defined]

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert found == [(q, q) for q in wanted]
    assert "overflow" not in rtlil.convert(m, ports=[n, d, first, one, other])


def round_half_even(a: int, b: int) -> int:
    quotient, rest = divmod(a, b)
    return quotient + (2 * rest > b or (2 * rest == b and quotient % 2 == 1))


def test_all_roots_of_few_bits() -> None:
    half, bits = 4, 5
    m = Module()
    w, first, strobe = Signal(2 * half), Signal(), Signal(init=1)
    result = root_circuit.root_in_steps(m, w, half, bits, first=first, strobe=strobe)
    numbers, found = range(4 ** (half - 1), 4**half), []

    async def bench(context: object) -> None:
        for number in numbers:
            context.set(w, number)  # type: ignore[attr-defined]
            for k in range(bits + 2):
                context.set(first, k == 0)  # type: ignore[attr-defined]
                await context.tick()  # type: ignore[attr-defined]
            context.set(strobe, 0)  # type: ignore[attr-defined]
            for _ in range(2):
                await context.tick()  # type: ignore[attr-defined]
            context.set(strobe, 1)  # type: ignore[attr-defined]
            found.append(context.get(result))  # type: ignore[attr-defined]

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert found == [inverse_root(number, bits)[0] for number in numbers]
