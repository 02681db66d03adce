"""Sections of the report from the values of a build."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from onnx_hw.assemble.elaborate import module_names
from onnx_hw.assemble.host_link import link_of
from onnx_hw.implement.route import RouteResult
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.ir.design import Design
from onnx_hw.ir.mac_counts import macs_of_circuit
from onnx_hw.ir.network import Network
from onnx_hw.messages.version import __version__
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS
from onnx_hw.prove.circuit.gate_level import GateLevel
from onnx_hw.prove.circuit.prove import Proof
from onnx_hw.report import model as report
from onnx_hw.report.collect.design_sections import describe_design
from onnx_hw.report.netlist_sections import ChipActivity, CoreNetActivity, Synthesis, SynthesizedCore
from onnx_hw.report.register_names import register_in_words
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from onnx_hw.schedule.link_bandwidth import frames_a_second
from onnx_hw.timing.frame_times import Frames
from onnx_hw_boards.board import Board
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.verilog_board import NO_CHIP, VerilogBoard
from onnx_hw_tools import tools

FRAMES_AHEAD = 3
"""Number of frames that are predicted; the interval is that between the last two."""


def empty_model(path: Path) -> report.ModelSection:
    """Return the section of a model that has not been read yet."""
    return report.ModelSection(path.stem, 0, 0)


def parameters(model: Model) -> int:
    """Return the number of weights and biases: numbers in constants, but for scales, zero points and shapes."""
    scaling = {name for node in model.graph.nodes if facts_of(node).effect in SCALE_EFFECTS for name in node.inputs[1:]}
    return sum(
        int(array.size)
        for name, array in model.graph.constants.items()
        if name not in scaling and array.ndim and array.dtype != np.int64
    )


def describe_model(model: Model, network: Network) -> report.ModelSection:
    return report.ModelSection(model.name, macs_of_circuit(network), parameters(model), model.notes)


def describe_board(board: Board) -> report.BoardSection:
    cells = board.cells
    graded = "-".join(filter(None, (board.device.name, board.speed)))
    device = NO_CHIP if isinstance(board, VerilogBoard) else f"{graded} {board.package}"
    return report.BoardSection(board.name, device, cells.lut, cells.ff, cells.dsp, cells.bram, cells.logic)


def describe_serial(design: Design) -> report.Serial | None:
    """Return the link of a design's board, and whether it or the circuit is slower; None for a board without one."""
    board = design.target.board
    if not isinstance(board, LinkedBoard):
        return None
    link = link_of(design, design.clock_mhz)
    carried = frames_a_second(link.input_bytes, link.output_bytes, board.link)
    limit = "link" if design.clock_mhz * 1e6 >= carried * design.interval else "circuit"
    delivered = min(carried, design.frames_per_second)
    return report.Serial(board.link.bits_per_second, link.input_bytes, link.output_bytes, carried, limit, delivered)


def describe_plan(design: Design, request: ScheduleRequest, proof: Proof | None = None) -> report.DesignSection:
    """Return the section about the plan, with predicted cycles and, behind a proof, the fill of the FIFOs."""
    prediction = Frames(design).times(FRAMES_AHEAD, interval=0)
    fills: dict[str, int] = {}
    for run in proof.runs if proof else ():
        for edge, fill in run.max_fill.items():
            fills[edge] = max(fill, fills.get(edge, 0))
    return describe_design(
        design,
        interval_cycles=prediction.elapsed(FRAMES_AHEAD - 1, FRAMES_AHEAD),
        latency_cycles=prediction.latency(),
        request=request,
        max_fill=fills or None,
    )


def describe_proof(proof: Proof) -> report.Simulation:
    """Return the section about all runs together; interval and latency are those of the run at full rate."""
    first = proof.runs[0]
    return report.Simulation(
        engine=proof.engine,
        frames=proof.frames,
        edges_compared=first.edges_compared,
        values_compared=sum(run.values_compared for run in proof.runs),
        mismatches=sum(run.mismatches for run in proof.runs),
        firings_compared=sum(run.firings_compared for run in proof.runs),
        firing_mismatches=sum(run.firing_mismatches for run in proof.runs),
        interval_cycles=first.interval_cycles or 0,
        latency_cycles=first.latency_cycles or 0,
        stalls=len(proof.stalls),
    )


def describe_synthesis(
    synthesis: SynthesisResult, routed: RouteResult | None = None, design: Design | None = None
) -> Synthesis:
    """Return what the tools counted; core by core, with the model's names, where the design is known."""
    nodes = {module: node for node, module in (module_names(design).items() if design else ())}
    cores = tuple(
        SynthesizedCore(nodes[module], cells.lut, cells.ff, cells.dsp, cells.bram)
        for module, cells in synthesis.cores.items()
        if module in nodes
    )
    used = synthesis.used
    section = Synthesis(used.lut, used.ff, used.dsp, used.bram, used.logic, cores=cores)
    if routed is None:
        return section
    return replace(
        section,
        fmax_mhz=routed.fmax_mhz,
        target_mhz=routed.target_mhz,
        timing_met=routed.timing_met,
        critical_path=tuple(register_in_words(cell, nodes) for cell in routed.critical_path),
        path_logic_ns=routed.logic_ns,
        path_routing_ns=routed.routing_ns,
    )


def describe_activity(comparison: GateLevel, design: Design) -> ChipActivity | None:
    """Return the activity of the cores; None where nothing changed in the sampled cycles."""
    every = comparison.activity
    total = sum(nets.toggles for nets in every.values())
    if not total:
        return None
    cores = tuple(
        CoreNetActivity(node.name, nets.nets, round(nets.toggles, 3), round(nets.toggles / total, 6))
        for node in design.network.nodes
        if (nets := every.get(node.name)) is not None
    )
    return ChipActivity(sum(nets.nets for nets in every.values()), round(total, 3), cores)


USES = {
    Stage.SIMULATE: ("yosys", "c++"),
    Stage.SYNTHESIZE: ("yosys",),
    Stage.GATES: ("c++",),
    Stage.UNPACK: ("c++",),
}
"""Programs that a stage uses on every board, by stage."""


def tools_of(stages: Iterable[Stage], board: Board) -> tuple[str, ...]:
    """Return the names of all programs that the stages use."""
    family = board.family
    uses = {**USES, Stage.ROUTE: (family.placement.tool,), Stage.PACK: (family.packing.tool,)}
    return tuple(dict.fromkeys(name for stage in stages for name in uses.get(stage, ())))


def describe_tools(stages: Iterable[Stage], board: Board) -> dict[str, str]:
    """Return the version of every program that the stages used."""
    versions = {"onnx-hw": __version__}
    for name in tools_of(stages, board):
        try:
            versions[name] = tools.find(name).version
        except tools.ToolMissing:
            continue
    return versions
