"""Post-training quantization: a float model becomes a QDQ model.

A canonical model without integers goes in, with samples or assumed ranges and a scheme; the QDQ model comes out, with
the statistics of the choice. ``quantize.quantize_model`` calls it; the steps are those of the package's overview.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from onnx_hw.lower.host_prefix import must_stay_on_host, values_of_head
from onnx_hw.messages.invariants import refuse
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.canonicalize.cast_to_float32 import cast_to_float32
from onnx_hw.onnx.canonicalize.fold_scales_into_weights import fold_scales_into_weights
from onnx_hw.onnx.evaluate.fold_constants import drop_unneeded
from onnx_hw.onnx.graph.model import Model
from onnx_hw.onnx.graph.verify_model import faults_of_folded
from onnx_hw.quantization.biases import BiasTerm, separate_biases
from onnx_hw.quantization.cross_layer_equalization import equalize_channels
from onnx_hw.quantization.decisions import IntegerDecisions, QuantError
from onnx_hw.quantization.exact_values import check_exact_values, exact_groups, exact_sources
from onnx_hw.quantization.goal import Goal
from onnx_hw.quantization.insert_qdq import float_weights, insert_quantization
from onnx_hw.quantization.loop_grids import loop_grids
from onnx_hw.quantization.mixed_precision.cost import estimate_costs, multiplies_values, widest_operands
from onnx_hw.quantization.mixed_precision.logits import find_logits
from onnx_hw.quantization.mixed_precision.search import WIDTHS, ChosenWidths, WidthSearch
from onnx_hw.quantization.mixed_precision.sensitivity import measure_noise
from onnx_hw.quantization.mixed_precision.sqnr_by_tensor import TensorLoss, loss_by_tensor
from onnx_hw.quantization.mixed_precision.widen import WIDER, widen_tensors
from onnx_hw.quantization.placement import SUMMAND_BITS, choose_quantized_values, compared_values, wide_values
from onnx_hw.quantization.ranges.assume import assume_ranges
from onnx_hw.quantization.ranges.batched_run import Frame, pick_samples, sample_stride
from onnx_hw.quantization.ranges.calibrate import Range, RangeMethod, RangeSource, SampleRanges
from onnx_hw.quantization.ranges.mse import MseRange
from onnx_hw.quantization.scaled_features import scaled_feature_grids
from onnx_hw.quantization.scheme import DEFAULT, MAX_BITS, Scheme
from onnx_hw.quantization.sequential_ptq import choose_integers
from onnx_hw.runtime.options import OutputKind


def prepare_floats(model: Model) -> Model:
    """Return the same function as a canonical model, in float32 and with scales folded into the weights."""
    factored = drop_unneeded(fold_scales_into_weights(cast_to_float32(model)))
    refuse("model", faults_of_folded(factored), "fold_scales_into_weights")
    return factored


def quantize_float_model(model: Model, frames: Mapping[str, np.ndarray], scheme: Scheme = DEFAULT) -> Model:
    """Return the QDQ model of a float model.

    Args:
        frames: calibration data by graph input, (frames, *shape).
        scheme: scheme of the integers.

    Raises:
        UserError: a value is not finite during calibration; the scheme names what is not quantized.
    """
    return quantize_prepared_floats(
        prepare_floats(canonicalize(model)), SampleRanges(frames, scheme.ranges), scheme
    ).model


def quantize_without_data(model: Model) -> Model:
    """Return the QDQ model with assumed ranges. It differs from one of real data only in its scales. The model is not
    run.
    """
    return quantize_prepared_floats(prepare_floats(canonicalize(model)), assume_ranges).model


@dataclass(frozen=True)
class QuantizedFloats:
    """QDQ model of a float model, and the statistics of its integers.

    Attributes:
        model: the canonical QDQ model.
        floats: the float model that it approximates.
        ranges: range of each value for which an MSE range was searched, by name; none of values so fine that rounding
            loses next to nothing.
        held: quantization error of each value on samples, by the names of ``floats``.
        widths: bit widths that a search for a goal found; None without a goal.
        tensor_losses: function that computes the loss of each tensor; empty where ``sequential_ptq`` was not used.
        exact: names of the values without integers that hardware takes exactly.
        equalized: the same function as ``floats``, of which the integers of weights were made, with the names of
            ``model``; None where ``sequential_ptq`` was not used.
    """

    model: Model
    floats: Model
    ranges: Mapping[str, MseRange] = field(default_factory=dict)
    held: Mapping[str, QuantError] = field(default_factory=dict)
    widths: ChosenWidths | None = None
    tensor_losses: Callable[[], tuple[TensorLoss, ...]] = tuple
    exact: frozenset[str] = frozenset()
    equalized: Model | None = None


def quantize_prepared_floats(model: Model, ranges: RangeSource, scheme: Scheme = DEFAULT) -> QuantizedFloats:
    """Return the QDQ model of a float model whose scales are folded into its weights.

    With samples and ranges of least loss all integers are chosen by ``sequential_ptq``; else by the ranges alone.

    Where samples are known and nobody asks for ranges of another kind, all integers are chosen by their effect.
    """
    if not isinstance(ranges, SampleRanges) or ranges.method is not RangeMethod.MSE:
        return QuantizedFloats(_quantized(model, ranges, scheme), model)
    plain, terms = separate_biases(model)
    samples = pick_samples(ranges.frames, plain.graph)
    equal, renamed = equalize_channels(plain, samples, terms)
    asked = {renamed.get(name, name): precision for name, precision in scheme.data_overrides.items()}
    exact = frozenset(renamed.get(name, name) for name in scheme.exact)
    scheme = replace(scheme, data_overrides=asked, exact=exact)
    head, points = _points(equal, scheme)
    scheme = _with_wide_values(equal, points, scheme)
    groups = exact_groups(equal.graph, points)
    check_exact_values(scheme.exact, groups)
    spans, widths = ranges(equal, points), None
    names = {new: name for name, new in renamed.items()}
    if scheme.goal is not None:
        labels = None if ranges.labels is None else ranges.labels[:: sample_stride(ranges.frames, plain.graph)]
        widths = _widths(scheme.goal, equal, points, samples, labels, spans, terms, scheme)
        scheme = widths.scheme
        found = {names.get(name, name): precision for name, precision in scheme.data_overrides.items()}
        widths = replace(widths, scheme=replace(scheme, data_overrides=found))
    chosen = choose_integers(equal, points, samples, spans, terms, scheme)
    if scheme.widen:
        factors = {name for group in groups.values() for name in group.factors}
        operands = {k: most for k, most in widest_operands(equal.graph, points).items() if k not in factors}
        wider = widen_tensors(
            scheme,
            chosen,
            estimate_costs(equal.graph, points, (scheme.data.bits, *WIDER)),
            operands,
            groups,
            multiplies_values(equal.graph, points),
            lambda tried: choose_integers(equal, points, samples, spans, terms, tried),
            lambda integers: loss_by_tensor(equal.graph, samples, terms, integers, {}),
        )
        if wider is not None:
            chosen, widths = wider
            scheme = widths.scheme
            found = {names.get(name, name): precision for name, precision in scheme.data_overrides.items()}
            exact = frozenset(names.get(name, name) for name in scheme.exact)
            widths = replace(widths, scheme=replace(scheme, data_overrides=found, exact=exact))
    held = {names.get(name, name): of for name, of in chosen.held.items()}
    quantized = _inserted(equal, points, spans, head, scheme, chosen)
    lost = partial(loss_by_tensor, equal.graph, samples, terms, chosen, names)
    sources = exact_sources(quantized.graph, scheme.exact)
    searched = {name: span for name, span in chosen.ranges.items() if scheme.data_precision(name).bits < SUMMAND_BITS}
    return QuantizedFloats(quantized, plain, searched, held, widths, lost, sources, equal)


def _widths(
    goal: Goal,
    model: Model,
    points: Collection[str],
    samples: Sequence[Frame],
    labels: np.ndarray | None,
    spans: Mapping[str, Range],
    terms: Mapping[str, BiasTerm],
    scheme: Scheme,
) -> ChosenWidths:
    """Search for the bit widths that reach a goal; see ``mixed_precision/search.py``."""
    graph = model.graph

    def quantize(tried: Scheme, learned: Sequence[Frame], judges: Sequence[Frame]) -> IntegerDecisions:
        return choose_integers(model, points, learned, spans, terms, tried, judges)

    noises = measure_noise(graph, points, samples, spans, scheme, WIDTHS)
    costs = estimate_costs(graph, points, WIDTHS)
    return WidthSearch(goal, scheme, samples, labels, find_logits(graph), noises, costs, quantize).run()


def _quantized(model: Model, ranges: RangeSource, scheme: Scheme) -> Model:
    head, points = _points(model, scheme)
    scheme = _with_wide_values(model, points, scheme, summands=False)
    scheme = replace(scheme, exact=frozenset())  # their sums need steps that samples choose
    spans, grids = ranges(model, points), scaled_feature_grids(model.graph, points, scheme)
    known = IntegerDecisions(grids | loop_grids(model.graph, points, spans, scheme))
    return _inserted(model, points, spans, head, scheme, known)


def _with_wide_values(model: Model, points: Collection[str], scheme: Scheme, *, summands: bool = True) -> Scheme:
    """Give the data of normalizations, and what it is a sum of, more bits, unless the scheme names their bits.

    All that leads to a decision tree, data and weights, has ``MAX_BITS``, where the scheme has the usual bits: a small
    difference from a threshold decides.

    Args:
        summands: whether the operands of such a sum can get steps together, so that there is an exact sum.
    """
    graph, most = model.graph, widest_operands(model.graph, points)
    compared = compared_values(graph)
    bits_of = {
        name: max(scheme.data.bits, bits)
        for name, bits in wide_values(graph, points).items()
        if bits == MAX_BITS or (summands and bits <= most.get(name, bits))
    }
    if scheme.data == DEFAULT.data:
        bits_of |= dict.fromkeys(compared.intersection(points), MAX_BITS)
    products = [node for node in graph.nodes if float_weights(node, graph.constants)]
    before_trees = [node.label for node in products if compared.intersection(node.outputs)]
    weights = replace(scheme.weights, bits=MAX_BITS)
    kept = before_trees if scheme.weights == DEFAULT.weights else []
    wide = {name: replace(scheme.data, bits=bits) for name, bits in sorted(bits_of.items())}
    return replace(
        scheme,
        data_overrides={**wide, **scheme.data_overrides},
        weight_overrides={**dict.fromkeys(kept, weights), **scheme.weight_overrides},
    )


def _points(model: Model, scheme: Scheme) -> tuple[Collection[str], Collection[str]]:
    """Return the values that the host computes first, and the values that get integers."""
    head = values_of_head(model.graph, lambda node: must_stay_on_host(node, model.graph))
    return head, sorted(choose_quantized_values(model, head, outputs=scheme.output is OutputKind.INT8))


def _inserted(
    model: Model,
    points: Collection[str],
    spans: Mapping[str, Range],
    head: Collection[str],
    scheme: Scheme,
    known: IntegerDecisions | None = None,
) -> Model:
    points = [name for name in points if name not in scheme.exact]
    quantized = insert_quantization(model, points, spans, head, scheme, known)
    refuse("model", faults_of_folded(quantized), "insert_quantization")
    return quantized
