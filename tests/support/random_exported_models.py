"""Quantized networks as people have them: drawn by seed, written like a converter, quantized by onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from support.exports.architectures import ARCHITECTURES
from support.exports.export import Export
from support.exports.keras_style import KerasExport
from support.exports.quantizing import Choices, Frames, drawn_choices, quantized
from support.exports.tensorflow_style import TensorFlowExport
from support.exports.torch_style import TorchExport

STYLES: tuple[type[Export], ...] = (TorchExport, TorchExport, TensorFlowExport, KerasExport)
CALIBRATION, FRAMES = 6, 4


@dataclass(frozen=True, eq=False)
class DrawnExport:
    """Attributes:
    path: the quantized model.
    dimensions: numbers for the names that its inputs have beside the batch.
    calibration, frames: by input, (frames, *shape): what the quantizer saw, and other ones.
    """

    path: Path
    architecture: str
    style: str
    opset: int
    choices: Choices
    dimensions: dict[str, int]
    calibration: Frames
    frames: Frames

    def __repr__(self) -> str:
        return f"{self.path.stem}: {self.style} {self.architecture} opset {self.opset}, {self.choices}"


def draw(seed: int, folder: Path) -> DrawnExport:
    """Network ``seed``, written to ``folder/net<seed>.onnx``."""
    random = np.random.default_rng(seed)
    style = STYLES[int(random.integers(len(STYLES)))]
    architecture = ARCHITECTURES[int(random.integers(len(ARCHITECTURES)))]
    export = style(random)
    architecture(export)
    choices = drawn_choices(random, export.opset)
    path = folder / f"net{seed}.onnx"
    calibration, frames = (
        {name: random.normal(0, 1, (count, *shape)).astype(np.float32) for name, shape in export.shapes.items()}
        for count in (CALIBRATION, FRAMES)
    )
    quantized(export.model(), calibration, choices, path)
    return DrawnExport(
        path, architecture.__name__, style.__name__, export.opset, choices, export.dimensions, calibration, frames
    )
