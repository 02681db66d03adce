"""Chips beside ECP5: every pin of a board is one, and a network comes to a bitstream by the programs of its family."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import onnx_hw_boards
from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.shell_area import cells_of_shell
from onnx_hw.commands.build import build
from onnx_hw.implement.route import BITSTREAM
from onnx_hw.ir.design import Design
from onnx_hw.runtime.build_folder import opened
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.board import Board
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.pins import PadStream, constraints, place
from onnx_hw_tools import tools
from support.fixture_paths import EXAMPLES
from support.small_model import small_model

ALL = [onnx_hw_boards.board(name) for name in onnx_hw_boards.names()]
OTHERS = [board.name for board in ALL if isinstance(board, BareChip) and board.family.folder != "ecp5"]


def with_tools(name: str) -> Board:
    board = find_board(name)
    for tool in ("yosys", *board.family.tools):
        try:
            tools.find(tool)
        except tools.ToolMissing as missing:
            pytest.skip(str(missing))
    return board


LISTENS = """
module top(input clk, rst, x_valid, output reg x_ready, input [{top}:0] x_payload);
  always @(posedge clk) x_ready <= ^{{x_payload, x_valid, rst}};
endmodule
"""


@pytest.mark.parametrize("name", [name for name in OTHERS if find_board(name).family.folder == "ice40"])
def test_nextpnr_knows_every_pin(name: str, tmp_path: Path) -> None:
    """Its chip database is in no format of others: it is asked to put a buffer on each pin."""
    board = with_tools(name)
    assert isinstance(board, BareChip)
    payload = len(board.pins) - 2
    (tmp_path / "top.v").write_text(LISTENS.format(top=payload - 1))
    script = "read_verilog top.v; synth_ice40 -top top; write_json top.json"
    tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=tmp_path, log=tmp_path / "yosys.log")
    nextpnr, log = tools.find(board.family.placement.tool), tmp_path / "nextpnr.log"
    arguments = [*board.nextpnr_options, "--json", "top.json", "--pcf", "pins.pcf", "--pack-only"]
    pin_of = place(board, [PadStream("x", payload, 1)])
    (tmp_path / "pins.pcf").write_text(constraints(board, pin_of, 12))
    tools.run(nextpnr, arguments, cwd=tmp_path, log=log)
    (tmp_path / "pins.pcf").write_text(constraints(board, pin_of | {"clk": "Z99"}, 12))
    with pytest.raises(tools.ToolFailed, match="does not have a pin"):
        tools.run(nextpnr, arguments, cwd=tmp_path, log=log)


def foreseen(design: Design, board: Board, made: Cells) -> Cells:
    """What the whole chip takes is said before, its link included, which is given back."""
    assert isinstance(board, LinkedBoard)
    cores, around = design.with_fifos(), cells_of_shell(link_of(design, design.clock_mhz), board, design.clock_mhz)
    assert abs((cores.lut + around.lut) / made.lut - 1) < 0.15 and abs((cores.ff + around.ff) / made.ff - 1) < 0.15
    assert (cores.dsp, cores.bram + around.bram) == (made.dsp, made.bram)
    return around


@pytest.mark.slow(minutes=1)
@pytest.mark.parametrize("name", ["ulx3s_12f", "tang_nano_9k", "tang_primer_25k"])
def test_a_small_network_is_routed_with_its_link(name: str, tmp_path: Path) -> None:
    """On a board of each family, fast enough for its clock; the next test does the whole build on the third.

    ``benchmarks/build_models.py --until pack --board ulx3s`` and so on for digits.
    """
    board = with_tools(name)
    design = flow.schedule(flow.quantize(flow.read(small_model(tmp_path / "small.onnx"))), name)
    with opened(tmp_path / "out") as folder:
        netlist = flow.assemble(design)
        synthesized = flow.synthesize(netlist, folder)
        routed = flow.route(synthesized, netlist, folder)
        packed = flow.pack(routed, folder)
    foreseen(design, board, synthesized.used)
    assert routed.timing_met and routed.fmax_mhz >= board.default_clock_mhz
    assert (packed.folder / BITSTREAM).stat().st_size > 50_000


@pytest.mark.slow(minutes=0.8)
@pytest.mark.parametrize("name", ["icebreaker"])
def test_the_whole_build_of_a_small_network(name: str, tmp_path: Path) -> None:
    """With its link; it is simulated on the way, as on every board.

    The quickest to place and route; ``benchmarks/build_models.py --until pack --board hx8k`` and so on for digits.
    """
    board = with_tools(name)
    model = small_model(tmp_path / "small.onnx")
    built = build(model, board=name, out=tmp_path / "out")
    told, made, proof = built.report, built.report.synthesis, built.report.simulation
    assert proof is not None and proof.mismatches == proof.firing_mismatches == 0
    assert made is not None and made.timing_met and made.bram > 0
    assert told.links.circuit_netlist.state == "proven"  # through the pins of the board
    assert told.design is not None
    assert made.dsp == told.design.lanes
    design = flow.schedule(flow.quantize(flow.read(model)), name)
    around = foreseen(design, board, Cells(made.lut4, made.ff, made.dsp, made.bram))
    assert abs(around.lut / (made.lut4 - sum(core.lut4 for core in made.cores)) - 1) < 0.1  # the link, pads and reset
    placed = json.loads((tmp_path / "out" / "route" / "report.json").read_text())["utilization"]
    assert all(site["used"] <= site["available"] for kind, site in placed.items() if kind != "DUMMY_CELL")
    assert placed["SB_IO"]["used"] == 3 and placed["ICESTORM_PLL"]["used"] == 1
    bitstream = built.folder / told.files["bitstream"]
    assert bitstream.suffix == board.family.packing.suffix
    assert bitstream.stat().st_size > 50_000


def test_digits_keep_a_link_busy(tmp_path: Path) -> None:
    built = build(EXAMPLES / "digits" / "digits.onnx", board="icebreaker", out=tmp_path / "out", stop_after="schedule")
    serial = built.report.serial
    assert serial is not None and serial.delivered_frames_per_second > 2_500, "the link carries three times as many"
