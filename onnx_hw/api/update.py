"""``onnx_hw.update``: the weights of a retrained model in the circuit of a build."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from onnx_hw.api.build import material
from onnx_hw.api.check_arguments import check_arguments
from onnx_hw.api.keywords import errors_in_keywords
from onnx_hw.api.model_source import AnyModel, model_source
from onnx_hw.api.receiver import receiver
from onnx_hw.api.requests import GivenSamples
from onnx_hw.commands.build import Build
from onnx_hw.commands.update import UpdateOptions, UpdateResult, build_options, prove_update, send_update
from onnx_hw.runtime.options import Resize, SimulationEngine, port_engine_of, resize_of
from onnx_hw.runtime.progress import Progress


@errors_in_keywords()
@check_arguments
def update(
    build: Build | str | os.PathLike[str],
    model: AnyModel,
    *,
    calibration: GivenSamples | None = None,
    inputs: GivenSamples | None = None,
    resize: Resize | str | None = None,
    example_inputs: Any = None,
    port: str | None = None,
    engine: SimulationEngine | str | None = None,
    progress: bool | Progress = False,
) -> UpdateResult:
    """Prove the weights of a retrained model in the circuit of a build, keep them in its folder, and send them.

    ``onnx_hw.infer`` sends them, too, to a chip that does not hold them yet.

    Args:
        build: what ``onnx_hw.build(..., weights="loadable")`` returned, or the folder of such a build.
        model: the model, in the forms that ``onnx_hw.build`` takes, with the graph of the one that was built.
        calibration: samples for the ranges of a float model; None for those of the build.
        inputs: samples to prove with; None for random ones.
        resize: how images in files get the input's size; None for the way of the build.
        example_inputs: for a torch module, as ``onnx_hw.build`` takes them.
        port: port of the board that the weights are sent to, as of ``onnx_hw.infer``; None for none.
        engine: simulator of the port ``"sim"``.
        progress: as of ``onnx_hw.build``.

    Returns:
        The report of the proof, and what was sent.

    Raises:
        UserError: the build has fixed weights, the model has another circuit, something differs, or no board answers.
    """
    folder = build.folder if isinstance(build, Build) else Path(build)
    source = model_source(model, example_inputs)
    path = source.path or Path(f"{source.name}.onnx")
    asked = build_options(UpdateOptions(folder=folder, model=path, resize=resize_of(resize)))
    told = receiver(progress, asked.stages)
    given = {"inputs": inputs, **({} if calibration is None else {"calibration": calibration})}
    with material(asked, source, **given) as options:
        result = prove_update(folder, options, told)
    return result if port is None else send_update(result, port, port_engine_of(engine), told)
