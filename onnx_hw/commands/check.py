"""The question whether a model can become hardware on a board, answered without samples."""

from __future__ import annotations

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.commands.early_fit import refuse_too_many_weights
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Model
from onnx_hw.quantization.quantize import prepare_model, quantize_model
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.quantization.scheme_from_options import scheme_from_options
from onnx_hw.quantization.suggest_cut import suggest_cut
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.schedule.schedule_for_board import refuse_what_does_not_fit


def check_hardware(options: BuildOptions, model: Model | None = None) -> UserError | None:
    """Return everything that prevents hardware for a model; None where it can be built, as ``answer_for_hardware``."""
    return answer_for_hardware(options, model)[0]


def answer_for_hardware(options: BuildOptions, model: Model | None = None) -> tuple[UserError | None, bool]:
    """Return everything that prevents hardware for a model, or None, and whether a build needs samples for its scales.

    A float model is tried with assumed scales, and is not run: its data do not decide whether it can be built.

    Args:
        model: the model in the file ``options.model``, if it has been read with ``options.reading`` already.
    """
    try:
        scheme = scheme_from_options(options.quantizing)
        given = flow.read(options.model, options.reading) if model is None else flow.one_frame(model, options.model)
        with suggest_cut(given.frame.model):
            refuse_too_many_weights(given.frame.model, scheme, options.board)
            prepared = prepare_model(given.frame.model)
            refuse_too_many_weights(prepared.canonical, scheme, options.board)
            quantized = quantize_model(prepared, assume_ranges, scheme)
        network = verify_network(quantized.network)
        refuse_what_does_not_fit(find_board(options.board), network, options.scheduling)
    except UserError as error:
        return error, False
    if not prepared.brings or not quantized.chosen:
        return None, not prepared.brings
    try:
        quantize_model(prepared, None, scheme)
    except UserError:
        return None, True
    return None, False
