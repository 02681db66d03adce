"""Chip families: what a netlist takes is counted in full, and each recipe names programs and files that there are."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import pytest

import onnx_hw_boards
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.ops.operator import OWN_RESET
from onnx_hw.ops.outbox import outbox_demand
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.schedule_for_board import full_budget, schedule_for_board, target_budget
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.board import Board
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.chip_lookup import packaged_chip
from onnx_hw_boards.demand import Demand, Memory, Product
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_boards.families.family import Family
from onnx_hw_boards.families.gowin.recipes import GOWIN
from onnx_hw_boards.families.gw5a.recipes import ARORA_V
from onnx_hw_boards.families.ice40.recipes import ICE40_HX, ICE40_UP
from onnx_hw_tools.catalogue import CATALOGUE
from schedule.test_search_folding import convolutions

ALL = [onnx_hw_boards.board(name) for name in onnx_hw_boards.names()]
BOARDS = [board for board in ALL if isinstance(board, BareChip)]
FAMILIES = {board.family.name: board.family for board in ALL}
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
every_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)


def words(templates: tuple[str, ...]) -> set[str]:
    """The names in braces."""
    return {name for template in templates for name in re.findall(r"{(\w+)}", template)}


@pytest.mark.parametrize(
    ("family", "netlist", "taken"),
    [
        (
            ECP5,
            {"LUT4": 7, "CCU2C": 2, "TRELLIS_DPR16X4": 1, "TRELLIS_FF": 5, "DP16KD": 2, "MULT18X18D": 3, "GND": 4},
            Cells(lut=17, ff=5, dsp=3, bram=2),
        ),
        (
            ICE40_UP,
            {"SB_LUT4": 7, "SB_CARRY": 3, "SB_DFF": 1, "SB_DFFESR": 2, "SB_DFFNSS": 3, "SB_RAM40_4K": 4, "SB_MAC16": 5},
            Cells(lut=7, ff=6, dsp=5, bram=4),
        ),
        (
            GOWIN,
            {
                "LUT1": 1,
                "LUT4": 2,
                "ALU": 3,
                "RAM16SDP4": 1,
                "DFF": 1,
                "DFFRE": 2,
                "MULT9X9": 1,
                "MULT18X18": 1,
                "SDPB": 2,
            },
            Cells(lut=12, ff=3, dsp=3, bram=2),
        ),
        (
            ARORA_V,
            {"LUT4": 2, "ALU": 3, "RAM16SDP4": 1, "DFFRE": 2, "MULT12X12": 3, "MULTALU27X18": 2, "pROMX9": 1, "SP": 1},
            Cells(lut=11, ff=2, dsp=7, bram=2),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Family) else "",
)
def test_cells_are_counted(family: Family, netlist: dict[str, int], taken: Cells) -> None:
    assert family.count(netlist) == taken
    assert family.count({"$scopeinfo": 3, "top.design.core": 1}) == Cells()


def cell(kind: str, **bits: tuple[str, int]) -> dict[str, object]:
    """As yosys writes it, of ports with a direction and one bit each."""
    directions = {port: direction for port, (direction, _) in bits.items()}
    connections = {port: [bit] for port, (_, bit) in bits.items()}
    return {"type": kind, "port_directions": directions, "connections": connections}


def test_a_table_and_its_flip_flop_share_a_logic_cell() -> None:
    """Bit 2 feeds one flip-flop; bit 3 two of them; bit 4 leaves the module, too; bit 9 comes from outside."""
    cells = [cell("SB_LUT4", I0=("input", 9), O=("output", bit)) for bit in (2, 3, 4)]
    cells += [cell("SB_DFFSR", D=("input", d), Q=("output", 10 + q)) for q, d in enumerate((2, 3, 3, 4, 9, 10))]
    ports = {"o": {"direction": "output", "bits": [4]}, "i": {"direction": "input", "bits": [9]}}
    assert ICE40_UP.logic_cells is not None
    netlist = {"modules": {"top": {"ports": ports, "cells": dict(enumerate(cells))}}}
    assert ICE40_UP.logic_cells(netlist) == 3 + 6 - 2


@every_family
def test_recipes_name_what_there_is(family: Family) -> None:
    placement, packing = family.placement, family.packing
    assert set(family.tools) <= set(CATALOGUE)
    assert words(placement.chip) <= {"option", "package", "speed"} and words(placement.options) == set()
    assert words(placement.files) == {"netlist", "constraints", "placed"}
    assert {"placed", "bitstream"} <= words(packing.arguments) <= {"placed", "bitstream", "option"}
    assert packing.suffix.startswith(".") and not words(tuple(sum(family.mappers.values(), ())))
    read = {
        name
        for commands in family.mappers.values()
        for name in re.findall(r" ([\w.]+\.(?:v|txt))", "\n".join(commands))
    }
    assert read == set(family.sources)
    can_divide = any(family.clocking.settings(Fraction(25), Fraction(50)))
    assert (family.primitives().pll is not None) == can_divide


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ecp5", ("--85k", "--package", "CABGA381", "--speed", "6")),
        ("up5k", ("--up5k", "--package", "sg48")),
        ("hx8k", ("--hx8k", "--package", "ct256")),
        ("gw1n9c", ("--device", "GW1N-LV9PG256C6/I5", "--vopt", "family=GW1N-9C")),
        ("gw5a25a", ("--device", "GW5A-LV25PG256SC1/I0")),
    ],
)
def test_a_chip_is_named_by_its_family(name: str, options: tuple[str, ...]) -> None:
    assert onnx_hw_boards.board(name).nextpnr_options == options


@every_board
def test_what_is_comfortable_is_less_than_all(board: Board) -> None:
    some, most = target_budget(board, None), full_budget(board, None)
    for field in ("dsp", "lut", "bram", "pins", "ff"):
        assert (field == "dsp" or getattr(some, field) > 0) and getattr(some, field) <= getattr(most, field)
    assert target_budget(board, 3) == replace(some, mac_lanes=3, dsp=most.dsp, in_logic=True)
    shared = board.cells.logic
    if not shared:
        assert (some.logic, most.logic) == (None, None)
    else:
        assert some.logic is not None and most.logic is not None and some.logic < most.logic < shared
    assert shared or most.lut < board.cells.lut  # type: ignore[operator]


@every_board
def test_a_design_is_reckoned_in_cells_of_its_own_chip(board: Board) -> None:
    design, _ = schedule_for_board(board, convolutions(6, (2, 3)), ScheduleRequest(multipliers=4))
    family = board.family
    assert design.target.price is family.cost and design.target.deepest_at_once == family.deepest_at_once
    cores = [node.operator.demand(design.folding(node)) + OWN_RESET for node in design.network.nodes]
    edges = [edge for edge in design.edges() if edge.producer]
    fifos = [outbox_demand(e.bits, design.fifos[e.tensor].depth, family.deepest_at_once) for e in edges]
    cells, told = sum(map(family.cost, cores + fifos), Cells()), design.with_fifos()
    assert cells == Cells(told.lut, told.ff, told.dsp, told.bram, told.logic)
    assert bool(told.logic) == bool(board.cells.logic)


def test_a_chip_without_multipliers_has_them_in_look_up_tables() -> None:
    board = find_board("hx8k")
    assert board.family is ICE40_HX and board.cells.dsp == 0
    one = Demand.of(Product(8, 8))
    assert ICE40_UP.cost(one).dsp == 1 and ICE40_HX.cost(one).dsp == 0
    assert 8 * 8 < ICE40_HX.cost(one).lut < 3 * 8 * 8 and ICE40_UP.cost(one).lut == 0


@pytest.mark.parametrize("family", [ECP5, GOWIN, ICE40_UP], ids=["ecp5", "gowin", "ice40"])
@pytest.mark.parametrize("constant", [True, False])
def test_words_of_many_block_rams_are_chosen_between(family: Family, constant: bool) -> None:
    width = 16

    def cells(depth: int) -> Cells:
        return family.cost(Demand.of(Memory(width, depth, constant=constant)))

    full_budget = cells(1 << 10)  # as wide parts as the word asks for, none behind another
    for more, least in ((3, 2), (4, 2), (7, 4)):
        deep = cells(more << 14)  # beyond what the deepest of all block RAMs holds
        assert deep.lut - full_budget.lut >= least * width
        assert 0 < deep.ff - full_budget.ff < width  # bits of the address


def test_a_family_is_data_until_a_circuit_is_built() -> None:
    """Neither Amaranth nor a simulator is loaded with the recipes, and each family adds its programs."""
    script = (
        "import sys; from onnx_hw_boards.chip_lookup import recipes; from onnx_hw_tools.catalogue import CATALOGUE\n"
    )
    script += "assert len(recipes()) >= 3 and {'ecppack', 'icepack', 'gowin_pack'} <= set(CATALOGUE)\n"
    script += "assert not {'amaranth', 'numpy', 'onnx_hw_rtl', 'onnx_hw_sim'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_chip_that_no_family_has_is_refused() -> None:
    class Platform:
        device = "XC7A35T"

    with pytest.raises(ValueError, match=r"one of LFE5U-12F, .*GW1N-9C.*iCE40UP5K.*, not that of Platform"):
        packaged_chip(Platform)
