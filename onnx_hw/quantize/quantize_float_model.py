"""A float model becomes a QDQ model: prepared, calibrated, quantized."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnx_hw.onnx.fold_constants import fold
from onnx_hw.onnx.infer_shapes import infer
from onnx_hw.onnx.model import Model
from onnx_hw.quantize.calibrate import calibrate
from onnx_hw.quantize.fold_factors_into_weights import fold_factors_into_weights
from onnx_hw.quantize.insert_quantization import insert_quantization


def quantize_float_model(model: Model, frames: Mapping[str, np.ndarray]) -> Model:
    """The QDQ model.

    Args:
        frames: calibration data by graph input, (frames, *shape).

    Raises:
        UserError: a value is not finite during calibration.
    """
    folded = fold(infer(model), keep=lambda node: node.op_type == "DequantizeLinear")
    prepared = fold_factors_into_weights(folded)
    return insert_quantization(prepared, calibrate(prepared, frames))
