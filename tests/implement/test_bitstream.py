"""A small circuit from Amaranth to bitstream: counted, routed, packed, reproducible, cached."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import Component, In, Out

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.implement.check_fit import pin_constraints
from onnx_hw.implement.route import BITSTREAM, RouteResult, pack, route
from onnx_hw.implement.synthesize import SynthesisResult, synthesize
from onnx_hw.runtime.build_folder import opened
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_boards.pins import PadStream
from onnx_hw_rtl.arithmetic.multiplier import Multiplier
from onnx_hw_rtl.parts.rom import Rom
from onnx_hw_rtl.shells.shell import Shell
from onnx_hw_rtl.target import Target
from onnx_hw_tools import tools
from onnx_hw_tools.tools import Tool, ToolFailed

BOARD = find_board("ecp5")
assert isinstance(BOARD, BareChip)
STREAMS = [PadStream("x", 1, 8), PadStream("y", 1, 16)]


class Scale(Component):
    """A counter walks through constants, one multiplier scales the input by them."""

    def __init__(self, constants: list[int]) -> None:
        self.constants = constants
        into = {"x_payload": In(8), "x_valid": In(1), "y_ready": In(1)}
        super().__init__({**into, "y_payload": Out(16), "y_valid": Out(1), "x_ready": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.constants = rom = Rom(8, self.constants)
        m.submodules.scale = scale = Multiplier(8, 8)
        place, factor, valid = Signal(8), Signal(8), Signal(6)
        m.d.sync += [place.eq(place + 1), factor.eq(rom.data), valid.eq(valid << 1 | self.x_valid)]
        m.d.comb += [rom.addr.eq(place), scale.a.eq(self.x_payload), scale.b.eq(factor)]
        m.d.comb += [self.y_payload.eq(scale.p), self.y_valid.eq(valid[-1]), self.x_ready.eq(self.y_ready)]
        return m


def netlist(constants: range = range(200)) -> str:
    shell = Shell(Scale([c - 50 for c in constants]))
    return rtlil.convert(shell, name="top", platform=Target(ECP5.primitives()), emit_src=False)


@dataclass
class Built:
    synthesis: SynthesisResult
    route: RouteResult
    bitstream: Path


def build(out: Path, *, constants: range = range(200), seed: int = 1, clock_mhz: float = 80) -> Built:
    with opened(out) as folder:
        synthesis = synthesize(folder, netlist(constants), BOARD.family)
        constraints = pin_constraints(BOARD, STREAMS, clock_mhz)
        routed = route(folder, synthesis, BOARD, constraints, clock_mhz, seed=seed)
        return Built(synthesis, routed, pack(folder, routed).folder / BITSTREAM)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> list[Built]:
    """One circuit in two folders, at once."""
    for name in ("yosys", "nextpnr-ecp5", "ecppack"):
        try:
            tools.find(name)
        except tools.ToolMissing as missing:
            pytest.skip(str(missing))
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(build, (tmp_path_factory.mktemp(name) for name in ("one", "other"))))


@pytest.fixture
def built(twins: list[Built]) -> Built:
    return twins[0]


def test_cells_are_counted_core_by_core(built: Built) -> None:
    assert built.synthesis.mapper == "abc9"
    assert (built.synthesis.used.dsp, built.synthesis.used.bram) == (1, 1)
    cores = built.synthesis.cores
    assert set(cores) == {"constants", "scale"}
    assert cores["constants"] == Cells(lut=0, ff=0, dsp=0, bram=1)
    assert cores["scale"] == Cells(lut=0, ff=0, dsp=1, bram=0)


def test_nextpnr_found_the_same_cells(built: Built) -> None:
    used = built.route.utilisation
    assert used["MULT18X18D"].used == built.synthesis.used.dsp
    assert used["DP16KD"].used == built.synthesis.used.bram
    assert used["TRELLIS_FF"].used == built.synthesis.used.ff
    assert used["TRELLIS_IO"].used == 2 + sum(stream.pins for stream in STREAMS)
    cells = BOARD.cells
    available = {kind: used[kind].available for kind in ("TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D", "DP16KD")}
    assert available == dict(zip(available, (cells.lut, cells.ff, cells.dsp, cells.bram), strict=True))


def test_timing_is_a_verdict_with_its_target(built: Built) -> None:
    assert built.route.target_mhz == 80
    assert built.route.fmax_mhz > 150 and built.route.timing_met
    assert len(built.route.critical_path) == 2
    assert all(cell.startswith("design.") for cell in built.route.critical_path)
    slowest_ns = built.route.logic_ns + built.route.routing_ns
    assert built.route.logic_ns > 0 < built.route.routing_ns and slowest_ns == pytest.approx(
        1e3 / built.route.fmax_mhz, rel=0.02
    )


def test_an_identical_build_is_cached(built: Built) -> None:
    folder = built.bitstream.parent.parent
    before = built.bitstream.stat().st_mtime_ns
    again = build(folder)
    assert again.synthesis.made.cached and again.route.made.cached
    assert again.bitstream.stat().st_mtime_ns == before
    assert again.synthesis.used == built.synthesis.used and again.route.fmax_mhz == built.route.fmax_mhz


def test_another_folder_gives_the_same_bytes(twins: list[Built]) -> None:
    built, other = twins
    assert built.bitstream != other.bitstream and not built.route.made.cached and not other.route.made.cached
    assert other.bitstream.read_bytes() == built.bitstream.read_bytes()
    assert other.route.made.digest == built.route.made.digest


def test_another_constant_gives_another_bitstream_and_a_missed_clock_is_told(built: Built, tmp_path: Path) -> None:
    other = build(tmp_path, constants=range(1, 201), clock_mhz=2000)
    assert other.synthesis.made.digest != built.synthesis.made.digest
    assert other.bitstream.read_bytes() != built.bitstream.read_bytes()
    assert other.route.fmax_mhz < 2000 and not other.route.timing_met


def test_a_netlist_is_the_same_wherever_its_sources_lie() -> None:
    assert netlist() == netlist()
    assert Path(__file__).name not in netlist()


FAKE_YOSYS = """
import subprocess, sys
script = sys.argv[sys.argv.index("-p") + 1]
if "abc -dress -lut 4:7" in script:
    sys.exit(subprocess.run({command!r} + sys.argv[1:]).returncode)
