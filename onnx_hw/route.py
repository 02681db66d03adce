"""The last two stages: place and route by nextpnr, the bitstream by ecppack."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx_hw.build_folder import BuildFolder, Made
from onnx_hw.synthesize import Cells, Synthesis
from onnx_hw_boards.board import Board
from onnx_hw_boards.pins import constraints
from onnx_hw_sim import tools

SEED = 1
REPORT = "report.json"
CONFIGURATION = "configuration.txt"
BITSTREAM = "bitstream.bit"


@dataclass(frozen=True)
class Route:
    """A placed and routed circuit.

    Attributes:
        made: the stage's folder.
        fmax_mhz: the greatest clock at which every path between flip-flops is fast enough.
        target_mhz: the clock that was aimed at.
        cells: what it takes of the chip, as placed.
    """

    made: Made
    fmax_mhz: float
    target_mhz: float
    cells: Cells

    @property
    def timing_met(self) -> bool:
        return self.fmax_mhz >= self.target_mhz


def route(
    folder: BuildFolder,
    synthesis: Synthesis,
    board: Board,
    pin_of: Mapping[str, str],
    clock_mhz: float,
    *,
    on_log: Callable[[Path], None] = lambda log: None,
    on_first_run: Callable[[tools.Tool], None] | None = None,
) -> Route:
    """Place and route with a fixed seed.

    Raises:
        ToolMissing, ToolFailed: nextpnr.
    """
    nextpnr = tools.find("nextpnr-ecp5")
    pads = constraints(board, pin_of, clock_mhz)
    netlist = synthesis.netlist
    # router2: the default router does not come to an end with many multipliers
    options = [*board.nextpnr_options, "--router", "router2", "--seed", str(SEED), "--timing-allow-fail"]

    def make(place: Path) -> None:
        (place / "pads.lpf").write_text(pads)
        (place / "netlist.json").write_bytes(netlist.read_bytes())  # the wheels see only the folder they run in
        log = place / "nextpnr.log"
        on_log(log)
        arguments = [*options, "--json", "netlist.json", "--lpf", "pads.lpf", "--textcfg", CONFIGURATION]
        arguments += ["--report", REPORT, "-q", "-l", "nextpnr.log"]
        try:
            tools.run(nextpnr, arguments, cwd=place, log=place / "output.log", on_first_run=on_first_run)
        finally:
            (place / "netlist.json").unlink(missing_ok=True)

    inputs = {
        "netlist": synthesis.made.files["netlist.json"],
        "pads": pads,
        "options": options,
        "nextpnr": nextpnr.version,
    }
    made = folder.stage("route", inputs, make)
    told = json.loads((made.folder / REPORT).read_text())
    used = {name: entry["used"] for name, entry in told["utilization"].items()}
    return Route(
        made,
        fmax_mhz=min((clock["achieved"] for clock in told["fmax"].values()), default=0.0),
        target_mhz=clock_mhz,
        cells=Cells(used["TRELLIS_COMB"], used["TRELLIS_FF"], used["MULT18X18D"], used["DP16KD"]),
    )


def pack(
    folder: BuildFolder, routed: Route, *, on_first_run: Callable[[tools.Tool], None] | None = None
) -> tuple[Made, Path]:
    """(the stage, the bitstream).

    Raises:
        ToolMissing, ToolFailed: ecppack.
    """
    ecppack = tools.find("ecppack")
    source = routed.made.folder / CONFIGURATION

    def make(place: Path) -> None:
        copy = place / CONFIGURATION
        copy.write_bytes(source.read_bytes())
        arguments = ["--compress", CONFIGURATION, BITSTREAM]
        tools.run(ecppack, arguments, cwd=place, log=place / "ecppack.log", on_first_run=on_first_run)
        copy.unlink()

    inputs = {"configuration": routed.made.files[CONFIGURATION], "ecppack": ecppack.version}
    made = folder.stage("pack", inputs, make)
    return made, made.folder / BITSTREAM
