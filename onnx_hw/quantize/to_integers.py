"""Any model becomes a network: with the integers that it brings, and those that samples say where it lacks some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw.network import Network
from onnx_hw.onnx.model import Model
from onnx_hw.quantize import import_model
from onnx_hw.quantize.calibrate import seen_in
from onnx_hw.quantize.complete_quantization import import_completed
from onnx_hw.quantize.in_float32 import in_float32
from onnx_hw.quantize.insert_quantization import is_quantized
from onnx_hw.quantize.quantize_float_model import prepared, quantize_prepared


@dataclass(frozen=True)
class Quantized:
    """A network, and what it was made of.

    Attributes:
        network: named like the model.
        model: that it is the network of.
        floats: where integers were chosen: the model as given, and as prepared for that.
        chosen: values that got integers although the model brings some of its own.
    """

    network: Network
    model: Model
    floats: tuple[Model, Model] | None = None
    chosen: tuple[str, ...] = ()


def to_integers(model: Model, frames: Mapping[str, np.ndarray] | None) -> Quantized:
    """The network of a model.

    Args:
        frames: to learn ranges from, by graph input, (frames, *shape); None if there are none.

    Raises:
        UserError: every obstacle, with the nodes' own names; a value is not finite during calibration.
    """
    given, floats = model, None
    if frames is not None and not is_quantized(model):
        ready = prepared(model)
        model, floats = quantize_prepared(ready, seen_in(frames)), (given, ready)
    network, completed, chosen = import_completed(model, seen_in(frames))
    if chosen and floats is None:
        floats = given, in_float32(import_model.prepared(model))
    return Quantized(network, completed, floats, chosen)
