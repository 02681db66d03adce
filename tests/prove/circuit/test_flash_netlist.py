"""Links 4 and 5 of a board whose weights come from its flash: sound netlists, faults at the pins of the flash."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.netlist import Netlist
from onnx_hw.assemble.tape_file import tape_image
from onnx_hw.implement.route import BITSTREAM, pack, route
from onnx_hw.implement.synthesize import SynthesisResult, synthesize
from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit import bitstream, gate_level, pin_level
from onnx_hw.prove.circuit.gate_level import GateLevel
from onnx_hw.prove.circuit.pin_hosts import HostKind, HostPlan, HostTimes, PinHost
from onnx_hw.prove.circuit.pin_level_bench import PinLevelBench
from onnx_hw.runtime.build_folder import opened
from onnx_hw.schedule.write_tape import write_tape
from onnx_hw_link import flash_parts, flash_tape
from onnx_hw_link.frames import out_of_turns
from onnx_hw_link.greeting import ChipStatus
from onnx_hw_sim.gates.netlist import flatten, read_netlist
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
        self.whole = f'{{"modules": {self.text}}}'
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


def test_a_tape_of_other_weights_is_seen(chip: FlashChip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flash holds a tape with a flipped bit: no result of it leaves the chip, which says why."""
    image = bytearray(tape_image(chip.design))
    image[40] ^= 4
    monkeypatch.setattr(pin_level, "tape_image", lambda design: bytes(image))
    result = chip.simulate(tmp_path)
    assert result.values == 0, "no result came"
    assert "all results must come; 0 of 1 frames" in result.difference or "status=4" in result.difference


def damaged_tapes(image: bytes) -> list[bytes]:
    """Return 64 wrong tapes: 61 with a flipped bit, a truncated one, that of another build, and an erased flash."""
    bits = np.random.default_rng(32).choice(8 * len(image), 61, replace=False)
    flipped = [bytes(byte ^ (1 << bit % 8) * (k == bit // 8) for k, byte in enumerate(image)) for bit in bits]
    other = flash_tape.tape_image(
        bytes(flash_tape.DIGEST_BYTES), image[flash_tape.DIGEST_BYTES : -flash_tape.CRC_BYTES]
    )
    return [*flipped, image[:-9], other, b""]


FRAMES, MORE = 24, 4
"""Number of frames, and how many more may still leave after a fault: those whose weights were read before it."""


@pytest.mark.parametrize("late", [False, True], ids=["from power-up on", "in the middle"])
def test_no_result_of_wrong_weights_leaves_the_chip(chip: FlashChip, tmp_path: Path, late: bool) -> None:
    """64 boards, each with another fault of its flash: all refuse or stop within a pass, and say so."""
    design, link = chip.design, chip.chip.link
    assert link is not None
    (tmp_path / "netlist.json").write_text(chip.whole)
    library = chip.chip.family.cell_library()
    flat = flatten(read_netlist(tmp_path / "netlist.json"), wires=library.wires)
    loaded = pin_level.load_board(design, chip.chip, flat, library)
    assert loaded.flash is not None
    wrong, alarm = damaged_tapes(loaded.flash.contents), loaded.memory_net("alarm")
    bench = PinLevelBench(design, link, chip.frames, FRAMES, resets=False)
    plan = HostPlan(HostKind.STEADY, tuple(k % 6 for k in range(FRAMES)), 2 * bench.times.reset + 64)
    times = HostTimes(CLOCK_MHZ * 1e6, 10**9, 10**9)
    hosts = [PinHost(plan, times, True, bench.data, run) for run in range(64)]
    left = None if late else 0  # results of a board when its flash was damaged
    with pin_level.under_way(loaded) as boards:
        end = boards.cycle + bench.times.session(FRAMES)
        while boards.cycle < end:
            if left is None and all(len(host.results) >= 2 for host in hosts):
                left = max(len(host.results) for host in hosts)
            if left is not None:
                for run, image in enumerate(wrong):
                    boards.hold(image, run)
            for run, host in enumerate(hosts):
                boards.send(run, host.exchange(boards.cycle, boards.take(run), int(boards.waiting[run])) or [])
            boards.step(64)
        assert boards.word(alarm) == (1 << 64) - 1, "the LED is on"
        assert not boards.flash_faults().any()
    assert left is not None
    for host in hosts:
        assert host.greeting is not None and host.session is not None
        assert host.greeting.status == ChipStatus.WEIGHTS_DAMAGED or host.session.damaged
        assert len(host.results) <= (left + MORE if late else 0) < FRAMES
        for result, wanted in zip(host.results, bench.due[0], strict=False):
            (beats,) = out_of_turns(link.outputs, link.output_turns, result.beats)
            np.testing.assert_array_equal(beats, wanted[0])


@pytest.mark.slow
def test_a_bitstream_reads_its_flash(chip: FlashChip) -> None:
    """Link 5: pads in both directions and the cell of the clock are unpacked, too."""
    with opened(chip.folder / "build") as build:
        routed = route(build, chip.synthesized, chip.chip.target.board, chip.chip.constraints, chip.chip.clock_mhz)
        data = (pack(build, routed).folder / BITSTREAM).read_bytes()
    netlist = chip.synthesized.netlist
    result = bitstream.check(chip.design, chip.chip, netlist, routed, data, chip.frames)
    assert (result.wrong, result.difference, result.obstacle) == (0, "", "")
    assert result.values == 64 * 4 and result.pins == 3 + 5 + 1
