"""An LFSR runs through all numbers but one, and its circuit runs through the predicted ones."""

from __future__ import annotations

from itertools import islice

import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from onnx_hw_rtl.parts import lfsr_counter
from onnx_hw_rtl.parts.lfsr_counter import next_state, state_after, states, width_for


@pytest.mark.parametrize("width", range(2, 15))
def test_all_numbers_but_one_are_passed(width: int) -> None:
    round_ = list(islice(states(width), 2**width - 1))
    assert set(round_) == set(range(2**width - 1)) and state_after(2**width - 1, width) == 0
    assert width_for(2**width - 1) == width < width_for(2**width)


@pytest.mark.parametrize("width", range(2, 33))
def test_no_width_has_a_shorter_round(width: int) -> None:
    """Check the period without running through it.

    x, modulo the polynomial of the taps, is 1 after a whole round and not after the round divided by any of its primes.
    """
    polynomial = sum(1 << tap for tap in lfsr_counter._TAPS[width]) | 1
    assert polynomial.bit_length() == width + 1
    assert power_of_x(2**width - 1, polynomial) == 1
    assert all(power_of_x((2**width - 1) // prime, polynomial) != 1 for prime in primes_of(2**width - 1))


def power_of_x(exponent: int, modulus: int) -> int:
    """Return a power of x, for polynomials whose coefficients are bits."""
    found = 1
    for bit in f"{exponent:b}":
        square = sum(1 << 2 * k for k in range(found.bit_length()) if found >> k & 1) << int(bit)
        while square.bit_length() >= modulus.bit_length():
            square ^= modulus << square.bit_length() - modulus.bit_length()
        found = square
    return found


def primes_of(number: int) -> set[int]:
    found, factor = set(), 2
    while factor * factor <= number:
        while number % factor == 0:
            found.add(factor)
            number //= factor
        factor += 1
    return found | {number} - {1}


@pytest.mark.parametrize("width", [2, 8, 19, 32])
def test_the_circuit_passes_them_in_that_order(width: int) -> None:
    m, count, passed = Module(), Signal(width), []
    m.d.sync += count.eq(next_state(count))

    async def bench(context) -> None:  # type: ignore[no-untyped-def]  # Amaranth does not name its type
        for _ in range(50):
            passed.append(context.get(count))
            await context.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert passed == list(islice(states(width), 50))
