"""Links 4 and 5 of a board whose weights come from its flash: sound netlists, faults at the pins of the flash."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.netlist import Netlist
from onnx_hw.implement.route import BITSTREAM, pack, route
from onnx_hw.implement.synthesize import SynthesisResult, synthesize
from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit import bitstream, gate_level, pin_level
from onnx_hw.prove.circuit.gate_level import GateLevel
from onnx_hw.runtime.build_folder import opened
from onnx_hw.schedule.write_tape import write_tape
from onnx_hw_link import flash_parts
from onnx_hw_tools import tools
from support.design_bench import random_frames
from support.injected_netlist_faults import Modules, first
from support.taped_designs import perceptron
from support.targets import on_board

CLOCK_MHZ = 60.0


def design_on_flash() -> Design:
    board = find_board("ulx3s")
    assert board.memory is not None
    design = on_board(perceptron((6, 5, 4), ((2, 1), (1, 2))), board, CLOCK_MHZ)
    return write_tape(replace(design, flash=board.memory.timing(CLOCK_MHZ)))


class FlashChip:
    """A perceptron whose weights come from the flash of a ULX3S, as cells of its chip."""

    def __init__(self, folder: Path) -> None:
        self.design, self.folder = design_on_flash(), folder
        self.chip: Netlist = flow.assemble(self.design)
        with opened(folder / "build") as build:
            self.synthesized: SynthesisResult = synthesize(build, self.chip.rtlil, self.chip.family)
        modules = json.loads(self.synthesized.netlist.read_text())["modules"]
        self.text = json.dumps({name: module for name, module in modules.items() if name.startswith("top")})
        self.frames = random_frames(self.design, 6, 1)

    def simulate(self, folder: Path, fault: Callable[[Modules], None] | None = None) -> GateLevel:
        modules: Modules = json.loads(self.text)
        if fault is not None:
            fault(modules)
            assert json.dumps(modules) != self.text
        (folder / "netlist.json").write_text(json.dumps({"modules": modules}))
        return gate_level.simulate(self.design, self.chip, folder / "netlist.json", self.frames)


@pytest.fixture(autouse=True)
def one_frame_in_each_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pin_level, "SECONDS", 0)


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> FlashChip:
    for tool in ("yosys", "c++"):
        try:
            tools.find(tool)
        except tools.ToolMissing as missing:
            pytest.skip(str(missing))
    return FlashChip(tmp_path_factory.mktemp("flash"))


def test_a_sound_netlist_reads_its_flash(chip: FlashChip, tmp_path: Path) -> None:
    """Through the pins of link and flash: every value, the cycles of every frame, and the times of the flash."""
    result = chip.simulate(tmp_path)
    assert (result.wrong, result.difference) == (0, "")
    assert result.values == 64 * 4 and result.tokens > 40


def swapped(modules: Modules) -> None:
    ports = modules["top"]["ports"]
    one, other = (ports[f"spi_flash_0__{name}__io"] for name in ("copi", "cipo"))
    one["bits"], other["bits"] = other["bits"], one["bits"]


def without_a_clock(modules: Modules) -> None:
    cells = modules["top"]["cells"]
    del cells[next(name for name, cell in cells.items() if cell["type"] == "USRMCLK")]


def always_driving(modules: Modules) -> None:
    pads = [cell for cell in modules["top"]["cells"].values() if cell["parameters"].get("DIR") == "BIDIR"]
    for pad in pads:
        pad["connections"]["T"] = ["0"]


def only_an_output(modules: Modules) -> None:
    first(modules, "TRELLIS_IO", having=lambda cell: cell["parameters"].get("DIR") == "BIDIR")["parameters"]["DIR"] = (
        "INPUT"
    )


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (swapped, "all results must come"),
        (without_a_clock, "the clock of the flash must have one cell that drives it; the netlist has 0"),
        (always_driving, "all results must come|both drive"),
        (only_an_output, "an input and an output in the board's file, an input in the netlist"),
    ],
)
def test_faults_at_the_pins_of_the_flash_are_seen(
    chip: FlashChip, tmp_path: Path, fault: Callable[[Modules], None], said: str
) -> None:
    result = chip.simulate(tmp_path, fault)
    assert result.wrong
    assert any(part in result.difference for part in said.split("|")), result.difference


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"deselect_ns": 900}, "selected too soon"),
        ({"wake_ns": 60_000}, "asleep"),
        ({"period_ns": 40}, "clock too fast"),
        ({"low_ns": 20}, "clock too fast"),
        ({"valid_ns": 30}, "all results must come"),
        ({"dummy_clocks": 6}, "all results must come|both drive"),
    ],
)
def test_a_slower_flash_sees_a_reader_that_is_too_fast(
    chip: FlashChip, tmp_path: Path, times: dict[str, float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = replace(flash_parts.PARTS["W25Q128JV"], **{"dummy_clocks": 4, **times})  # type: ignore[arg-type]
    monkeypatch.setitem(flash_parts.PARTS, "W25Q128JV", part)
    result = chip.simulate(tmp_path)
    assert result.wrong and any(each in result.difference for each in said.split("|")), result.difference


@pytest.mark.slow
def test_a_bitstream_reads_its_flash(chip: FlashChip) -> None:
    """Link 5: pads in both directions and the cell of the clock are unpacked, too."""
    with opened(chip.folder / "build") as build:
        routed = route(build, chip.synthesized, chip.chip.target.board, chip.chip.constraints, chip.chip.clock_mhz)
        data = (pack(build, routed).folder / BITSTREAM).read_bytes()
    netlist = chip.synthesized.netlist
    result = bitstream.check(chip.design, chip.chip, netlist, routed, data, chip.frames)
    assert (result.wrong, result.difference, result.obstacle) == (0, "", "")
    assert result.values == 64 * 4 and result.pins == 3 + 5
