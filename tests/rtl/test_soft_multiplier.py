# amaranth: UnusedElaboratable=no
"""Products of look-up tables: every pair of two bytes, drawn pairs of other widths, and their area on a chip."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module
from amaranth.lib.wiring import Component, In, Out
from amaranth.sim import Simulator
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.canonical_signed_digit import signed_digits
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_rtl.arithmetic.constant_multiplier import ConstantMultiplier, digits_of
from onnx_hw_rtl.arithmetic.soft_multiplier import SoftMultiplier
from onnx_hw_rtl.target import Target
from onnx_hw_sim.circuit import Circuit, Stimulus, Stream
from onnx_hw_sim.compiled import CompiledSimulator
from onnx_hw_tools import tools

SIGNS = tuple(product((False, True), repeat=2))
BYTES = np.array(list(product(range(256), repeat=2)))
LATENCY = 3


class Bench(Component):
    """Products of two bytes by several multipliers side by side, one pair in every cycle."""

    def __init__(self, blocks: Sequence[SoftMultiplier]) -> None:
        self.blocks = blocks
        into = {"stimulus_payload": In(16), "stimulus_valid": In(1), "response_ready": In(1)}
        out = {"response_payload": Out(16 * len(blocks)), "response_valid": Out(1), "stimulus_ready": Out(1)}
        super().__init__(into | out)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for k, block in enumerate(self.blocks):
            m.submodules[f"block{k}"] = block
            m.d.comb += Cat(block.a, block.b).eq(self.stimulus_payload)
        m.d.comb += [self.response_payload.eq(Cat(block.p for block in self.blocks)), self.stimulus_ready.eq(1)]
        m.d.sync += self.response_valid.eq(1)
        return m


def wrong(netlist: str, folder: Path) -> list[int]:
    """Return which of the four give a product that differs from Python's integers."""
    bits = (BYTES[:, :, None] >> np.arange(8) & 1).reshape(-1, 16)
    circuit = Circuit(
        netlist,
        sources=(Stream("stimulus", 16, 1, signed=False),),
        sinks=(Stream("response", 16 * len(SIGNS), 1, signed=False),),
    )
    cycles = len(bits) + LATENCY
    recording = CompiledSimulator.build(circuit, folder).run(
        Stimulus(
            tokens={"stimulus": np.vstack([bits, bits[:LATENCY]])},
            offers={"stimulus": np.arange(cycles)},
            ready={"response": np.ones(0, dtype=bool)},
            expected={"response": cycles - 1},
            cycles=cycles + 1,
        )
    )
    response = np.asarray(recording.tokens["response"]).reshape(-1, len(SIGNS), 16)[LATENCY - 1 :][: len(bits)]
    products_of_bytes = (response.astype(np.int64) << np.arange(16)).sum(axis=2)
    a, b = (BYTES[:, k] for k in range(2))
    kinds = [(operand, operand - 256 * (operand >> 7)) for operand in (a, b)]  # unsigned, signed
    expected = [x * y & 0xFFFF for x, y in product(*kinds)]
    return [k for k, products in enumerate(expected) if not np.array_equal(products_of_bytes[:, k], products)]


def multipliers() -> Bench:
    return Bench([SoftMultiplier(8, 8, a_signed=a, b_signed=b, latency=LATENCY) for a, b in SIGNS])


def test_every_product_of_two_bytes(tmp_path: Path) -> None:
    """Check every product of two bytes in each signedness."""
    assert wrong(rtlil.convert(multipliers(), name="top"), tmp_path) == []


def with_cells(script: str, change: Callable[[str], str], folder: Path) -> str:
    """Return the four for an ECP5, after a script of yosys, with yosys' own models of the cells in their places."""
    (folder / "dut.il").write_text(change(rtlil.convert(multipliers(), platform=Target(ECP5.primitives()), name="top")))
    cells = "read_verilog -DNO_INCLUDES +/ecp5/cells_sim.v; read_rtlil mapped.il"
    for step in (
        f"read_rtlil dut.il; {script}; write_rtlil -selected mapped.il",
        f"{cells}; hierarchy -check -top top; proc; flatten; opt_clean; write_rtlil whole.il",
    ):
        tools.run(tools.find("yosys"), ["-q", "-p", step], cwd=folder, log=folder / "models.log")
    return (folder / "whole.il").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("script", ["select *", "synth_ecp5 -top top; select top"])
def test_every_product_of_two_bytes_in_the_cells_of_the_chip(script: str, tmp_path: Path) -> None:
    assert wrong(with_cells(script, str, tmp_path), tmp_path) == []


