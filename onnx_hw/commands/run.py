"""A model's outputs for samples, by the ONNX operators, the integer network, the circuit, or a simulated board."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.commands.build_stages import BuildState
from onnx_hw.commands.circuit_run import circuit_run
from onnx_hw.commands.simulated_board import on_simulated_board, require_link
from onnx_hw.ir import golden
from onnx_hw.runtime.build_folder import opened
from onnx_hw.runtime.options import Evaluator, RunOptions, SimulationEngine
from onnx_hw.runtime.progress import Progress, Silent
from onnx_hw.runtime.stage import Stage
from onnx_hw.samples.frames import SampleTypes, by_reference
from onnx_hw.samples.outputs import Outputs
from onnx_hw.samples.samples import join_batches

NETWORK = (Stage.READ, Stage.QUANTIZE)
SCHEDULED = (*NETWORK, Stage.SCHEDULE)
CHIP = (*SCHEDULED, Stage.ASSEMBLE)


def run(options: RunOptions, progress: Progress | None = None) -> Outputs:
    """Compute the model's outputs for samples; raise as ``build``."""
    if options.engine is Evaluator.REFERENCE:
        return _by_reference(options, progress or Silent())
    if options.engine is Evaluator.BOARD:
        return _by_board(options, progress or Silent())
    on_circuit = options.engine is not Evaluator.GOLDEN
    engine = SimulationEngine(options.engine) if on_circuit and options.engine is not Evaluator.SIMULATION else None
    progress = progress or Silent()
    work = BuildState(options.build(), progress)
    with tempfile.TemporaryDirectory() as place, opened(Path(place)) as work.folder:
        for stage in SCHEDULED if on_circuit else NETWORK:
            work.take(stage)
        frames = work.given.frames
        assert frames is not None
        if on_circuit:
            with progress.stage(Stage.SIMULATE) as running:
                outputs = circuit_run(work.design, frames, engine, work.folder.path, work.recorder, running)
        else:
            outputs = golden.run(work.network, frames)
    return Outputs(join_batches(outputs, work.batch), work.given.labels)


def _by_board(options: RunOptions, progress: Progress) -> Outputs:
    """Compute the outputs by a simulation of the chip."""
    work = BuildState(options.build(), progress)
    require_link(work.board)
    with tempfile.TemporaryDirectory() as place, opened(Path(place)) as work.folder:
        for stage in CHIP:
            work.take(stage)
        assert work.given.frames is not None
        outputs = on_simulated_board(work.given.frames, work.design, work.netlist, work.folder, progress)
    return Outputs(join_batches(outputs, work.batch), work.given.labels)


def _by_reference(options: RunOptions, progress: Progress) -> Outputs:
    """Compute the outputs by the model as written. It need not be possible in a circuit; a batch stays a batch."""
    find_board(options.board)
    model = flow.read(options.model, options.reading)
    types = SampleTypes.of(model)
    given = replace(types, classes=0 if types.classes == 0 else None).samples(options.inputs, "inputs", options.resize)
    for message, hint in given.notes:
        progress.warn(message, hint)
    return Outputs(by_reference(model, given.arrays), given.labels)
