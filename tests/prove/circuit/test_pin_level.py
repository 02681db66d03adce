"""Link 4 on boards: a sound netlist answers through its pins as the driver and golden say, and faults are named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.netlist import Netlist
from onnx_hw.exact.integers import Int
from onnx_hw.implement.synthesize import synthesize
from onnx_hw.ir.design import Design
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit import gate_level, pin_hosts, pin_level, pin_level_bench
from onnx_hw.prove.circuit.gate_level import GateLevel
from onnx_hw.prove.circuit.pin_hosts import HostKind
from onnx_hw.report import proof_chain
from onnx_hw.runtime.build_folder import opened
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.session import Session
from onnx_hw_rtl.link import uart
from onnx_hw_rtl.link.receiver import LinkReceiver
from onnx_hw_rtl.shells.board_top import BoardTop
from onnx_hw_sim.gates.netlist import flatten, read_netlist
from onnx_hw_sim.gates.pin_simulator import PinSimulator
from onnx_hw_tools import tools
from support.design_bench import random_frames
from support.hand_built_designs import alone
from support.injected_netlist_faults import FAULTS, Modules, first
from support.targets import on_board


class BoardChip:
    """A product with its weights in a block RAM, and a deep FIFO behind it, on a board, as cells of its family."""

    def __init__(self, name: str, folder: Path) -> None:
        board = find_board(name)
        weights = np.random.default_rng(1).integers(-128, 128, (18, 18))
        alike = alone(MatMul(Tensor((2, 2, 18), Int(6)), weights), (1, 1), 200)
        self.design: Design = on_board(alike, board, board.default_clock_mhz)
        self.chip: Netlist = flow.assemble(self.design)
        with opened(folder / "build") as build:
            text = synthesize(build, self.chip.rtlil, self.chip.family).netlist.read_text()
        modules = json.loads(text)["modules"]
        self.text = json.dumps({name: module for name, module in modules.items() if name.startswith("top")})
        self.frames = random_frames(self.design, 6, 1)

    def simulate(self, folder: Path, fault: Callable[[Modules], None] | None = None) -> GateLevel:
        modules: Modules = json.loads(self.text)
        if fault is not None:
            fault(modules)
            assert json.dumps(modules) != self.text
        (folder / "netlist.json").write_text(json.dumps({"modules": modules}))
        return gate_level.simulate(self.design, self.chip, folder / "netlist.json", self.frames)


BOARDS = ("ulx3s", "icebreaker_spi", "tang_nano_9k")


@pytest.fixture(autouse=True)
def one_frame_in_each_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pin_level, "SECONDS", 0)


@pytest.fixture(scope="module", params=BOARDS)
def chip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> BoardChip:
    for tool in ("yosys", "c++"):
        try:
            tools.find(tool)
        except tools.ToolMissing as missing:
            pytest.skip(str(missing))
    return BoardChip(request.param, tmp_path_factory.mktemp(request.param))


def divider(kind: str, name: str, bits: str) -> Callable[[Modules], None]:
    def fault(modules: Modules) -> None:
        first(modules, kind)["parameters"][name] = bits.zfill(32)

    return fault


def swapped(one: str, other: str) -> Callable[[Modules], None]:
    def fault(modules: Modules) -> None:
        ports = modules["top"]["ports"]
        ports[one]["bits"], ports[other]["bits"] = ports[other]["bits"], ports[one]["bits"]

    return fault


def tied(port: str) -> Callable[[Modules], None]:
    """A pad that always gives 0."""

    def fault(modules: Modules) -> None:
        (net,) = modules["top"]["ports"][port]["bits"]
        pads = ("TRELLIS_IO", "SB_IO", "TBUF")
        pad = first(modules, *pads[1:2], having=lambda cell: cell["connections"]["PACKAGE_PIN"] == [net])
        pad["connections"]["D_OUT_0"] = ["0"]

    return fault


def netlist_fault(family: str, name: str) -> Callable[[Modules], None]:
    return next(fault for fault in FAULTS[family] if fault.__name__ == name)


VALUE = r"node\.o\[\d+, .*\]: golden -?\d+, netlist -?\d+ \(run \d+: .*\)"
SILENT = r"HELLO must be answered|all results must come"
NAMED = {
    "ulx3s": (
        (divider("EHXPLLL", "CLKOS_DIV", "1011"), r"the clock must be 60 MHz; the netlist makes 54.5455 MHz"),
        (divider("EHXPLLL", "CLKOP_DIV", "10"), r"its oscillator is 50 MHz, and must be 400 to 800"),
        (
            swapped("uart_0__rx__io", "uart_0__tx__io"),
            r"pin M1, `uart_0__rx__io`: an input in the board's file, an output in the",
        ),
        (netlist_fault("ecp5", "missing_register"), VALUE),
        (netlist_fault("ecp5", "upper_half_without_address"), VALUE),
        (netlist_fault("ecp5", "flipped_weight"), r"weight 0 of word \d+ of node: golden"),
    ),
    "icebreaker_spi": (
        (divider("SB_PLL40_PAD", "DIVQ", "110"), r"the clock must be 24 MHz; the netlist makes 12 MHz"),
        (tied("spi_link_0__irq__io"), f"(?:{SILENT}).*a host that hesitates"),
        (swapped("spi_link_0__sck__io", "spi_link_0__copi__io"), SILENT),
        (netlist_fault("ice40", "unsigned_operand"), VALUE),
    ),
    "tang_nano_9k": (
        (netlist_fault("gowin", "unsigned_operand"), VALUE),
        (netlist_fault("gowin", "inverted_reset"), f"{SILENT}|{VALUE}|must describe itself|on a good wire"),
    ),
}


def test_a_sound_netlist_answers_as_golden_and_the_law_say(chip: BoardChip, tmp_path: Path) -> None:
    found = chip.simulate(tmp_path)
    assert found.agrees, found.difference
    assert found.runs == 64 and found.frames >= 64 and found.values == found.frames * 72
    assert found.tokens >= 48  # of sessions on a good wire
    assert (found.blocks, found.of_blocks, found.weights) == (1, 1, 18 * 18)
    board = chip.chip.target.board
    assert isinstance(board, LinkedBoard) and found.link == str(board.link)
    assert 0 < found.activity["node"].toggles < found.activity["node"].nets / 2
    link = proof_chain.circuit_netlist(found)
    assert link.state == "proven" and found.link in link.compared


def test_faults_are_named(chip: BoardChip, tmp_path: Path) -> None:
    for fault, said in NAMED[chip.chip.target.board.name]:
        found = chip.simulate(tmp_path, fault)
        assert not found.agrees and re.search(said, found.difference), (said, found.difference)


@pytest.mark.parametrize("chip", ["ulx3s"], indirect=True)
def test_a_credit_that_counts_otherwise_is_named(
    chip: BoardChip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few frames need no more room than there is, so that all their results come."""

    class Miscounted(Session):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, (int(value) + 99) % 256 if name == "credit" else value)  # type: ignore[call-overload]

    monkeypatch.setattr(pin_hosts, "Session", Miscounted)
    found = chip.simulate(tmp_path)
    assert not found.agrees and "the credit must be" in found.difference


