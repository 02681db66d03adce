"""Link 4: the netlist of the chip, cell by cell as it is placed and routed, against golden and the predicted cycles.

64 runs at once, each from power-up with rubbish of its own in every memory. On a bare chip: at full rate, with random
stalls and with bursts; half of them without any reset, half with one in mid-frame. What is compared is what leaves the
chip: every value, and the cycle of every token. On a board with a link: sessions through its pins (``pin_level``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble.elaborate import module_names
from onnx_hw.assemble.netlist import Netlist
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.prove.circuit import pin_level
from onnx_hw.prove.circuit.gate_level_bench import GateLevelBench, streams_of
from onnx_hw.prove.circuit.rom_contents import NAMES, RomContents, decode
from onnx_hw.prove.circuit.run_time import announce_long_run
from onnx_hw.prove.circuit.stalls import SEED
from onnx_hw.prove.circuit.stored_comparison import compared_once
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw_boards.linked_board import LinkedBoard

if TYPE_CHECKING:
    from onnx_hw_sim.gates.simulator import GateSimulator
    from onnx_hw_sim.gates.toggles import ModelledCells, ToggleCount

STAGE = "gates"

FRAMES_OF_A_RUN = (2, 8)
"""Least and most frames of a run; more than the least only where they fit in ``SECONDS``."""

SECONDS = 30

COMPARED_CYCLES = 256
"""Cycles of a run, about, in which toggles are counted."""

CYCLES_PER_COMPARED = (4, 16)
"""Least and most cycles from one of those to the next. Counting costs about a fifth of the time of a cycle."""


SDRAM_UNKNOWN = "there is no model of the SDRAM beside a netlist yet, from which the weights come"


class NotSimulated(Exception):
    """The netlist cannot be simulated here; the message says why."""


@dataclass(frozen=True)
class NetActivity:
    """Activity of some nets at full rate, from the first cycle of a run to its last output.

    Attributes:
        nets: number of nets.
        toggles: how many of them change from one cycle to the next, on average.
    """

    nets: int
    toggles: float


@dataclass(frozen=True)
class GateLevel:
    """The netlist simulated.

    Attributes:
        cells: cells of the chip that were simulated.
        runs: runs at once.
        frames: frames of all runs together.
        cycles: cycles of each run.
        values, tokens: values and tokens compared, of the outputs of all runs; behind a link, values and frames.
        link: the link through which the runs went; empty where the streams are on pins.
        wrong: values, tokens and constants that differ.
        blocks, weights: block RAMs whose constants were decoded and compared with golden's, and how many of those.
        of_blocks: block RAMs that nothing writes.
        difference: first difference as a sentence, or empty.
        cached: whether all of this was known from an earlier, identical build.
        activity: activity of the nets by the core whose cells drive them, "" for those outside of all cores.
    """

    cells: int
    runs: int
    frames: int
    cycles: int
    values: int
    tokens: int
    wrong: int
    blocks: int = 0
    weights: int = 0
    of_blocks: int = 0
    difference: str = ""
    link: str = ""
    cached: bool = False
    activity: Mapping[str, NetActivity] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        return self.wrong == 0

    def __str__(self) -> str:
        verdict = "as golden and timing say" if self.agrees else f"{self.wrong} differences"
        return f"{self.cells:,} cells, {self.runs} runs, {self.frames} frames: {verdict}"

    def __repr__(self) -> str:
        return f"GateLevel: {self.cells:,} cells, {self.frames} frames in {self.runs} runs, {self.wrong} wrong"


def prove(
    build: BuildFolder,
    design: Design,
    chip: Netlist,
    synthesized: SynthesisResult,
    integers: Mapping[str, np.ndarray],
    *,
    progress: Callable[[str], None] = lambda fact: None,
) -> GateLevel:
    """Simulate the netlist of a build, unless that was done; only agreement is stored. Raise as ``simulate``."""
    from onnx_hw_sim.gates.native_gates import fingerprint

    inputs = {
        "netlist": synthesized.made.files[synthesized.netlist.name],
        "simulator": fingerprint(chip.family.cell_library()),
    }
    return compared_once(
        build,
        STAGE,
        inputs,
        integers,
        GateLevel,
        lambda: simulate(design, chip, synthesized.netlist, integers, progress=progress),
    )


def simulate(
    design: Design,
    chip: Netlist,
    netlist: Path,
    integers: Mapping[str, np.ndarray],
    *,
    progress: Callable[[str], None] = lambda fact: None,
) -> GateLevel:
    """Stream frames through the netlist and compare all that leaves it.

    Args:
        chip: netlist before synthesis.
        netlist: yosys' JSON file.
        integers: by input tensor, (frames, height, width, channels).

    Raises:
        NotSimulated: a cell is used in a way that has no model here, or there is no C++ compiler.
    """
    from onnx_hw_sim.gates.cell_models import UnmodelledCell
    from onnx_hw_tools.tools import ToolMissing

    if design.sdram is not None:
        raise NotSimulated(SDRAM_UNKNOWN)
    compare = _through_pins if isinstance(chip.target.board, LinkedBoard) else _on_pins
    try:
        return compare(design, chip, netlist, integers, progress)
    except (UnmodelledCell, ToolMissing) as why:
        raise NotSimulated(str(why)) from None


def _on_pins(
    design: Design, chip: Netlist, netlist: Path, integers: Mapping[str, np.ndarray], progress: Callable[[str], None]
) -> GateLevel:
    """Simulate a bare chip."""
    simulator, roms, cells = load(design, chip, netlist)
    bench = GateLevelBench(design, integers, frames_of_a_run(design, simulator.program.nanoseconds))
    long = announce_long_run(bench.cycles, simulator.program.nanoseconds, bench.whose)
    progress(f"{cells:,} cells, {bench.frames} frames in {len(bench.starts)} runs{long}")
    count = _toggle_count(design, simulator.cells, bench.full_rate_cycles)
    compared = bench.compare(simulator.run(bench.plan(), seed=SEED, count=count))
    differences = [text for text in (roms.difference, str(compared.difference or "")) if text]
    return GateLevel(
        cells,
        len(bench.starts),
        bench.frames,
        bench.cycles,
        compared.values,
        compared.tokens,
        compared.wrong + roms.wrong,
        roms.blocks,
        roms.weights,
        roms.of_blocks,
        "; ".join(differences),
        activity=_activity(count),
    )


def _through_pins(
    design: Design, chip: Netlist, netlist: Path, integers: Mapping[str, np.ndarray], progress: Callable[[str], None]
) -> GateLevel:
    """Simulate a board with a link."""
    from onnx_hw_sim.gates.netlist import flatten, read_netlist

    library = chip.family.cell_library()
    flat = flatten(read_netlist(netlist), wires=library.wires, names=NAMES)
    loaded = pin_level.load_board(design, chip, flat, library)
    result = GateLevel(len(flat.cells), 0, 0, 0, 0, 0, len(loaded.differences), link=str(loaded.board.link))
    if loaded.cells is None:
        return replace(result, difference=loaded.differences[0])
    roms = decode(design, flat, loaded.cells.parts, library.stored)
    count = _toggle_count(design, loaded.cells, COMPARED_CYCLES * CYCLES_PER_COMPARED[1])
    bench, compared = pin_level.converse(loaded, integers, count=count, progress=progress)
    return replace(
        result,
        runs=len(bench.plans),
        frames=bench.frames,
        cycles=bench.cycles,
        values=compared.values,
        tokens=compared.cycles,
        wrong=compared.wrong + roms.wrong,
        blocks=roms.blocks,
        weights=roms.weights,
        of_blocks=roms.of_blocks,
        difference="; ".join(text for text in (roms.difference, compared.difference) if text),
        activity=_activity(count),
    )


def _activity(count: ToggleCount) -> dict[str, NetActivity]:
    return {
        core: NetActivity(len(nets), count.toggles[core] / max(1, count.pairs)) for core, nets in count.groups.items()
    }


def _toggle_count(design: Design, cells: ModelledCells, window: int) -> ToggleCount:
    """Return what to count: the nets of each core, in the runs at full rate, in about ``COMPARED_CYCLES`` cycles."""
    from onnx_hw_sim.gates.toggles import ToggleCount

    nodes = {module: node for node, module in module_names(design).items()}

    def core_of(cell: str) -> str:
        return next((nodes[part] for part in cell.split(".") if part in nodes), "")

    least, most = CYCLES_PER_COMPARED
    gap = min(most, max(least, window // COMPARED_CYCLES))
    return ToggleCount(cells.driven_nets(core_of), GateLevelBench.FULL_RATE, window, gap)


def load(design: Design, chip: Netlist, netlist: Path) -> tuple[GateSimulator, RomContents, int]:
    """Return the netlist ready to run, its weights compared, and the number of its cells.

    Raises:
        NotModelled: a cell has no model.
    """
    from onnx_hw_sim.gates.cell_models import UnmodelledCell
    from onnx_hw_sim.gates.netlist import flatten, read_netlist
    from onnx_hw_sim.gates.simulator import GateSimulator

    if chip.reset_delay is None:
        raise UnmodelledCell("its streams are not on pins")
    library = chip.family.cell_library()
    flat = flatten(read_netlist(netlist), wires=library.wires, names=NAMES)
    sources, sinks = streams_of(design)
    simulator = GateSimulator(flat, library.models, sources, sinks, chip.reset_delay)
    return simulator, decode(design, flat, simulator.parts, library.stored), len(flat.cells)


def frames_of_a_run(design: Design, nanoseconds: float) -> int:
    """Return the frames of a run that fit in ``SECONDS``; the number depends on the netlist alone.

    Args:
        nanoseconds: estimated time of a cycle.
    """
    least, most = FRAMES_OF_A_RUN
    return int(min(most, max(least, SECONDS * 1e9 / (2 * design.interval * nanoseconds))))


def difference_error(result: GateLevel) -> UserError:
    """Return the error for a netlist that differs from golden or from the predicted cycles."""
    compared = result.values + result.tokens + result.weights
    return user_error(
        "netlist-differs",
        f"{result.difference}; {result.wrong:,} of {compared:,} values, cycles and weights differ",
        hint="this is a bug of onnx-hw, or of yosys: please report it with the model",
        stage=STAGE,
        exit_code=ExitCode.MISMATCH,
    )
