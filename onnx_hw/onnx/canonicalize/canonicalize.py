"""A model as every way to integers takes it: of standard operators, folded."""

from __future__ import annotations

from onnx_hw.messages.invariants import refuse
from onnx_hw.onnx.canonicalize.blockwise_weights import with_weights_in_one_piece
from onnx_hw.onnx.canonicalize.check_tensor_sizes import check_sizes
from onnx_hw.onnx.canonicalize.decompose_channels_last import take_apart_channels_last
from onnx_hw.onnx.canonicalize.decompose_dynamic_quantization import take_apart_dynamic_quantization
from onnx_hw.onnx.canonicalize.decompose_fused import take_apart_fused_operators
from onnx_hw.onnx.canonicalize.decompose_qoperators import take_apart_integer_operators
from onnx_hw.onnx.canonicalize.integer_valued_weights import with_whole_weights
from onnx_hw.onnx.canonicalize.is_quantized import is_quantized
from onnx_hw.onnx.evaluate.fold_constants import drop_unneeded, fold
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.graph.verify_model import faults_of_folded, faults_of_typed
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect


def prepared(model: Model) -> Model:
    """The model as the walk takes it: typed and folded, but for the weights' own integers; once for every model.

    Args:
        model: with the type of every value, as far as it can be known.

    Raises:
        UserError: a tensor is too large; the model is not typed.
    """
    refuse("model", faults_of_typed(model))
    plain = take_apart_dynamic_quantization(with_weights_in_one_piece(take_apart_channels_last(model)))
    apart = take_apart_integer_operators(take_apart_fused_operators(plain))
    model = fold(apart, keep=lambda node: facts_of(node).effect in (Effect.DEQUANTIZES, Effect.SNAPS))
    if is_quantized(model):
        model = drop_unneeded(with_whole_weights(model))
    check_sizes(model.graph)
    refuse("model", faults_of_folded(model), "prepare")
    return model
