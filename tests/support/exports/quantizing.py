"""onnxruntime's static quantizer, with the choices that people make."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import onnx

Frames = dict[str, np.ndarray]


@dataclass(frozen=True)
class Choices:
    """What ``quantize_static`` is told."""

    form: QuantFormat
    data: QuantType
    weights: QuantType
    per_channel: bool = False
    reduce_range: bool = False
    prepared: bool = False
    method: CalibrationMethod = CalibrationMethod.MinMax
    options: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        told = [self.form.name, self.data.name, self.weights.name]
        told += [name for name in ("per_channel", "reduce_range", "prepared") if getattr(self, name)]
        told += [self.method.name] if self.method is not CalibrationMethod.MinMax else []
        return " ".join(told + [f"{name}={value}" for name, value in self.options.items()])


def drawn_choices(random: np.random.Generator, opset: int) -> Choices:
    """Int4 weights and 16-bit data need opset 21, or contributed operators; scales per channel in QDQ opset 13.

    QOperator knows 8 bits only.
    """

    def yes(share: float) -> bool:
        return bool(random.random() < share)

    form = QuantFormat.QDQ if yes(0.72) else QuantFormat.QOperator
    data = QuantType.QInt8 if yes(0.5) else QuantType.QUInt8
    weights = QuantType.QInt8 if yes(0.85) or data is QuantType.QInt8 else QuantType.QUInt8
    options: dict[str, Any] = {}
    if form is QuantFormat.QDQ:
        if yes(0.07):
            data = QuantType.QInt16 if yes(0.5) else QuantType.QUInt16
        if yes(0.06):
            weights = QuantType.QInt16
        elif yes(0.08):
            weights = QuantType.QInt4
        for name, share in (("AddQDQPairToWeight", 0.06), ("DedicatedQDQPair", 0.06), ("QuantizeBias", 0.08)):
            if yes(share):
                options[name] = name != "QuantizeBias"
        wide = {QuantType.QInt16, QuantType.QUInt16, QuantType.QInt4} & {data, weights}
        if (wide and opset < 21) or yes(0.05):
            options["UseQDQContribOps"] = True
    if yes(0.15):
        options["ActivationSymmetric"] = True
    if yes(0.08) and weights is QuantType.QInt8:
        options["WeightSymmetric"] = False
    if yes(0.1):
        options["ForceQuantizeNoInputCheck"] = True
    if yes(0.06):
        options["MinimumRealRange"] = 0.01
    method = CalibrationMethod.Percentile if yes(0.08) else CalibrationMethod.MinMax
    per_channel = yes(0.5) and (opset >= 13 or form is QuantFormat.QOperator)
    return Choices(form, data, weights, per_channel, yes(0.12), yes(0.5), method, options)


class _Reader(CalibrationDataReader):
    """One frame after the other."""

    def __init__(self, frames: Frames) -> None:
        count = len(next(iter(frames.values())))
        self.samples = iter([{name: array[k] for name, array in frames.items()} for k in range(count)])

    def get_next(self) -> Frames | None:
        return next(self.samples, None)


def quantized(model: onnx.ModelProto, frames: Frames, choices: Choices, path: Path) -> None:
    """Write the quantized model; ``frames`` (by input, frames first) show the ranges."""
    with tempfile.TemporaryDirectory() as place, silence():
        given = Path(place) / "float.onnx"
        onnx.save(model, given)
        if choices.prepared:
            prepared = Path(place) / "prepared.onnx"
            quant_pre_process(given, prepared, skip_symbolic_shape=True)  # that would need sympy
            given = prepared
        quantize_static(
            given,
            path,
            _Reader(frames),
            quant_format=choices.form,
            per_channel=choices.per_channel,
            reduce_range=choices.reduce_range,
            activation_type=choices.data,
            weight_type=choices.weights,
            calibrate_method=choices.method,
            extra_options=dict(choices.options),
        )


@contextmanager
def silence() -> Iterator[None]:
    """The quantizer speaks through the root logger, prints, and warns."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
