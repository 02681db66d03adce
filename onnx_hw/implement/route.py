"""Place and route, and the bitstream: nextpnr puts the cells on the chip, the family's packer writes the file."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from onnx_hw.implement.check_fit import NO_PLACEMENT, not_placed, too_full
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.runtime.build_folder import BuildFolder, Made
from onnx_hw_boards.board import Board
from onnx_hw_boards.families.family import SlowestPath
from onnx_hw_tools import tools
from onnx_hw_tools.tools import Tool, ToolFailed

STAGE = "route"
_REPORT = "report.json"
_DELAYS = "delays.sdf"
_PATH = "path.json"
_SEED = "seed.txt"
LOG = "nextpnr.log"
BITSTREAM = "top.bit"
BITSTREAM_STAGE = "bitstream"


@dataclass(frozen=True)
class Utilisation:
    """Sites of one kind."""

    used: int
    available: int


@dataclass(frozen=True)
class RouteResult:
    """A design on its chip.

    Attributes:
        fmax_mhz: fastest clock under which every path meets its timing, of the slowest clock domain.
        target_mhz: clock that was aimed at.
        utilisation: sites by nextpnr's name for them, such as ``TRELLIS_COMB``.
        critical_path: the registers at both ends of the slowest path, by cell name.
        board: board with the chip.
        configuration: file that the packer reads.
        made: digest and provenance of the files.
        logic_ns, routing_ns: delay of the cells and of the wires on the slowest path, ns; 0 without such a path.
        other_seed: seed that gave a legal placement, where the one that was asked for gave none; else None.
    """

    fmax_mhz: float
    target_mhz: float
    utilisation: Mapping[str, Utilisation]
    critical_path: tuple[str, ...]
    board: Board
    configuration: Path
    made: Made
    logic_ns: float = 0.0
    routing_ns: float = 0.0
    other_seed: int | None = None

    @property
    def timing_met(self) -> bool:
        return self.fmax_mhz >= self.target_mhz

    @property
    def log_text(self) -> str:
        """Text that nextpnr printed; empty where its log is gone."""
        log = self.made.folder / LOG
        return log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""

    def __str__(self) -> str:
        verdict = "PASS" if self.timing_met else "MISSED"
        seed = "" if self.other_seed is None else f", with seed {self.other_seed}"
        return f"{self.fmax_mhz:.1f} MHz ({verdict} at {self.target_mhz:g} MHz{seed})"


def route(
    build: BuildFolder,
    synthesis: SynthesisResult,
    board: Board,
    constraints: str,
    clock_mhz: float,
    *,
    seed: int = 1,
    seeds: int = 1,
    nextpnr: Tool | None = None,
    on_log: Callable[[Path], None] = lambda log: None,
    on_first_run: Callable[[Tool], None] | None = None,
) -> RouteResult:
    """Place and route a netlist. Missing the clock is no error here; see ``RouteResult.timing_met``.

    Args:
        constraints: text of nextpnr's file, see ``onnx_hw.implement.check_fit.pin_constraints``.
        clock_mhz: clock to aim at.
        seed: seed of the placer; another one moves Fmax by some 10 %.
        seeds: how many seeds are tried, this one and those after it, until nextpnr finds a legal placement: on a chip
            that is nearly full this is a matter of luck.

    Raises:
        UserError: there is too little of something; says by how much. Or no seed gave a legal placement.
        ToolMissing, ToolFailed: nextpnr.
    """
    placement = board.family.placement
    nextpnr = nextpnr or tools.find(placement.tool)
    options = [*board.nextpnr_options, *placement.options, "--timing-allow-fail"]
    options += ["--freq", f"{clock_mhz:g}"]

    def make(folder: Path) -> None:
        (folder / placement.constraints).write_text(constraints, encoding="utf-8")
        log = folder / LOG
        on_log(log)
        # Run in the build's folder, because the netlist lies in another stage's.
        here, netlist = folder.relative_to(build.path), synthesis.netlist.relative_to(build.path)
        places = {
            "netlist": netlist,
            "constraints": here / placement.constraints,
            "placed": here / placement.placed,
        }
        files = [part.format(**places) for part in placement.files] + ["--report", str(here / _REPORT)]
        if placement.slowest_path is not None:
            files += ["--sdf", str(here / _DELAYS)]
        made = [folder / placement.placed, folder / _REPORT]
        for tried in range(seed, seed + seeds):
            words = [*options, "--seed", str(tried), *files]
            try:
                tools.run(nextpnr, words, cwd=build.path, log=log, on_first_run=on_first_run, makes=made)
            except ToolFailed as failure:
                said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
                if shortage := too_full(board, said):
                    raise shortage from None
                if NO_PLACEMENT not in said:
                    raise
                if tried == seed + seeds - 1:
                    raise not_placed(board, said, range(seed, seed + seeds)) from failure
                continue
            if tried != seed:
                (folder / _SEED).write_text(str(tried), encoding="utf-8")
            break
        if placement.slowest_path is not None:
            with (folder / _DELAYS).open(encoding="utf-8") as lines:
                path = placement.slowest_path(lines)
            (folder / _DELAYS).unlink()  # much larger than all other files
            (folder / _PATH).write_text(json.dumps(asdict(path)), encoding="utf-8")

    inputs = {
        "netlist": synthesis.made.files[synthesis.netlist.name],
        "constraints": constraints,
        "options": [*options, "--seed", str(seed)],
        "nextpnr": nextpnr.version,
    }
    if placement.slowest_path is not None:  # another analysis gives another result of the same design
        inputs["analysis"] = inspect.getsource(sys.modules[placement.slowest_path.__module__])
    return read_result(build.stage(STAGE, inputs, make), board, clock_mhz)


def read_result(made: Made, board: Board, clock_mhz: float) -> RouteResult:
    """Read the result of a routed design from its folder.

    Its slowest path is nextpnr's, or that of the family, which counts cells that nextpnr does not time.
    """
    report = json.loads((made.folder / _REPORT).read_text(encoding="utf-8"))
    slowest = min(report["fmax"], key=lambda clock: report["fmax"][clock]["achieved"])
    path = _slowest_path(report, slowest)
    routing = sum(part["delay"] for part in path if part["type"] == "routing")
    seed = made.folder / _SEED
    result = RouteResult(
        fmax_mhz=round(report["fmax"][slowest]["achieved"], 2),
        target_mhz=clock_mhz,
        utilisation={
            kind: Utilisation(sites["used"], sites["available"]) for kind, sites in report["utilization"].items()
        },
        critical_path=(path[0]["from"]["cell"], path[-1]["to"]["cell"]) if path else (),
        board=board,
        configuration=made.folder / board.family.placement.placed,
        made=made,
        logic_ns=round(sum(part["delay"] for part in path) - routing, 3),
        routing_ns=round(routing, 3),
        other_seed=int(seed.read_text(encoding="utf-8")) if seed.is_file() else None,
    )
    if board.family.placement.slowest_path is None:
        return result
    own = SlowestPath(**json.loads((made.folder / _PATH).read_text(encoding="utf-8")))
    return replace(
        result,
        fmax_mhz=round(min(own.mhz, result.fmax_mhz), 2),
        critical_path=(own.first, own.last),
        logic_ns=round(own.logic_ns, 3),
        routing_ns=round(own.routing_ns, 3),
    )


def pack(build: BuildFolder, routed: RouteResult, *, packer: Tool | None = None) -> Made:
    """Write the bitstream, the file ``BITSTREAM``; the same design gives the same bytes.

    Raises:
        ToolMissing, ToolFailed: the packer.
    """
    packing = routed.board.family.packing
    packer = packer or tools.find(packing.tool)

    def make(folder: Path) -> None:
        words = {
            "option": routed.board.device.option,
            "placed": routed.configuration.relative_to(build.path),
            "bitstream": folder.relative_to(build.path) / BITSTREAM,
        }
        arguments = [part.format(**words) for part in packing.arguments]
        made = [folder / BITSTREAM]
        tools.run(packer, arguments, cwd=build.path, log=folder / f"{packer.name}.log", makes=made)

    inputs = {
        "configuration": routed.made.files[routed.configuration.name],
        "arguments": packing.arguments,
        packer.name: packer.version,
    }
    return build.stage(BITSTREAM_STAGE, inputs, make)


def _slowest_path(report: Mapping[str, Any], clock: str) -> Sequence[Mapping[str, Any]]:
    """Return the slowest path from register to register, or none; paths of pads say nothing about the clock."""
    return next((p["path"] for p in report["critical_paths"] if clock in p["from"] and clock in p["to"]), ())
