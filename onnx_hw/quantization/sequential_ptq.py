"""Sequential post-training quantization: ranges, weights and bias terms, chosen in one pass over the nodes.

A float model, the values to quantize, and samples go in; an ``IntegerDecisions`` comes out, for ``insert_qdq``.
``post_training`` calls it, once or, in a search for bit widths, several times.

All samples go through the model together, twice: in floats, and with the integers chosen so far. Each range weighs
rounding against expected saturation (``ranges/mse.py``). The weights of each product are rounded by the error of its
results with the *quantized* data (``gptq_rounding.py``), and its bias is corrected by the remaining mean error against
the *float* results. Where a product is requantized, the steps of its weights and its bias are chosen so that the
requantizer is cheap (``requantizer_friendly_scales.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.loops import TimeLoop, delayed_value, is_delay, loops_of
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import computed_in_steps
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.run_loop import ComputeStep
from onnx_hw.quantization.biases import BiasTerm
from onnx_hw.quantization.decisions import IntegerDecisions, QuantError, StoredTerm, StoredWeights
from onnx_hw.quantization.dequantize import dequantize, fake_quantize, representable_range
from onnx_hw.quantization.exact_values import exact_groups, exact_sources
from onnx_hw.quantization.gptq_rounding import ColumnStatistics, fit_to_floats, gptq_round, search_scales
from onnx_hw.quantization.im2col import im2col, is_matrix_product, matrix_to_weights, rows_of, weight_matrix
from onnx_hw.quantization.mixed_precision.logits import find_logits
from onnx_hw.quantization.ranges.batched_run import BatchedRun, Frame
from onnx_hw.quantization.ranges.calibrate import Range
from onnx_hw.quantization.ranges.choose_grids import choose_grids
from onnx_hw.quantization.requantizer_friendly_scales import RequantizerScale, design_scale
from onnx_hw.quantization.scheme import Scheme
from onnx_hw.samples.sqnr import NoiseStatistics

MAX_ROWS = 20_000
"""Greatest number of rows of one product that are used, of all samples together, evenly spread."""

MAX_COLUMNS = 4096
"""Greatest number of columns of a product for GPTQ rounding; with more, each weight is rounded to nearest."""

MAX_JUDGES = 16
"""Number of samples that measure the quantization error where no separate hold-out samples are given."""

PRIOR_ROWS = 16
"""Weight of the prior in bias correction: of the mean error of n rows, at least n / (n + PRIOR_ROWS) is corrected."""


def choose_integers(
    model: Model,
    points: Collection[str],
    frames: Sequence[Frame],
    spans: Mapping[str, Range],
    terms: Mapping[str, BiasTerm],
    scheme: Scheme,
    held_out: Sequence[Frame] = (),
) -> IntegerDecisions:
    """Choose the integers of a float model.

    Args:
        model: float32 model whose biases are separated (``biases.py``).
        points: names of the values that get integers.
        frames: samples, by graph input.
        spans: finite range of each point on samples.
        terms: bias terms, by the name of the product's result.
        scheme: bits of each tensor.
        held_out: hold-out samples that measure the error and teach nothing; empty for the first of ``frames``.
    """
    groups = [group for name, group in exact_groups(model.graph, points).items() if name in scheme.exact]
    points = [name for name in points if name not in scheme.exact]
    grids, ranges = choose_grids(model.graph, points, frames, spans, scheme, [group.factors for group in groups])
    squares = exact_sources(model.graph, [name for group in groups if group.factors for name in group.names])
    found = _Weights(model.graph, grids, terms, scheme, squares).of(frames, held_out)
    found.ranges |= ranges
    return found


class _Weights:
    """Second pass, in floats and in integers: chooses weights and bias terms."""

    def __init__(
        self,
        graph: Graph,
        grids: dict[str, Grid],
        terms: Mapping[str, BiasTerm],
        scheme: Scheme,
        squares: Collection[str],
    ) -> None:
        self.graph, self.grids, self.terms, self.scheme, self.squares = graph, grids, terms, scheme, squares
        self.readers, self.logits = readers_of(graph.nodes), find_logits(graph)
        self.carried = dict(grids)  # and values with the same integers
        self.decisions = IntegerDecisions(grids)
        self.exact: BatchedRun
        self.quantized: BatchedRun
        self.learned = 0  # samples; the hold-out samples are behind them
        self.judges = slice(0)
        self.loops = {id(node): loop for loop in loops_of(graph.nodes).values() for node in (*loop.delays, *loop.nodes)}

    def of(self, frames: Sequence[Frame], held_out: Sequence[Frame]) -> IntegerDecisions:
        self.learned = len(frames)
        self.judges = slice(len(frames), None) if held_out else slice(MAX_JUDGES)
        self.exact, self.quantized = (BatchedRun(self.graph, [*frames, *held_out]) for _ in range(2))
        for value in self.graph.inputs:
            self._quantize_value(value.name)
        for node in self.graph.nodes:
            self.exact.step(node)
            if is_delay(node):
                self._assume_state(node)
                continue
            self._quantize_node(node)
            for name in node.outputs:
                self._quantize_value(name)
            if facts_of(node).effect is Effect.KEEPS and node.inputs[0] in self.carried:
                self.carried |= dict.fromkeys(node.outputs, self.carried[node.inputs[0]])
            loop = self.loops.get(id(node))
            done = [node] if loop is None else []
            if loop is not None and node is loop.nodes[-1]:
                self._close_loop(loop)
                done = [*loop.delays, *loop.nodes]
            for samples in (self.exact, self.quantized):
                for other in done:
                    samples.release(other)
        return self.decisions

    def _assume_state(self, node: Node) -> None:
        """Assume that the state of the step before is the one in floats, rounded: its integers are not known yet."""
        name, states = delayed_value(node), self.exact.states(node)
        if name in self.grids:
            states = [fake_quantize(self.grids[name], state) for state in states]
            self.carried |= dict.fromkeys(node.outputs, self.grids[name])
        self.quantized.delay(node, states)

    def _close_loop(self, loop: TimeLoop) -> None:
        """Run a loop whose integers are all chosen, so that what follows gets the states that its own steps make."""

        def computing(node: Node) -> ComputeStep:
            stored, place = self.decisions.weights.get(node.outputs[0]), facts_of(node).weights
            known = {k: self._term(name) for k, name in enumerate(node.inputs) if name in self.decisions.terms}
            if stored is not None and place is not None:
                axis = place.axis_of_outputs(node, stored.integers.ndim)
                known[place.at] = dequantize(stored.integers, stored.grid, axis)
            compute_step = computed_in_steps(node)
            return lambda inputs: compute_step([known.get(k, value) for k, value in enumerate(inputs)])

        def rounded(name: str, value: Any, _: int) -> Any:
            return fake_quantize(self.grids[name], value) if name in self.grids else value

        for name, arrays in self.quantized.run_loop(loop, loop.results, computing, rounded).items():
            for values, array in zip(self.quantized.values, arrays, strict=True):
                values[name] = array
            if name in self.grids or name in self.logits:
                arrived = self.decisions.held[name].arrived if name in self.decisions.held else self._likeness(name)
                self._record(name, arrived)

    def _quantize_value(self, name: str) -> None:
        if name not in self.grids and name not in self.logits:
            return
        arrived = self._likeness(name)
        if name in self.grids:
            for values in self.quantized.values:
                values[name] = fake_quantize(self.grids[name], values[name])
        self._record(name, arrived)

    def _record(self, name: str, arrived: NoiseStatistics) -> None:
        """Record the error of a value, which has its integers now; ``arrived`` is the one before."""
        held, beyond = arrived, 0
        if name in self.grids:
            low, high = map(np.float64, representable_range(self.grids[name]))  # wider than the floats of the data
            beyond = sum(int(((x < low) | (x > high)).sum()) for x in self.exact.of(name)[self.judges])
            held = self._likeness(name)
        self.decisions.held[name] = QuantError(arrived, held, beyond / max(1, arrived.values))
        if name in self.logits:
            self.decisions.noises[name] = np.array([likeness.noise for likeness in self._errors_by_sample(name)])
            self.decisions.spreads[name] = _spread(self.exact.of(name)[self.judges])
            given = self.quantized.of(name)[self.judges]
            self.decisions.finite &= all(np.isfinite(array).all() for array in given)
        if self.logits and name == self.logits[0]:
            of_floats, of_integers = (samples.of(name)[self.judges] for samples in (self.exact, self.quantized))
            self.decisions.classes = _classes(of_floats), _classes(of_integers)

    def _likeness(self, name: str) -> NoiseStatistics:
        likeness = NoiseStatistics()
        for given, exact in zip(self.quantized.of(name)[self.judges], self.exact.of(name)[self.judges], strict=True):
            likeness = likeness.with_values(given, exact)
        return likeness

    def _errors_by_sample(self, name: str) -> Iterator[NoiseStatistics]:
        for given, exact in zip(self.quantized.of(name)[self.judges], self.exact.of(name)[self.judges], strict=True):
            yield NoiseStatistics().with_values(given, exact)

    def _quantize_node(self, node: Node) -> None:
        """Compute a node with integers; choose them first if it has weights or adds a bias term."""
        place = facts_of(node).weights if facts_of(node).effect is Effect.SUMS else None
        weights = self.graph.constants.get(node.inputs[place.at]) if place is not None else None
        if place is None or weights is None or not np.isfinite(weights).all():
            self.quantized.step(node, {name: self._term(name) for name in node.inputs if name in self.decisions.terms})
            return
        axis, precision = place.axis_of_outputs(node, weights.ndim), self.scheme.weight_precision(node.label)
        result = node.outputs[0]
        design: RequantizerScale | None = None
        is_positive = self._stays_positive(node, weights)
        columns = self._columns(node, weights) if node.outputs[0] in self.terms and not is_positive else None
        if columns is not None:
            matrix = weight_matrix(node, weights).astype(np.float64)
            targets = self._targets(node, columns, len(matrix))
            matrix = fit_to_floats(matrix, columns, targets)
            known = ColumnStatistics.of(columns)
            grid = precision.weight_grid(weights, axis)
            if precision.symmetric and precision.scales_each(weights.shape[axis]):
                scales = search_scales(matrix, known, grid.high).reshape(-1)
                design = self._design_scale(node, scales, grid.high * matrix.shape[2])
                steps = design.steps if design else tuple(Fraction(float(np.float32(scale))) for scale in scales)
                grid = Grid.over(grid.dtype, steps).within(grid.low, grid.high)
            scale, zero = (
                np.broadcast_to([float(number) for number in numbers], matrix[:, :, 0].size).reshape(matrix.shape[:2])
                for numbers in (grid.step, grid.zero_point)
            )
            integers = matrix_to_weights(node, gptq_round(matrix, known, scale, zero, grid.low, grid.high), weights)
        else:
            grid = precision.weight_grid(weights, axis)
            integers = grid.integers(weights, axis)
        self.decisions.weights[result] = StoredWeights(integers, grid)
        self.quantized.step(node, {node.inputs[place.at]: dequantize(integers, grid, axis)})
        if node.outputs[0] in self.terms:
            self._correct_bias(self.terms[node.outputs[0]], result, design, is_positive)

    def _columns(self, node: Node, weights: np.ndarray) -> np.ndarray | None:
        """Return the quantized data of all samples as columns, (groups, rows, columns).

        None where the node has no columns, has too many, or where a number is not finite: data that is bounded
        afterwards may be infinite here.
        """
        if not is_matrix_product(node):
            return None
        exact, data = (
            s.of(n)[: self.learned] for s, n in ((self.exact, node.outputs[0]), (self.quantized, node.inputs[0]))
        )
        if not all(np.isfinite(array).all() for array in (*exact, *data)):
            return None
        parts = []
        try:
            for array, result in zip(data, exact, strict=True):
                stride = _stride(rows_of(node, array, result.shape), len(data))
                rows = im2col(node, array, weights, result.shape, stride)
                if rows.shape[2] > MAX_COLUMNS:
                    return None
                parts.append(rows)
        except Obstacle:  # the lowering reports it later
            return None
        return np.concatenate(parts, axis=1)

    def _targets(self, node: Node, columns: np.ndarray, groups: int) -> np.ndarray:
        """Return the sums in floats of the same rows, (groups, rows, outputs)."""
        place = facts_of(node).weights
        assert place is not None
        exact = self.exact.of(node.outputs[0])[: self.learned]
        parts = []
        for result in exact:
            rows = np.moveaxis(result, place.channel, -1)
            rows = rows.reshape(-1, rows.shape[-1])
            parts.append(rows[:: _stride(len(rows), len(exact))].astype(np.float64))
        together = np.concatenate(parts)
        assert len(together) == columns.shape[1]
        return together.reshape(len(together), groups, -1).transpose(1, 0, 2)

    def _design_scale(self, node: Node, scales: np.ndarray, max_sum: int) -> RequantizerScale | None:
        """Design the scales of a product that is requantized alone; None for any other product.

        ``max_sum`` is the greatest sum of an output's integers.
        """
        data, (result,) = self.carried.get(node.inputs[0]), node.outputs
        while result not in self.grids:
            following = self.readers.get(result, [])
            if len(following) != 1:
                return None
            (reader,) = following
            term = facts_of(reader).effect is Effect.ADDS and self.terms[node.outputs[0]].name in reader.inputs
            if not term and facts_of(reader).effect is not Effect.BOUNDS:
                return None
            result = reader.outputs[0]
        if data is None:
            return None
        return design_scale(
            [float(scale) for scale in scales], data, self.grids[result], max_sum * (data.high - data.low)
        )

    def _stays_positive(self, node: Node, weights: np.ndarray) -> bool:
        """Return whether a product of numbers that are not negative is the argument of a function, such as Log.

        The function may not be defined for negative numbers, which rounding must not make then.
        """
        data, result = self.carried.get(node.inputs[0]), node.outputs[0]
        is_positive = node.inputs[0] in self.squares if data is None else data.low >= data.zero_point[0]
        if not is_positive or weights.min() < 0:
            return False
        while len(following := self.readers.get(result, [])) == 1:
            effect, result = facts_of(following[0]).effect, following[0].outputs[0]
            if effect is Effect.BENDS:
                return True
            if effect not in (Effect.ADDS, Effect.BOUNDS, Effect.KEEPS):
                return False
        return False

    def _correct_bias(self, term: BiasTerm, result: str, design: RequantizerScale | None, positive: bool) -> None:
        """Set the bias term so that the mean of the sums is the one in floats (bias correction).

        Args:
            term: the bias term.
            result: name of the product's result.
            design: scales of the product's requantizer, if they were designed.
            positive: whether the term must not become smaller, so that no sum becomes negative.
        """
        stored = self.graph.constants[term.name]
        others = tuple(k for k in range(stored.ndim) if k != term.axis)
        pairs = list(zip(self.exact.of(result), self.quantized.of(result), strict=True))[: self.learned]
        finite = all(np.isfinite(array).all() for pair in pairs for array in pair)
        each = [(exact.astype(np.float64) - given).mean(axis=others) for exact, given in pairs if finite]
        off, share = _mean_error(np.array(each or [np.zeros(stored.size)]))
        rows = sum(array.size for array in self.exact.of(result)[: self.learned]) / off.size
        off = np.maximum(off, 0) if positive else off
        target = stored.reshape(-1).astype(np.float64) + off * np.maximum(share, rows / (rows + PRIOR_ROWS))
        units = design.terms(target) if design else None
        if design is not None and units is not None:
            self.decisions.terms[term.name] = StoredTerm(units.reshape(stored.shape), design.unit)
        else:
            self.decisions.terms[term.name] = target.reshape(stored.shape).astype(np.float32)

    def _term(self, name: str) -> np.ndarray:
        """Return a bias term as floats."""
        stored = self.decisions.terms[name]
        if isinstance(stored, StoredTerm):
            return (stored.integers * float(stored.step)).astype(np.float32)
        return stored


def _mean_error(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean error of each output, and the share of it that is no chance, (outputs,) each.

    The share is m² / (m² + e²) of a mean m whose standard error is e: the weight with the least expected square of what
    remains, if e is known.

    Args:
        errors: mean error of each sample, (samples, outputs).
    """
    mean, samples = errors.mean(axis=0), len(errors)
    if samples < 2:
        return mean, np.zeros(mean.shape)
    square, chance = np.square(mean), errors.var(axis=0, ddof=1) / samples
    return mean, np.divide(square, square + chance, out=np.zeros(mean.shape), where=square + chance > 0)


def _stride(rows: int, samples: int) -> int:
    """Return the stride between the rows of a sample that are used."""
    return -(-rows // max(1, MAX_ROWS // samples))


def _spread(arrays: Sequence[np.ndarray]) -> float:
    """Return the sum of squared differences from the mean of all finite numbers."""
    numbers = np.concatenate([array[np.isfinite(array)] for array in arrays]).astype(np.float64)
    return float(np.square(numbers - numbers.mean()).sum()) if numbers.size else 0.0


def _classes(samples: Sequence[np.ndarray]) -> np.ndarray:
    """Return the index of the greatest number of each sample."""
    return np.array([int(array.argmax()) for array in samples])
