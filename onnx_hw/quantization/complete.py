"""Completion of partly quantized models: values that hardware needs as integers and that a model leaves in floats.

A canonical model with integers of its own goes in, with the ranges of values that lack some; its network and the
completed QDQ model come out. ``quantize.quantize_model`` calls it for every model, behind ``post_training`` for float
models. onnxruntime's quantizer, for example, puts nothing between a HardSwish and an average: a sum of such numbers is
a sum of integers only once they have a scale.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ir.network import Network
from onnx_hw.lower.dry_run import add_stand_in
from onnx_hw.lower.lower_model import LoweringState, lower_prepared
from onnx_hw.lower.obstacle import COARSE_TABLE, Obstacle
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.messages.errors import UserError
from onnx_hw.messages.invariants import refuse
from onnx_hw.onnx.canonicalize.cast_to_float32 import cast_to_float32
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.loops import is_delay, loops_of
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.graph.verify_model import faults_of_folded
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.quantization.decisions import IntegerDecisions
from onnx_hw.quantization.insert_qdq import insert_quantization
from onnx_hw.quantization.loop_grids import loop_grids
from onnx_hw.quantization.placement import choose_quantized_values
from onnx_hw.quantization.ranges.batched_run import pick_samples
from onnx_hw.quantization.ranges.calibrate import Range, RangeMethod, RangeSource, SampleRanges
from onnx_hw.quantization.ranges.choose_grids import choose_grids
from onnx_hw.quantization.ranges.derive import DerivedRange, derive_ranges, refuse_loose
from onnx_hw.quantization.scheme import DEFAULT, MAX_BITS, Precision, Scheme

DERIVED_BITS = 12
"""Bits of a value whose range no samples give: bounds are wider than data."""

BY_BOUNDS = "by the integers before it"
"""Origin of a scale that no samples give."""

BYTES = (Int(8, signed=False), Int(8))


def complete_and_lower(
    model: Model,
    ranges: RangeSource | None,
    scheme: Scheme = DEFAULT,
    exact: Collection[str] = (),
    *,
    loadable: bool = False,
) -> tuple[Network, Model, dict[str, str]]:
    """Return the network of a quantized model; values and weights that lack integers get them.

    Args:
        model: result of ``canonicalize``.
        ranges: where the ranges of such values come from; None for bounds that follow from the model's own integers.
        scheme: scheme of their integers.
        exact: names of values that stay without integers.
        loadable: as in ``NetworkBuilder``.

    Returns:
        the network, the model that it computes, and for each value or weight that got integers a description of them.

    Raises:
        UserError: every obstacle, with the nodes' own names; a value is not finite during calibration.
    """
    try:
        return _complete_and_lower(model, ranges, scheme, exact, loadable=loadable)
    except UserError:
        if ranges is None:
            with suppress(UserError):
                return _complete_and_lower(model, derive_ranges, scheme, exact, loadable=loadable)
        raise


def _complete_and_lower(
    model: Model, ranges: RangeSource | None, scheme: Scheme, exact: Collection[str], *, loadable: bool
) -> tuple[Network, Model, dict[str, str]]:
    try:
        return lower_prepared(model, exact, loadable=loadable), model, {}
    except UserError:
        floats = cast_to_float32(model)
        if ranges is not None and any(map(is_delay, floats.graph.nodes)):
            completed, described = _with_integers_near(floats, _near_loops(floats.graph), ranges, scheme)
            with suppress(UserError):
                return lower_prepared(completed, exact, loadable=loadable), completed, described
        missing = find_missing_integers(floats)
        if missing.values and ranges is None:
            with suppress(UserError):
                return lower_prepared(model, exact, split_functions=True, loadable=loadable), model, {}
        if not (missing.values or missing.weights) or (missing.values and ranges is None):
            raise
    spans = {} if ranges is None else ranges(floats, missing.values)
    grids = {name: _grid_of(name, spans[name], floats.graph, missing, scheme) for name in missing.values}
    refuse_loose(spans, ())
    completed = insert_quantization(floats, missing.values, spans, scheme=scheme, integers=IntegerDecisions(grids))
    refuse("model", faults_of_folded(completed), "insert_quantization")
    chosen = {name: _describe(grids[name], spans[name]) for name in missing.values}
    chosen |= {name: f"{scheme.weight_precision(label).bits} bits" for label, name in missing.weights.items()}
    try:
        return lower_prepared(completed, exact, loadable=loadable), completed, chosen
    except UserError:
        if ranges is not None and (near := _near_products(floats.graph)):
            completed, chosen = _with_integers_near(floats, near, ranges, scheme, searched=True)
            with suppress(UserError):
                return lower_prepared(completed, exact, loadable=loadable), completed, chosen
        raise


def _with_integers_near(
    floats: Model, near: Collection[str], ranges: RangeSource, scheme: Scheme, *, searched: bool = False
) -> tuple[Model, dict[str, str]]:
    """Return a model in which values get integers, as those of a float model do, and a description of these.

    Args:
        floats: model with quantizers before and behind layers that are left in floats.
        near: names of the values among which some get integers.
        searched: whether the ranges weigh rounding against saturation, where samples are known.
    """
    graph = floats.graph
    known = {name for node in graph.nodes if facts_of(node).effect is Effect.DEQUANTIZES for name in node.outputs}
    points = sorted((choose_quantized_values(floats, outputs=False) & set(near)) - known)
    spans = ranges(floats, points)
    grids = loop_grids(graph, points, spans, scheme)
    refuse_loose(spans, grids)
    if searched and isinstance(ranges, SampleRanges) and ranges.method is RangeMethod.MSE:
        grids, _ = choose_grids(graph, points, pick_samples(ranges.frames, graph), spans, scheme, ())
    completed = insert_quantization(floats, points, spans, scheme=scheme, integers=IntegerDecisions(grids))
    refuse("model", faults_of_folded(completed), "insert_quantization")
    each = {name: grids.get(name) or scheme.data_precision(name).data_grid(spans[name]) for name in points}
    return completed, {name: _describe(grid, spans[name]) for name, grid in each.items()}


def _near_loops(graph: Graph) -> set[str]:
    """Return the values in loops, and those that loops read, up to the quantizers before them."""
    near: set[str] = set()
    for loop in loops_of(graph.nodes).values():
        for node in loop.nodes:
            near.update((*node.inputs, *node.outputs))
    for node in reversed(graph.nodes):
        if facts_of(node).effect not in (Effect.QUANTIZES, Effect.DEQUANTIZES) and not near.isdisjoint(node.outputs):
            near.update(node.inputs)
    return near


def _near_products(graph: Graph) -> set[str]:
    """Return the values around products whose weights are floats, up to the quantizers before and behind them."""
    near: set[str] = set()
    for node in graph.nodes:
        weights = facts_of(node).weights
        name = "" if weights is None or weights.at >= len(node.inputs) else node.inputs[weights.at]
        if name in graph.constants and graph.constants[name].dtype == np.float32:
            near.update(node.outputs)
    before = -1
    while len(near) > before:
        before = len(near)
        for node in (*graph.nodes, *reversed(graph.nodes)):
            around = {*node.inputs, *node.outputs} - graph.constants.keys() - {""}
            if facts_of(node).effect not in (Effect.QUANTIZES, Effect.DEQUANTIZES) and not near.isdisjoint(around):
                near |= around
    return near


@dataclass(frozen=True)
class MissingIntegers:
    """Values that hardware needs as integers and that a model leaves in floats.

    Attributes:
        values: values before products.
        entering: those of them that the host computes or the user gives.
        weights: name of the weights, by the label of the product.
    """

    values: tuple[str, ...]
    entering: frozenset[str]
    weights: Mapping[str, str]


def find_missing_integers(model: Model) -> MissingIntegers:
    """Find what a canonical model lacks.

    Values are assumed to be quantized until the whole model can be lowered.
    """
    assumed: tuple[str, ...] = ()
    while True:
        walk = _Assuming(model.graph, assumed)
        for node in model.graph.nodes:
            walk.visit(node)
        if len(walk.behind) == len(assumed):
            return MissingIntegers(tuple(walk.assumed), frozenset(walk.entering), walk.weights)
        assumed = tuple(walk.behind)


def _grid_of(name: str, span: Range, graph: Graph, missing: MissingIntegers, scheme: Scheme) -> Grid:
    """Return the grid of a value: the one on which all samples lie, or a calibrated one, with 16 bits for what enters.

    An input of a sum of two tensors gets the bits of the scheme.
    """
    precision = scheme.data_precision(name)
    if precision != DEFAULT.data:
        return precision.data_grid(span)
    if isinstance(span, DerivedRange):
        return Precision(DERIVED_BITS).data_grid(span)
    summed = any(
        facts_of(node).effect is Effect.ADDS and name in node.inputs and not names_read(node) & set(graph.constants)
        for node in graph.nodes
    )
    wide = name in missing.entering and not summed
    if span.step is not None:
        low, high = (round(end / float(span.step)) for end in (span.low, span.high))
        dtype = next((dtype for dtype in BYTES if dtype.min <= low and high <= dtype.max), Int(MAX_BITS))
        if wide or dtype in BYTES:
            return Grid.over(dtype, span.step)
    return (Precision(MAX_BITS) if wide else precision).data_grid(span)


def _describe(grid: Grid, span: Range) -> str:
    """Describe a grid in a few words."""
    (step,) = grid.step
    if isinstance(span, DerivedRange):
        return f"{grid.bits} bits, {BY_BOUNDS}"
    if step == span.step:
        return f"{grid.bits} bits, steps of {step}, which all samples are multiples of"
    return f"{grid.bits} bits, calibrated"


class _Assuming(LoweringState):
    """Dry run of the lowering that assumes integers for each value that needs them.

    Attributes:
        assumed: names of the values assumed to be quantized.
        entering: those of them that the host computes or the user gives.
        weights: weights of products assumed to be quantized, by the products' labels.
        behind: values assumed by the walk before, or to be assumed by the next one: other values were made of them.
        before_products: values that some product depends on.
    """

    def __init__(self, graph: Graph, known: Sequence[str]) -> None:
        super().__init__(graph)
        self.assumed: list[str] = []
        self.entering: set[str] = set()
        self.weights: dict[str, str] = {}
        self.behind = list(known)
        self.before_products: set[str] = set()
        for node in reversed(graph.nodes):
            if is_product(node) or self.before_products.intersection(node.outputs):
                self.before_products.update(node.inputs)

    def visit(self, node: Node) -> None:
        self._assume_what_enters(node)
        super().visit(node)
        for name in node.outputs:
            if name in self.behind:
                self._assume(name)

    def _assume_what_enters(self, node: Node) -> None:
        """Assume integers for weights of a product, and floats of the host that it reads or hardware adds to data."""
        facts, constants = facts_of(node), self.graph.constants
        if is_product(node) and facts.weights is not None and facts.effect is Effect.SUMS:
            name = node.inputs[facts.weights.at]
            if name in constants and constants[name].dtype == np.float32:
                self.weights[node.label] = name
                ones = np.ones(constants[name].shape, dtype=np.int64)
                self.builder.constants[name] = QuantizedConstant(ones, (Fraction(1),))
        joins = facts.effect in (Effect.ADDS, Effect.SCALES, Effect.JOINS) and self._reads_stream(node)
        if (is_product(node) or joins) and self.head_values.isdisjoint(node.outputs):
            for name in node.inputs:
                known = self.graph.values.get(name)
                if known is not None and known.element_type == "float" and self._is_raw(name):
                    with suppress(Obstacle):
                        add_stand_in(self.builder, name)
                        self.assumed.append(name)
                        self.entering.add(name)

    def _is_raw(self, name: str) -> bool:
        """Say whether a value is on the host and is not quantized there."""
        tables = (self.graph.constants, self.builder.constants, self.builder.values, self.builder.pending)
        return name not in self.diagnosis.on_tail and not any(name in table for table in tables)

    def _to_tail(self, node: Node, obstacle: Obstacle | None) -> None:
        name = "" if obstacle is None else obstacle.needs
        if name in node.inputs and self._assume(name):
            self._lower(node)
            return
        if obstacle is not None and obstacle.code == COARSE_TABLE:  # the numbers of a stand-in say nothing of scales
            add_stand_in(self.builder, node.outputs[0])
            return
        if name in self.before_products and name not in (*node.inputs, *self.behind):
            self.behind.append(name)
        super()._to_tail(node, obstacle)

    def _assume(self, name: str) -> bool:
        """Assume integers for a value if it needs some; return whether it does."""
        if name not in self.before_products or name in self.assumed:
            return False
        if name not in self.builder.values and name not in self.builder.pending:
            return False
        self.assumed.append(name)
        self.builder.pending.pop(name, None)
        add_stand_in(self.builder, name)
        return True
