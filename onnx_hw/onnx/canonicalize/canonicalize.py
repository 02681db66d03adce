"""Canonicalization: a typed model becomes a folded model of the standard operators that are lowered.

``quantization.quantize.prepare_model`` and ``lower.lower_model`` call it.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.messages.invariants import refuse
from onnx_hw.onnx.canonicalize.blockwise_weights import merge_weight_blocks
from onnx_hw.onnx.canonicalize.check_tensor_sizes import check_sizes
from onnx_hw.onnx.canonicalize.compositions import compose
from onnx_hw.onnx.canonicalize.compositions.normalizations import SPELLED_OUT
from onnx_hw.onnx.canonicalize.decompose_channels_last import decompose_channels_last
from onnx_hw.onnx.canonicalize.decompose_classical import decompose_classical
from onnx_hw.onnx.canonicalize.decompose_dynamic_quantization import decompose_dynamic_quantization
from onnx_hw.onnx.canonicalize.decompose_fused import decompose_fused_operators
from onnx_hw.onnx.canonicalize.decompose_qoperators import decompose_qoperators
from onnx_hw.onnx.canonicalize.fold_repeated_steps import fold_repeated_steps
from onnx_hw.onnx.canonicalize.integer_valued_weights import recover_integer_weights
from onnx_hw.onnx.canonicalize.is_quantized import is_quantized
from onnx_hw.onnx.canonicalize.weights_with_scales_per_input import free_weights_with_scales_per_input
from onnx_hw.onnx.evaluate.fold_constants import drop_unneeded, fold
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.loops import is_delay
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.graph.verify_model import faults_of_folded, faults_of_typed
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import evaluate
from onnx_hw.onnx.operators.facts import Effect

CONSTANT_EFFECTS = frozenset((Effect.QUANTIZES, Effect.ADDS, Effect.BENDS))
"""Effects of operators that are computed where all they read is constant, weights' integers included."""


def canonicalize(model: Model) -> Model:
    """Return the canonical form of a model: typed and folded, except for the weights' own integers.

    Args:
        model: model with the type of every value, as far as it can be known.

    Raises:
        UserError: a tensor is too large; the model is not typed.
    """
    refuse("model", faults_of_typed(model))
    products = decompose_classical(decompose_channels_last(model))
    plain = decompose_dynamic_quantization(merge_weight_blocks(products))
    apart = decompose_qoperators(decompose_fused_operators(plain))
    model = _folded(apart)
    while (folded := _with_one_step(model)) is not model:
        model = _folded(folded)
    model = compose(model, _folded)
    if is_quantized(model):
        model = drop_unneeded(recover_integer_weights(free_weights_with_scales_per_input(model)))
    check_sizes(model.graph)
    refuse("model", faults_of_folded(model), "prepare")
    return model


def _with_one_step(model: Model) -> Model:
    """Return a model with a loop in place of equal steps, or the same object; normalizations may be spelled out."""
    folded = fold_repeated_steps(model)
    if folded is not model:
        return folded
    normalized = compose(model, _folded, only=SPELLED_OUT)
    folded = normalized if normalized is model else fold_repeated_steps(normalized)
    return model if folded is normalized else folded


def _folded(model: Model) -> Model:
    """Return a model with inferred types and folded constants; the weights' own integers stay."""
    return _with_quantized_constants(
        fold(model, keep=lambda node: facts_of(node).effect in (Effect.DEQUANTIZES, Effect.SNAPS))
    )


def _with_quantized_constants(model: Model) -> Model:
    """Return a model in which sums and functions of dequantized constants, and integers made of these, are constants.

    onnxruntime's quantizer writes such: it dequantizes a constant once and quantizes it again for another reader.
    """
    graph = model.graph
    known, computed = set(graph.constants), list[str]()
    for node in graph.nodes:
        read = names_read(node)
        if read and read <= known and not (facts_of(node).random or is_delay(node)):
            known.update(name for name in node.outputs if name)
            computed += node.outputs if facts_of(node).effect in CONSTANT_EFFECTS else ()
    if not computed:
        return model
    arrays = evaluate(graph, {}, computed)
    nodes = tuple(node for node in graph.nodes if arrays.keys().isdisjoint(node.outputs))
    return drop_unneeded(replace(model, graph=replace(graph, nodes=nodes, constants={**graph.constants, **arrays})))
