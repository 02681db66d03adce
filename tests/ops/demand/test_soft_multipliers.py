"""Products of look-up tables in the cores that have products: the same integers in the same cycles."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module

from onnx_hw.exact.integers import Int
from onnx_hw.ops.demand.soft_multipliers import known_products_demand, product_demand, product_latency
from onnx_hw.ops.depthwise import Depthwise, DepthwiseFolding
from onnx_hw.ops.folding import Folding, MultiplierKind
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.multiply import Multiply, MultiplyFolding
from onnx_hw.ops.operator import Operator, priced
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.demand import Adder, LogicFunction, Register
from onnx_hw_boards.families.ecp5.primitives import PRIMITIVES
from onnx_hw_rtl.arithmetic import constant_multiplier, product, soft_multiplier
from onnx_hw_rtl.target import Target
from onnx_hw_tools import tools
from support.design_bench import prove
from support.hand_built_designs import alone
from support.random_cases import Case

LOGIC = MultiplierKind.LOGIC
IMAGE = Tensor((2, 3, 3), Int(8))
NARROW = Tensor((2, 3, 4), Int(4, signed=False))
RANDOM = np.random.default_rng(0)
MATRIX, KERNELS = RANDOM.integers(-128, 128, (5, 3)), RANDOM.integers(-128, 128, (6, 2, 2))

CORES: dict[str, tuple[Operator, Folding]] = {
    "matmul": (MatMul(IMAGE, MATRIX), MatMulFolding(2, 2, multiplier=LOGIC)),
    "matmul of pixels": (MatMul(IMAGE, MATRIX), MatMulFolding(3, 2, 2, multiplier=LOGIC)),
    "matmul of narrow weights": (MatMul(NARROW, RANDOM.integers(0, 4, (3, 4))), MatMulFolding(2, 1, multiplier=LOGIC)),
    "matmul, not folded": (MatMul(IMAGE, MATRIX), MatMulFolding(3, 5, multiplier=LOGIC)),
    "matmul of two": (MatMul(IMAGE, Tensor((1, 5, 3), Int(8))), MatMulFolding(2, 3, multiplier=LOGIC)),
    "depthwise": (Depthwise(IMAGE, KERNELS, (1, 2), pad_value=-9), DepthwiseFolding(2, 4, multiplier=LOGIC)),
    "depthwise, not folded": (Depthwise(IMAGE, KERNELS[:3, :1, :1]), DepthwiseFolding(3, 3, multiplier=LOGIC)),
    "multiply": (Multiply(IMAGE, IMAGE, (7, -128)), MultiplyFolding(2, multiplier=LOGIC)),
    "multiply of wide factors": (
        Multiply(Tensor((1, 2, 3), Int(20)), Tensor((1, 2, 3), Int(24)), (0, 5)),
        MultiplyFolding(2, multiplier=LOGIC),
    ),
}


@pytest.mark.parametrize("core", CORES)
def test_both_kinds_are_the_same_but_for_what_they_cost(core: str) -> None:
    """Only the latency differs; both keep the law."""
    operator, soft = CORES[core]
    hard = replace(soft, multiplier=MultiplierKind.HARDWARE)  # type: ignore[call-arg]
    assert operator.cycles(soft) == operator.cycles(hard)
    first, second = operator.resources(soft), operator.resources(hard)
    assert first.mac_lanes == second.mac_lanes and first.bram == second.bram
    assert first.dsp == 0 < second.dsp and first.lut > second.lut
    Case(operator, soft, depth=1, frames=2, seed=1).check()
    Case(operator, soft, stalls=False).check()


@pytest.mark.parametrize(("bits", "table"), [((1, 2), True), ((3, 1), True), ((3, 2), False), ((8, 8), False)])
def test_a_product_of_few_bits_is_a_table(bits: tuple[int, int], table: bool) -> None:
    """A look-up table each bit; rows of gated bits, added by chains, where both operands are more bits."""
    demand = product_demand(Int(bits[0]), Int(bits[1], signed=False), in_logic=True)
    rows = any(part.gated for part, _ in demand.all(Adder))
    assert (bool(demand.all(LogicFunction)), rows) == (table, not table)


@pytest.mark.parametrize("bits", [(1, 2), (3, 3), (8, 5), (8, 8), (4, 13), (17, 9)])
def test_every_second_level_has_a_register(bits: tuple[int, int]) -> None:
    """The rows are the first level of the tree; a table has one, too."""
    latency = product_latency(*map(Int, bits), in_logic=True)
    circuit = rtlil.convert(soft_multiplier.SoftMultiplier(*bits, latency=latency), name="top", emit_src=False)
    widths = re.findall(r"cell \$dff .*?\\WIDTH (\d+)", circuit, re.DOTALL)
    demand = product_demand(*map(Int, bits), in_logic=True)
    assert sum(map(int, widths)) == sum(part.bits * count for part, count in demand.all(Register))


@pytest.mark.parametrize(("taps", "lanes", "known"), [(1, 3, True), (1, 2, False), (2, 3, False)])
def test_only_what_is_not_folded_knows_its_weights(taps: int, lanes: int, known: bool) -> None:
    """A factor that is always the same needs no gates."""
    operator = Depthwise(IMAGE, KERNELS[:3, :taps, :1])
    demand = operator.demand(DepthwiseFolding(3, lanes, multiplier=LOGIC))
    gated = {part.bits for part, _ in demand.all(Adder) if part.gated}
    accumulators = {operator.results()[0].dtype.bits}
    assert (gated <= accumulators) == known


@pytest.mark.slow
def test_estimates_are_what_yosys_counts(tmp_path: Path) -> None:
    """Products of five bits or more exactly, on an ECP5; known factors on average."""
    widths = [(8, 8), (8, 4), (8, 2), (6, 5)]
    known = [-77, 5, 27, 86, 107]
    soft = [soft_multiplier.SoftMultiplier(*bits) for bits in widths]
    counts = look_up_tables([*soft, *(constant_multiplier.ConstantMultiplier(8, c) for c in known)], tmp_path)
    assert counts[:4] == [priced(product_demand(Int(a), Int(b), in_logic=True), 1).lut for a, b in widths]
    assert counts[0] <= 80 and counts[1] <= 36 and counts[2] <= 16
    estimate = sum(priced(known_products_demand(8, np.array([c])), 1).lut for c in known)
    assert 0.85 * sum(counts[4:]) < estimate < 1.15 * sum(counts[4:]) < 5 * 40


def look_up_tables(blocks: list[Any], folder: Path) -> list[int]:
    """Return the look-up tables of each component, as yosys maps it."""
    top = Module()
    for k, block in enumerate(blocks):
        top.submodules[f"block{k}"] = block
    ports = [port for block in blocks for name in ("a", "b", "p") if (port := getattr(block, name, None)) is not None]
    (folder / "top.il").write_text(rtlil.convert(top, ports=ports, platform=Target(PRIMITIVES), name="top"))
    script = "read_rtlil top.il; synth_ecp5 -top top -noflatten; tee -q -o cells.json stat -json"
    tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=folder, log=folder / "yosys.log")
    modules = json.loads((folder / "cells.json").read_text())["modules"]

    def counted(name: str) -> int:
        cells = modules[name]["num_cells_by_type"]
        below = sum(number * counted(f"\\{kind}") for kind, number in cells.items() if f"\\{kind}" in modules)
        return below + cells.get("LUT4", 0) + 2 * cells.get("CCU2C", 0)

    return [counted(f"\\top.block{k}") for k in range(len(blocks))]


# ---- deliberate faults ----------------------------------------------------------------------------------------------


def the_top_row_is_added(patch: pytest.MonkeyPatch) -> None:
    original = soft_multiplier.SoftMultiplier._sum
    patch.setattr(
        soft_multiplier.SoftMultiplier,
        "_sum",
        lambda self, *arguments: original(self, *arguments[:-1], False),  # type: ignore[call-arg]
    )


def a_row_lies_a_bit_higher(patch: pytest.MonkeyPatch) -> None:
    original = soft_multiplier.SoftMultiplier._add_pair

    def joined(self: Any, m: Any, low: Any, high: Any) -> Any:
        return original(self, m, low, replace(high, value=(high.value << 1)[: len(high.value)].as_signed()))

    patch.setattr(soft_multiplier.SoftMultiplier, "_add_pair", joined)


def one_level_has_no_register(patch: pytest.MonkeyPatch) -> None:
    original = soft_multiplier.SoftMultiplier._register
    patch.setattr(
        soft_multiplier.SoftMultiplier,
        "_register",
        lambda self, m, part, level: part if level == 1 else original(self, m, part, level),
    )


def digits_are_all_positive(patch: pytest.MonkeyPatch) -> None:
    original = constant_multiplier.digits_of
    patch.setattr(constant_multiplier, "digits_of", lambda number: [(1, shift) for _, shift in original(number)])


def a_known_weight_is_another(patch: pytest.MonkeyPatch) -> None:
    original = product.ConstantMultiplier
    patch.setattr(product, "ConstantMultiplier", lambda bits, c, **named: original(bits, c ^ 2 or 1, **named))


FAULTS = {
    "matmul": (the_top_row_is_added, a_row_lies_a_bit_higher, one_level_has_no_register),
    "depthwise": (the_top_row_is_added,),
    "multiply": (one_level_has_no_register,),
    "matmul, not folded": (digits_are_all_positive, a_known_weight_is_another),
}


@pytest.mark.parametrize(("core", "fault"), [(core, fault) for core, faults in FAULTS.items() for fault in faults])
def test_faults_are_seen(core: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    run = prove(alone(*CORES[core], 4), frames=2)
    assert run.mismatches and not run.firing_mismatches
