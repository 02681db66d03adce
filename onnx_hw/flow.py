"""The whole pipeline: what happens between ``onnx-hw build model.onnx`` and the bitstream. Start here.

    model.onnx ─ read ─▶ Model ─ quantize ─▶ Network ─ schedule ─▶ Design ─ assemble ─▶ Netlist
    Design ─ simulate (golden and timing agree with the circuit) ─▶ Proof
    Netlist ─ synthesize ─▶ SynthesisResult ─ gates (golden and timing agree with the netlist) ─▶ GateLevel
    SynthesisResult ─ route ─▶ RouteResult ─ pack ─▶ bitstream ─ unpack (the file is the netlist) ─▶ BitstreamCheck

Every stage is a function of its arguments alone, and prints nothing. It reports its progress to a ``Listener``.
``onnx_hw.commands.build`` runs all stages in a folder and writes the report, ``onnx_hw.commands.run`` runs those that
it needs; the functions are there for everybody else (docs/python.md).
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.elaborate import NamedCircuit
from onnx_hw.assemble.netlist import Netlist, netlist_of
from onnx_hw.implement import route as place_and_route
from onnx_hw.implement import synthesize as synthesis
from onnx_hw.implement.route import RouteResult
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.ir.design import Design
from onnx_hw.ir.golden import streamed_in
from onnx_hw.ir.network import Network
from onnx_hw.ir.verify_design import verify_design
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.onnx.canonicalize.unbatch import ReadModel
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.load.read import read as read_onnx
from onnx_hw.prove.circuit import bitstream
from onnx_hw.prove.circuit import prove as simulation
from onnx_hw.prove.circuit.engines import build_bench
from onnx_hw.prove.circuit.gate_level import GateLevel
from onnx_hw.prove.circuit.gate_level import prove as gate_level
from onnx_hw.prove.circuit.prove import Proof
from onnx_hw.quantization.quantize import Quantized, prepare_model, quantize_model
from onnx_hw.quantization.ranges.calibrate import RangeSource, SampleRanges
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.quantization.suggest_cut import suggest_cut
from onnx_hw.runtime.build_folder import BuildFolder, Made
from onnx_hw.runtime.listener import NULL_LISTENER, Listener
from onnx_hw.runtime.options import DEFAULT_BOARD, ReadOptions, SimulationEngine
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.samples.frames import input_data
from onnx_hw.schedule.schedule_for_board import schedule_for_board


def read(path: str | Path, reading: ReadOptions | None = None) -> ReadModel:
    """Read the ONNX model in a file, and infer the type of every value.

    The result is the model as written; its field ``frame`` holds the model of one frame, and the batch.

    Raises:
        UserError: all faults against the specification.
    """
    return one_frame(read_onnx(Path(path), **asdict(reading or ReadOptions())), path)


def one_frame(model: Model, path: str | Path) -> ReadModel:
    """Return the model of a file with the type of every value, as written and as the model of one frame."""
    return ReadModel.of(replace(infer(model), name=Path(path).stem))


def quantize(
    model: ReadModel, calibration: Mapping[str, ArrayLike] | ArrayLike | None = None, scheme: Scheme | None = None
) -> Network:
    """Return the integer network of a model.

    A model with a static batch gives the network of one frame, (1, ...) instead of (N, ...).

    Args:
        calibration: samples for values that have no integers yet: arrays by graph input, or that of the only input;
            see ``onnx_hw.samples.check_samples``. What is converted is said by a Python warning.
        scheme: how those are chosen; None for the usual one, int8.

    Raises:
        UserError: every obstacle, with the nodes' own names; a float model comes without calibration; a scheme is given
            and all integers are there, or it names what gets none.
    """
    given = input_data(None, calibration, model)
    for message, hint in given.notes:
        warnings.warn(f"{message}; {hint}", stacklevel=2)
    method = (scheme or Scheme()).ranges
    ranges = None if given.calibration is None else SampleRanges(given.calibration, method)
    return quantized(model, ranges, scheme).network


def quantized(model: ReadModel, ranges: RangeSource | None, scheme: Scheme | None = None) -> Quantized:
    """Quantize a model of one frame; return the network, the quantized model it equals, and what that was made of.

    Args:
        ranges: where the ranges of values without integers come from, such as ``SampleRanges``; None for nowhere.
        scheme: of their integers; None for the usual one.
    """
    with suggest_cut(model.frame.model):
        return quantize_model(prepare_model(model.frame.model), ranges, scheme)


def schedule(
    network: Network,
    board: str = DEFAULT_BOARD,
    request: ScheduleRequest | None = None,
    **choices: Any,
) -> Design:
    """Return the design of a network for a board: foldings, gearboxes and FIFO depths are chosen, every cycle is known.

    Args:
        request: clock, lanes and rate, or the foldings and FIFO depths; None for the fastest design that fits.
        choices: fields of ``ScheduleRequest`` that take the place of those of ``request``: ``multipliers=32``.

    Raises:
        UserError: nothing fits; the message says by how much. Foldings or depths are not possible.
    """
    request = replace(request or ScheduleRequest(), **choices)
    return schedule_for_board(find_board(board), verify_network(network), request)[0]


def assemble(design: Design) -> Netlist:
    """Return the circuit of a design, with its streams on the pins of its board.

    Raises:
        UserError: there are not enough pins.
    """
    return netlist_of(design)


def simulate(
    design: Design,
    frames: Mapping[str, np.ndarray] | None = None,
    *,
    engine: SimulationEngine | None = None,
    folder: Path | None = None,
    circuit: NamedCircuit | None = None,
    listener: Listener = NULL_LISTENER,
) -> Proof:
    """Prove a design: compare its compiled circuit with golden on every edge, and with the timing on every firing.

    Args:
        frames: by graph input, (frames, *shape); None for random integers.
        engine: simulator, None for the fastest one that is installed; ``gates`` simulates the netlist of the chip.
        folder: folder of the build, where the simulator is compiled; None for a temporary one.
        circuit: ``onnx_hw.assemble.elaborate.bench_circuit(design)``, if known already.

    Raises:
        ToolMissing, ToolFailed: a program is not there, or failed.
    """
    with tempfile.TemporaryDirectory() if folder is None else nullcontext(folder) as place:
        integers = streamed_in(verify_design(design).network, frames)
        bench = build_bench(design, integers, Path(place), engine, listener, circuit)
        return simulation.prove(design, *bench, progress=listener.status)


def synthesize(netlist: Netlist, folder: BuildFolder, listener: Listener = NULL_LISTENER) -> SynthesisResult:
    """Map a netlist to cells of the chip, and count them; more cells than the chip has are not an error here.

    Raises:
        ToolMissing, ToolFailed: yosys.
    """
    return synthesis.synthesize(
        folder, netlist.rtlil, netlist.family, on_log=listener.log, on_first_run=listener.first_run
    )


def gates(
    synthesized: SynthesisResult,
    design: Design,
    netlist: Netlist,
    folder: BuildFolder,
    frames: Mapping[str, np.ndarray] | None = None,
    listener: Listener = NULL_LISTENER,
) -> GateLevel:
    """Simulate the netlist that is placed and routed. A difference is not an error here: see ``GateLevel.agrees``.

    Raises:
        NotSimulated: a cell has no model here, or there is no C++ compiler.
    """
    integers = streamed_in(design.network, frames)
    return gate_level(folder, design, netlist, synthesized, integers, progress=listener.status)


def route(
    synthesized: SynthesisResult,
    netlist: Netlist,
    folder: BuildFolder,
    listener: Listener = NULL_LISTENER,
    seed: int = 1,
) -> RouteResult:
    """Place and route the cells, and return the clock that they reach; to miss the clock aimed at is not an error here.

    Args:
        seed: seed of the placer; the next two are tried where it finds no legal placement.

    Raises:
        UserError: they do not all find a place.
        ToolMissing, ToolFailed: nextpnr.
    """
    return place_and_route.route(
        folder,
        synthesized,
        netlist.target.board,
        netlist.constraints,
        netlist.clock_mhz,
        seed=seed,
        seeds=3,
        on_log=listener.log,
        on_first_run=listener.first_run,
    )


def pack(routed: RouteResult, folder: BuildFolder) -> Made:
    """Pack the bitstream, the file ``onnx_hw.implement.route.BITSTREAM``; raise as ``route`` where the packer fails."""
    return place_and_route.pack(folder, routed)


def unpack(
    packed: Made,
    routed: RouteResult,
    synthesized: SynthesisResult,
    design: Design,
    netlist: Netlist,
    folder: BuildFolder,
    frames: Mapping[str, np.ndarray] | None = None,
    listener: Listener = NULL_LISTENER,
) -> bitstream.BitstreamCheck:
    """Unpack the bitstream and compare it, as ``gates``; it is raised, too, where nothing unpacks those of the chip."""
    integers = streamed_in(design.network, frames)
    return bitstream.prove(folder, design, netlist, synthesized, routed, packed, integers, progress=listener.status)