open("yosys.log", "w").write({log!r})
sys.exit(1)
"""


def fake_yosys(folder: Path, log: str) -> Tool:
    """Fails with ``log`` where ABC9 is asked for, otherwise the real one."""
    program = folder / "fake.py"
    program.write_text(FAKE_YOSYS.format(command=list(tools.find("yosys").command), log=log))
    return Tool("yosys", (sys.executable, str(program)), "test")


def test_the_older_mapper_takes_over_when_abc9_crashes(built: Built, tmp_path: Path) -> None:
    yosys = fake_yosys(tmp_path, "2.46. Executing ABC9 pass.\nERROR: Assert `false' failed in kernel/rtlil.cc:3091.\n")
    with opened(tmp_path / "out") as folder:
        result = synthesize(folder, netlist(), BOARD.family, yosys=yosys)
    assert result.mapper == "abc"
    assert (result.used.dsp, result.used.bram, result.used.ff) == (1, 1, built.synthesis.used.ff)
    assert "Assert" in (result.made.folder / "yosys-abc9.log").read_text()
    cells = json.loads(result.netlist.read_text())["modules"]["top"]["cells"].values()
    assert {cell["type"] for cell in cells} <= {"LUT4", "CCU2C", "TRELLIS_FF", "$scopeinfo", *_cores(result)}


def _cores(result: SynthesisResult) -> set[str]:
    return {f"top.design.{core}" for core in result.cores}


@pytest.mark.usefixtures("built")
def test_other_failures_of_yosys_are_not_hidden(tmp_path: Path) -> None:
    yosys = fake_yosys(tmp_path, "ERROR: Module `top' not found!\n")
    with opened(tmp_path / "out") as folder, pytest.raises(ToolFailed, match="not found") as failure:
        synthesize(folder, netlist(), BOARD.family, yosys=yosys)
    assert failure.value.log == tmp_path / "out" / "synthesis-failed" / "yosys.log"
    assert failure.value.log.exists()
