"""``onnx_hw.infer``: samples through a build on its board, or through its simulated chip; arrays in, arrays out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_hw.api.check_arguments import check_arguments
from onnx_hw.api.keywords import errors_in_keywords
from onnx_hw.api.receiver import receiver
from onnx_hw.api.requests import GivenSamples
from onnx_hw.api.stacking import stacked_as
from onnx_hw.commands.infer import AUTO, InferOptions, arguments_of, read_host
from onnx_hw.commands.infer import infer as infer_on_board
from onnx_hw.runtime.options import Resize, SimulationEngine, port_engine_of, resize_of
from onnx_hw.runtime.progress import Progress
from onnx_hw.samples.outputs import Outputs

if TYPE_CHECKING:
    from onnx_hw.commands.build import Build


@errors_in_keywords()
@check_arguments
def infer(
    build: Build | str | os.PathLike[str],
    inputs: GivenSamples,
    *,
    resize: Resize | str | None = None,
    port: str = AUTO,
    engine: SimulationEngine | str | None = None,
    check: bool = False,
    progress: bool | Progress = False,
) -> Outputs:
    """Run samples through a build on its board, and return its outputs, as the command ``onnx-hw infer`` does.

    Args:
        build: what ``onnx_hw.build`` returned, or the folder of a build for a board with a link.
        inputs: samples: arrays by graph input, or the array of the only input, or a path (an npz file or a folder).
            The key ``labels`` may hold their right classes.
        resize: how images in files get the input's size: ``"stretch"``, or ``"crop"`` for their middle part; None for
            what ``samples.toml`` next to them says.
        port: serial port, or ``"spidev0.0"`` or ``"ftdi://ftdi:232h/1"`` where the board has SPI; ``"auto"`` for the
            first port at which the design answers, ``"sim"`` for a simulation of the whole chip.
        engine: simulator of the port ``"sim"``: ``"compiled"`` for the circuit, ``"gates"`` for the cells that are
            placed and routed, which is slower; None for the first.
        check: whether the outputs are compared with those of the integer network.
        progress: True for lines on standard error, or an object that receives the progress. By default nothing is
            printed, and warnings are Python's.

    Returns:
        Arrays by output name, in the model's own dtypes and units, stacked as the samples are; ``labels`` has the
        right classes that came with the samples.

    Raises:
        UserError: there is no such build, the samples do not fit, the board does not answer or holds another design,
            or a program is missing; with exit code 4, the outputs differ from the integer network's.
    """
    folder = Path(build if isinstance(build, str | os.PathLike) else build.folder)
    source = Path(inputs) if isinstance(inputs, str | os.PathLike) else inputs
    options = InferOptions(
        folder=folder,
        inputs=source,
        port=port,
        check=check,
        resize=resize_of(resize),
        engine=port_engine_of(engine),
    )
    outputs = infer_on_board(options, receiver(progress)).outputs
    if isinstance(source, Path):
        return outputs
    return Outputs(stacked_as(outputs, source, arguments_of(read_host(folder))), outputs.labels)