def test_a_reset_that_ends_too_soon_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On iCE40, whose block RAMs are not there yet; a HELLO at 6 Mbaud takes less than the reset."""

    def hurried(*arguments: object, **named: Any) -> BoardTop:
        return BoardTop(*arguments, **{**named, "reset_cycles": 1})

    assert BoardChip("icebreaker", tmp_path / "sound").simulate(tmp_path).agrees
    monkeypatch.setattr("onnx_hw_rtl.shells.board_top.BoardTop", hurried)
    chip = BoardChip("icebreaker", tmp_path / "hurried")
    assert re.search(r"must be in reset for 3\d\d cycles .* answered a HELLO", chip.simulate(tmp_path).difference)


def test_a_receiver_that_samples_late_in_a_bit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 7/8 of a bit, which a host of exactly the same rate does not show: its bits end late enough."""
    middle, state_after = (20 - 1) // 2, uart.state_after  # of 20 cycles

    def late(count: int, width: int) -> int:
        return state_after(17 if count == middle else count, width)

    monkeypatch.setattr(uart, "state_after", late)
    chip = BoardChip("ulx3s", tmp_path)
    assert "a host that hesitates" in chip.simulate(tmp_path).difference
    monkeypatch.setattr(pin_level_bench, "PACES", [0])
    assert chip.simulate(tmp_path).agrees


