"""``onnx_hw.quantize``: a model and samples in, a function of arrays out."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx_hw import flow
from onnx_hw.api.check_arguments import check_arguments
from onnx_hw.api.keywords import errors_in_keywords
from onnx_hw.api.model_source import AnyModel, ModelSource, model_source
from onnx_hw.api.notes import warn_of
from onnx_hw.api.quantized_model import QuantizedModel
from onnx_hw.api.requests import GivenSamples, quantize_options, read_options
from onnx_hw.commands.stage_messages import quantization_warnings
from onnx_hw.onnx.canonicalize.unbatch import ReadModel
from onnx_hw.quantization.quantize import prepare_model, quantize_model
from onnx_hw.quantization.ranges.calibrate import SampleRanges
from onnx_hw.quantization.scheme import DEFAULT
from onnx_hw.quantization.scheme_from_options import scheme_from_options
from onnx_hw.quantization.suggest_cut import suggest_cut
from onnx_hw.runtime.options import OutputKind, ReadOptions, Resize, resize_of
from onnx_hw.samples.frames import input_data
from onnx_hw.samples.samples import SampleSource


@errors_in_keywords()
@check_arguments
def quantize(
    model: AnyModel,
    calibration: GivenSamples | None = None,
    *,
    resize: Resize | str | None = None,
    bits: int | Mapping[str, int] | None = None,
    precision: str | os.PathLike[str] | None = None,
    sqnr: float | None = None,
    accuracy_loss: float | None = None,
    output_kind: OutputKind | str | None = None,
    example_inputs: Any = None,
    cut_at: str | Sequence[str] = (),
    state: Mapping[str, str] | None = None,
    streaming: bool = False,
    dimensions: Mapping[str, int] | None = None,
    strict: bool = False,
    lenient: bool = False,
    newer: bool = False,
) -> QuantizedModel:
    """Quantize a model, and return it as a function of arrays that computes what its circuit will compute.

    A model that brings integers of its own keeps them, and needs no samples.

    Args:
        model: path of an ONNX file, its bytes, an ``onnx.ModelProto``, or a ``torch.nn.Module``.
        calibration: samples like the data, for the ranges of a float model: arrays by graph input, or the array of the
            only input, or a path (an npz file or a folder). The key ``labels`` may hold their right classes.
        resize: how images in files get the input's size: ``"stretch"``, or ``"crop"`` for their middle part; None for
            what ``samples.toml`` next to them says.
        bits: bits of all integers, 1 to 16, or ``{"weights": 4, "data": 8}``; None for 8.
        precision: TOML file with the bits of single layers and values.
        sqnr: signal-to-noise ratio in dB that the cheapest bits are to reach on the samples, instead of ``bits``.
        accuracy_loss: percentage points of accuracy that the cheapest bits may lose on the samples, instead of
            ``bits``; the samples have labels.
        output_kind: outputs of the hardware for a float model, ``"accumulators"`` (the default) or ``"int8"``.
        example_inputs: for a torch module: a tensor or an array of the shape of one frame, a tuple of them, or a
            dictionary of them by argument of ``forward``.
        cut_at: names of tensors that become the outputs: only the part of the model that they need is built. A text may
            hold several names, with commas between them.
        state: outputs by input: what such an output holds in a frame is the input of the next frame, and both are no
            longer given and returned. The first frame gets zeros, or the number behind ``=`` in ``{"h": "hn=0.5"}``.
        streaming: whether the network of a whole sequence becomes one that takes a hop of it per sample; the samples
            are then hops in their order.
        dimensions: sizes for symbolic dimensions, by name.
        strict: refuse what the ONNX specification only advises against.
        lenient: accept faults of known exporters.
        newer: try versions of ONNX that are newer than onnx-hw, too.

    Raises:
        UserError: everything that is wrong with the model, the samples or the options.
    """
    reading = read_options(cut_at, dimensions, state, streaming=streaming, strict=strict, lenient=lenient, newer=newer)
    quantizing = quantize_options(bits, precision, sqnr, accuracy_loss, output_kind)
    scheme = scheme_from_options(quantizing)
    source = model_source(model, example_inputs)
    read = read_source(source, reading)
    samples: SampleSource | None = Path(calibration) if isinstance(calibration, str | os.PathLike) else calibration
    way = resize_of(resize)
    data = input_data(None, samples, read, way)
    warn_of(data.notes)
    ranges = None
    if data.calibration is not None:
        ranges = SampleRanges(data.calibration, (scheme or DEFAULT).ranges, data.calibration_labels)
    with suggest_cut(read.frame.model):
        quantized = quantize_model(prepare_model(read.frame.model), ranges, scheme)
    calibrated = data.calibration is not None
    warn_of(quantization_warnings(read.frame.model, quantized, scheme, calibrated=calibrated))
    return QuantizedModel(quantized.network, read, quantized.model, source, samples, quantizing, reading, way)


def read_source(source: ModelSource, reading: ReadOptions) -> ReadModel:
    """Read a model from its file, or from memory by a file that is removed again.

    Raises:
        UserError: all faults against the ONNX specification.
    """
    if source.path is not None:
        return flow.read(source.path, reading)
    with tempfile.TemporaryDirectory(prefix="onnx-hw-") as folder:
        return flow.read(source.in_folder(Path(folder)), reading)