@pytest.mark.slow
def test_a_wrong_row_is_seen(tmp_path: Path) -> None:
    """Put a fault into the sign of the top row of each multiplier that has one."""

    def broken(netlist: str) -> str:
        return netlist.replace("16'1000011101110111", "16'0111100010001000")

    assert wrong(with_cells("select *", broken, tmp_path), tmp_path) == [1, 3]


widths = st.integers(1, 18)
several = settings(max_examples=60, derandomize=True)


@several
@given(widths, widths, st.sampled_from(SIGNS), st.integers(1, 6), st.integers(0, 99))
def test_any_widths(a: int, b: int, signs: tuple[bool, bool], latency: int, seed: int) -> None:
    block = SoftMultiplier(a, b, a_signed=signs[0], b_signed=signs[1], latency=latency)
    pairs = list(zip(near_the_ends(a, signs[0], seed), near_the_ends(b, signs[1], seed + 100), strict=True))
    assert products_of(block, pairs) == [x * y for x, y in pairs]


@pytest.mark.parametrize("latency", [1, 2, 5])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (1, 3), (2, 2), (3, 1)])
@pytest.mark.parametrize("signs", SIGNS)
def test_bits_that_one_look_up_table_takes(a: int, b: int, signs: tuple[bool, bool], latency: int) -> None:
    """Check every pair of operands, as late as the other multipliers."""
    block = SoftMultiplier(a, b, a_signed=signs[0], b_signed=signs[1], latency=latency)
    lows = [-(1 << bits - 1) if signed else 0 for bits, signed in zip((a, b), signs, strict=True)]
    pairs = list(product(*(range(low, low + (1 << bits)) for low, bits in zip(lows, (a, b), strict=True))))
    assert products_of(block, pairs) == [x * y for x, y in pairs]


@several
@given(widths, st.booleans(), st.integers(-(2**17), 2**17).filter(bool), st.integers(1, 6), st.integers(0, 99))
def test_any_constant(bits: int, signed: bool, constant: int, latency: int, seed: int) -> None:
    block = ConstantMultiplier(bits, constant, signed=signed, latency=latency)
    numbers = near_the_ends(bits, signed, seed)
    assert products_of(block, [(x,) for x in numbers]) == [x * constant for x in numbers]


@pytest.mark.parametrize("constant", [1, -1, 3, -3, -5, 7, 85, -85, 171, -171, -(2**17) - 1])
def test_digits_of_every_kind(constant: int) -> None:
    """Check a power of two, only sums, differences, and digits that are all negative."""
    block = ConstantMultiplier(3, constant)
    assert products_of(block, [(x,) for x in range(-4, 4)]) == [x * constant for x in range(-4, 4)]


@given(st.integers(-(2**40), 2**40))
def test_digits_are_the_least(number: int) -> None:
    """Compare the digits with those that the compiler counts."""
    assert tuple(digits_of(number)[::-1]) == signed_digits(number)


def near_the_ends(bits: int, signed: bool, seed: int) -> list[int]:
    """Draw operands; half of them are the ends of the range and their neighbours."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    draw = random.Random(seed)
    ends = [min(max(end, low), high) for end in (low, low + 1, -1, 0, 1, high - 1, high)]
    return [draw.choice(ends) if draw.random() < 0.5 else draw.randint(low, high) for _ in range(30)]


def products_of(block: SoftMultiplier | ConstantMultiplier, rows: Sequence[tuple[int, ...]]) -> list[int]:
    """Return the products, one after the other, in Amaranth's simulator."""
    operands = [block.a, block.b] if isinstance(block, SoftMultiplier) else [block.a]
    results: list[int] = []

    async def drive(context: Any) -> None:
        for cycle in range(len(rows) + block.LATENCY):
            for operand, number in zip(operands, rows[min(cycle, len(rows) - 1)], strict=True):
                context.set(operand, number)
            await context.tick()
            results.append(context.get(block.p))

    simulator = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return results[block.LATENCY - 1 : -1]


@pytest.mark.parametrize(("bits", "latency"), [(0, 3), (8, 0)])
def test_no_bits_and_no_latency_are_refused(bits: int, latency: int) -> None:
    with pytest.raises(ValueError, match=f"not {bits}, 8 and {latency}"):
        SoftMultiplier(bits, 8, latency=latency)
    with pytest.raises(ValueError, match=f"must not be 0: {bits}, {latency}, 1"):
        ConstantMultiplier(bits, 1, latency=latency)