def test_a_chip_that_reports_one_damaged_packet_only_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results stay right, since hosts ask again after a while."""
    report_missing = LinkReceiver._report_missing

    def once(receiver: LinkReceiver, m: Module, *signals: Any) -> None:
        report_missing(receiver, m, *signals)
        reported, broken = Signal(), receiver.end & ~signals[0]
        with m.If(receiver.missed & broken):
            m.d.sync += reported.eq(1)
        with m.If(reported & broken):
            m.d.comb += receiver.missed.eq(0)

    monkeypatch.setattr(LinkReceiver, "_report_missing", once)
    said = BoardChip("ulx3s", tmp_path).simulate(tmp_path).difference
    assert said.startswith("a second damaged packet must be answered with 84 00; the netlist sends nothing"), said


@pytest.mark.parametrize("chip", ["ulx3s"], indirect=True)
def test_bits_of_hosts_that_hesitate_have_other_lengths(chip: BoardChip) -> None:
    link = chip.chip.link
    assert link is not None
    bench = pin_level_bench.PinLevelBench(chip.design, link, chip.frames, 1, resets=True)
    hesitant = [plan.pace for plan in bench.plans if plan.kind is HostKind.HESITANT]
    assert len(hesitant) == len(bench.paces) >= 10
    assert all(Fraction(1, 100) <= abs(1 - pace) <= Fraction(2, 100) for pace in hesitant)
    assert min(hesitant) < Fraction(983, 1000) and max(hesitant) > Fraction(1017, 1000)


@pytest.mark.parametrize("chip", ["ulx3s"], indirect=True)
def test_what_rests_is_not_computed_and_nothing_else_changes(
    chip: BoardChip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same sessions, byte by byte; and the hosts disturb as they say."""
    library = chip.chip.family.cell_library()
    (tmp_path / "netlist.json").write_text(f'{{"modules": {chip.text}}}')
    flat = flatten(read_netlist(tmp_path / "netlist.json"), wires=library.wires)
    loaded = pin_level.load_board(chip.design, chip.chip, flat, library)
    seen = []
    for quiet in (True, False):

        class Chosen(PinSimulator):
            def __init__(self, *arguments: object, quiet: bool = quiet) -> None:
                super().__init__(*arguments, quiet=quiet)  # type: ignore[arg-type]

        monkeypatch.setattr("onnx_hw_sim.gates.pin_simulator.PinSimulator", Chosen)
        bench, compared = pin_level.converse(loaded, chip.frames)
        assert compared.wrong == 0, compared.difference
        seen.append((bench.cycles, [host.results for host in bench.hosts]))
    assert seen[0] == seen[1]
    hosts = {kind: [host for host in bench.hosts if host.plan.kind is kind] for kind in HostKind}
    assert all(len(of_kind) >= 10 for of_kind in hosts.values())
    assert sum(host.hit for host in hosts[HostKind.BAD_WIRE]) > 20
    assert sum(host.faults.broken + host.faults.missed for host in hosts[HostKind.BAD_WIRE]) > 10
    assert all(host.session is not None and host.hit == 0 for host in hosts[HostKind.RESET])
