"""Update of a build with the weights of a retrained model: proven in its circuit, kept, and sent to a board."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from onnx_hw.commands.infer import SIMULATED, InferOptions, link_failure, opened_port, read_host
from onnx_hw.messages.errors import user_error
from onnx_hw.report.model import Report
from onnx_hw.report.read import options_of, read_report
from onnx_hw.runtime.options import BuildOptions, Resize, SimulationEngine, WeightStorage
from onnx_hw.runtime.progress import Progress, Silent
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from onnx_hw_link.device import Device
from onnx_hw_link.errors import LinkError

SUBFOLDER = "update"
"""Folder of the last update, within that of the build: its report, and what was compared."""


@dataclass(frozen=True, kw_only=True)
class UpdateOptions:
    """Options of ``onnx-hw update``.

    Attributes:
        folder: folder of a build with loadable weights.
        model: the retrained model, with the graph of the one that was built.
        calibration: samples for the ranges of a float model; None for those of the build.
        inputs: samples to prove with; None for random ones.
        resize: how images among the samples get the input's size; None for the way of the build.
        port: port of the board that the weights are sent to, as of ``onnx-hw infer``; None for none.
        engine: simulator of the port ``sim``.
    """

    folder: Path
    model: Path
    calibration: Path | None = None
    inputs: Path | None = None
    resize: Resize | None = None
    port: str | None = None
    engine: SimulationEngine | None = None


@dataclass(frozen=True)
class UpdateResult:
    """Result of an update.

    Attributes:
        folder: folder of the build.
        report: report of the update: its model, its samples, and what was compared.
        weight_bytes: bytes of weights and other constants that the chip takes.
        port: port of the board that they were sent to; empty where they were not sent.
        sent_bytes: bytes that were sent; 0 where the chip had them already.
        seconds: time that this took.
    """

    folder: Path
    report: Report
    weight_bytes: int
    port: str = ""
    sent_bytes: int = 0
    seconds: float = 0.0


def build_options(options: UpdateOptions) -> BuildOptions:
    """Return the options of the build that proves the new weights, up to the simulation.

    Raises:
        UserError: the folder holds no build with loadable weights.
    """
    asked = options_of(read_report(options.folder), options.folder)
    if asked.weights is not WeightStorage.LOADABLE:
        raise user_error(
            "weights-fixed",
            "the build must have loadable weights; those of this one are fixed in its bitstream",
            where=str(options.folder),
            hint="build it with --weights loadable, and load its bitstream once",
            stage="arguments",
        )
    precision = options.folder / "precision.toml"
    quantizing = replace(asked.quantizing, sqnr=None, accuracy_loss=None)
    if precision.exists():  # the widths of the circuit, whatever this model would choose
        quantizing = replace(quantizing, precision=precision)
    return replace(
        asked,
        model=options.model,
        quantizing=quantizing,
        calibration=options.calibration or asked.calibration,
        inputs=options.inputs,
        resize=options.resize or asked.resize,
        folding=options.folder / "folding.toml",
        scheduling=ScheduleRequest(clock_mhz=asked.scheduling.clock_mhz),
        out=options.folder / SUBFOLDER,
        stop_after=Stage.SIMULATE,
        waves=False,
    )


def update(options: UpdateOptions, progress: Progress | None = None) -> UpdateResult:
    """Prove the weights of a retrained model in the circuit of a build, keep them in its folder, and send them.

    Raises:
        UserError: the model has another circuit, or the board does not answer; with exit code 4, something differs.
        ToolMissing, ToolFailed: what the simulation needs.
    """
    progress = progress or Silent()
    result = prove_update(options.folder, build_options(options), progress)
    return result if options.port is None else send_update(result, options.port, options.engine, progress)


def prove_update(into: Path, asked: BuildOptions, progress: Progress) -> UpdateResult:
    """Prove new weights in the circuit of a build, and keep them in its folder; raise as ``update``.

    Args:
        into: folder of the build.
        asked: what ``build_options`` returns.
    """
    from onnx_hw.assemble.design_file import BUILT_FILE
    from onnx_hw.assemble.design_file import FILE as DESIGN
    from onnx_hw.assemble.host_model_file import WEIGHTS
    from onnx_hw.assemble.network_file import read_network
    from onnx_hw.commands.build import build
    from onnx_hw.runtime.build_folder import opened
    from onnx_hw_link.host_model import FILE as HOST_MODEL
    from onnx_hw_link.self_test import FILE as SELF_TEST

    made = build(asked, progress, built=(read_network(into), read_report(into).digest))
    with opened(into) as folder:
        if not (folder.path / BUILT_FILE).exists():
            shutil.copyfile(folder.path / DESIGN, folder.path / BUILT_FILE)
        for name in (DESIGN, WEIGHTS, SELF_TEST, HOST_MODEL):
            if (made.folder / name).exists():
                folder.write(name, (made.folder / name).read_bytes())
        size = (folder.path / WEIGHTS).stat().st_size
    return UpdateResult(into, made.report, size)


def send_update(result: UpdateResult, port: str, engine: SimulationEngine | None, progress: Progress) -> UpdateResult:
    """Send the weights in the folder of a build to its board; raise as ``update``.

    Args:
        port: see ``UpdateOptions``.
        engine: simulator of the port ``sim``.
    """
    from onnx_hw.assemble.design_file import read_design

    at = InferOptions(folder=result.folder, inputs=None, port=port, engine=engine)
    try:
        model = read_host(result.folder)
        design = read_design(result.folder).design if port == SIMULATED else None
        with opened_port(at, model, design, progress) as (name, timeout):
            begun = time.monotonic()
            with Device.of(model, name, timeout=timeout) as device:
                seconds, sent = time.monotonic() - begun, device.chip.loaded_bytes
            return replace(result, port=port, sent_bytes=sent, seconds=seconds)
    except LinkError as error:
        raise link_failure(error, port) from error
