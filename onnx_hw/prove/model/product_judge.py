"""Judge of the weights and biases that the quantizer made (link 2): were they rounded to nearest, is a mean lost?

Weights are rounded one after the other, those of the data that varies most first, and the others make up for the error.
So no weight lies next to its own float, and rounding down costs hardly more than rounding to nearest. But what is left
of each weight, once all that are rounded behind it have made up for what they can, lies within half a step, and is 0 on
average. With D the error of the weights, in that order, and H the covariance of the data, H = T·Tᵀ with T upper
triangular, this rest is (D·T)ₖ / Tₖₖ. Nothing of ``onnx_hw.quantization`` is used: the data comes from the quantized
model, its columns from the product itself with unit weights.

The bias makes up for the mean error of an output. Most of what the float model's own bias would leave on the samples
must be gone, unless chance explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.model import Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect, Weights
from onnx_hw.prove.model.plain_rounding import Frame
from onnx_hw.runtime.blas_threads import one_blas_thread

MIN_FRAMES, MAX_FRAMES, MAX_MACS = 16, 128, 2_000_000_000
"""Least and greatest number of samples on which products are judged, and the multiplications that they may take."""

MAX_PRODUCTS = 1_000_000_000
"""Multiplications that the columns of all samples may take together: about two seconds."""

MAX_ROWS, ROWS_OF_A_QUANTIZER = 2_000, 20_000
"""Rows of a sample, evenly chosen, and of all samples, as far as the damping of few rows is concerned."""

DAMPING, DAMPING_PER_COLUMN = 0.01, 0.05
"""Damping of the covariance, as shares of the mean of its diagonal; the second one is for one column per row."""

RIDGE = 0.3
"""Ridge penalty of a fit of the weights to the data, as a share of the mean of the diagonal."""

MAX_REST, MIN_WEIGHTS, DEVIATIONS = 0.2, 40, 6.0
"""Greatest mean rest of the weights, in steps, of how many weights, and the standard deviations that it must exceed.

Rounding down leaves half a step; sound weights leave less than a tenth.
"""

SAME = 1e-9
"""Greatest variance of the errors of samples that are the same, as a share of their mean square."""

MIN_MEANS, MAX_MEAN, MAX_MEAN_OF_ALL, FEW_OUTPUTS, PRIOR_ROWS, MIN_SHARE = 8, 4.0, 2.5, 8, 16, 1e-6
"""Least number of samples, and what the mean square of the mean errors of outputs may be: ``MAX_MEAN`` squares of their
standard errors, ``MAX_MEAN_OF_ALL`` where no sample is left out, for few outputs (1 + ``FEW_OUTPUTS`` / outputs) times
that; twice what is left where n of n +
``PRIOR_ROWS`` parts of the mean error of n rows are made up for; and a share of the mean square of the numbers.
"""


@dataclass
class JudgedProduct:
    """Product whose weights and bias were made by the quantizer.

    Attributes:
        node: node of the quantized model.
        integers, zero, step: integers of the weights, their zero points, and the steps, which are broadcast to them.
        floats: weights of the float model.
        biased: name of the result behind the bias; empty without one.
        rounding: mean square of a step of the bias, which may be off by one.
    """

    node: Node
    place: Weights
    integers: np.ndarray
    zero: np.ndarray
    step: np.ndarray
    floats: np.ndarray
    biased: str
    rounding: float = 0.0
    macs: int = 0
    frames: int = 0
    rows: int = 0
    total: Any = 0.0
    square: Any = 0.0
    missing: Any = 0.0
    cross: Any = 0.0
    means: list[np.ndarray] = field(default_factory=list)
    own: list[np.ndarray] = field(default_factory=list)
    signal: float = 0.0
    rows_behind: int = 0
    finite: bool = True

    @property
    def result(self) -> str:
        return self.node.outputs[0]

    @property
    def axis(self) -> int:
        return self.place.axis_of_outputs(self.node, self.integers.ndim)

    @property
    def groups(self) -> int:
        return int(self.node.attributes.get("group", 1))

    @property
    def columns(self) -> int:
        """Weights of an output."""
        return self.integers.size // self.integers.shape[self.axis]

    def by_output(self, weights: np.ndarray) -> np.ndarray:
        """Return weights as (groups, outputs, columns)."""
        rows = np.moveaxis(np.broadcast_to(weights, self.integers.shape), self.axis, 0)
        return rows.reshape(self.groups, -1, self.columns)

    def columns_of(self, data: np.ndarray) -> np.ndarray:
        """Return the data that each weight meets, (groups, rows, columns): the results of unit weights."""
        others = [size for k, size in enumerate(self.integers.shape) if k != self.axis]
        unit = np.eye(self.columns, dtype=np.float32).reshape(self.columns, *others)
        unit = np.moveaxis(np.tile(unit, (self.groups, *(1 for _ in others))), 0, self.axis)
        none = [np.zeros(self.groups * self.columns, np.float32) if name else None for name in self.node.inputs[2:]]
        rows = self.rows_of(np.asarray(compute(self.node, [data, unit, *none])[0]))
        return rows.reshape(len(rows), self.groups, self.columns).transpose(1, 0, 2)

    def rows_of(self, result: np.ndarray) -> np.ndarray:
        """Return a result as (rows, outputs)."""
        return np.moveaxis(result, self.place.channel, -1).reshape(-1, result.shape[self.place.channel])


def judge_products(quantized: Model, floats: Model, samples: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Return what is wrong with the weights and the biases of the products of a quantized model, in words.

    Args:
        floats: the float model from which the weights were rounded; its values have the names of the quantized model.
        samples: calibration samples by graph input, (samples, *shape).
    """
    products = _products(quantized, floats)
    count = min(map(len, samples.values()), default=0)
    budget, chosen = MAX_PRODUCTS, min(count, MIN_FRAMES)
    with one_blas_thread():
        for k in range(MAX_FRAMES):
            if k >= chosen:
                break
            frame = {name: array[k * count // chosen] for name, array in samples.items()}
            budget -= _observe(products, quantized, floats, frame, budget)
            if k == 0:
                chosen = min(
                    count, MAX_FRAMES, max(MIN_FRAMES, MAX_MACS // max(1, sum(each.macs for each in products)))
                )
        findings = [finding for product in products for finding in (*_rest(product, count), *_mean(product, count))]
    return tuple(findings)


def _products(quantized: Model, floats: Model) -> list[JudgedProduct]:
    graph, constants = quantized.graph, floats.graph.constants
    producers = {name: node for node in graph.nodes for name in node.outputs}
    readers, known = readers_of(graph.nodes), {node.outputs[0]: node for node in floats.graph.nodes}
    products = []
    for node in graph.nodes:
        place, own = facts_of(node).weights, known.get(node.outputs[0])
        if (
            place is None
            or own is None
            or facts_of(node).effect is not Effect.SUMS
            or place.at != 1
            or len(node.inputs) > 3
        ):
            continue
        stored, weights = _stored(graph.constants, producers, node.inputs[1]), constants.get(own.inputs[1])
        if (
            stored is None
            or weights is None
            or stored[0].shape != weights.shape
            or place.rank not in (None, weights.ndim)
        ):
            continue
        integers, zero, step, axis = stored
        if step.size > 1:
            step, zero = (
                numbers.reshape([-1 if k == axis else 1 for k in range(integers.ndim)]) for numbers in (step, zero)
            )
        following = readers.get(node.outputs[0], ())
        adds = len(following) == 1 and facts_of(following[0]).effect is Effect.ADDS and following[0].outputs[0] in known
        rounding = _bias_rounding(following[0], node.outputs[0], producers, graph.constants) if adds else None
        biased = "" if rounding is None else following[0].outputs[0]
        floats_of = weights.astype(np.float64)
        product = JudgedProduct(node, place, integers, zero, step, floats_of, biased, rounding or 0.0)
        if product.groups == 1 or product.axis == 0:
            products.append(product)
    return products


def _bias_rounding(
    node: Node, data: str, producers: Mapping[str, Node], constants: Mapping[str, np.ndarray]
) -> float | None:
    """Return the mean square step of the constant that a node adds to data; None if it adds none."""
    (other,) = [name for name in node.inputs if name != data] or [data]
    stored = _stored(constants, producers, other)
    if stored is not None:
        return float(np.square(stored[2]).mean())
    return 0.0 if other in constants else None


def _stored(
    constants: Mapping[str, np.ndarray], producers: Mapping[str, Node], name: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int] | None:
    """Return the integers of dequantized constants, their zero points, steps, and the axis of these; else None."""
    node, denominator = producers.get(name), 1.0
    if node is not None and node.op_type == "Div" and node.inputs[1] in constants:
        denominator, node = float(constants[node.inputs[1]]), producers.get(node.inputs[0])
    if node is None or facts_of(node).effect is not Effect.DEQUANTIZES or len(node.inputs) != 3:
        return None
    if any(part not in constants for part in node.inputs):
        return None
    integers, step, zero = (constants[part] for part in node.inputs)
    return integers.astype(np.int64), zero.astype(np.int64), step / denominator, int(node.attributes.get("axis", 1))


def _observe(products: Sequence[JudgedProduct], quantized: Model, floats: Model, frame: Frame, budget: int) -> int:
    """Take the data and the errors of all products on a sample; return the multiplications that this took.

    Args:
        budget: multiplications that the columns may take.
    """
    names = {name for product in products for name in (product.node.inputs[0], product.result, product.biased)}
    made, true = (_observed(model, frame, names) for model in (quantized, floats))
    spent = 0
    for product in products:
        data, result, wanted = made.get(product.node.inputs[0]), made.get(product.result), true.get(product.result)
        if data is None or result is None or wanted is None:
            continue
        if not all(np.isfinite(array).all() for array in (data, result, wanted)):
            product.finite = False
            continue
        rows, errors = product.rows_of(result), product.rows_of(result).astype(np.float64) - product.rows_of(wanted)
        cost = product.columns * product.columns * product.groups * len(rows)
        if spent + cost <= budget:
            spent += cost
            _take_columns(product, product.columns_of(data), rows[0], product.rows_of(wanted))
        product.macs = product.columns * result.size
        product.own.append(errors.mean(axis=0))
        if product.biased in made and product.biased in true:
            exact = product.rows_of(true[product.biased]).astype(np.float64)
            product.means.append((product.rows_of(made[product.biased]) - exact).mean(axis=0))
            product.signal += float(np.square(exact).mean())
            product.rows_behind += len(exact)
    return spent


def _observed(model: Model, frame: Frame, names: set[str]) -> dict[str, np.ndarray]:
    kept: dict[str, np.ndarray] = {}

    def observe(name: str, value: Any) -> None:
        if name in names:
            kept[name] = value

    reference.run(model, frame, observe=observe)
    return kept


def _take_columns(product: JudgedProduct, columns: np.ndarray, first: np.ndarray, wanted: np.ndarray) -> None:
    """Add the rows of a sample to the sums of which the covariance is made.

    Args:
        columns: (groups, rows, columns).
        first: the first row of the result.
        wanted: all rows in floats.
    """
    weights = product.by_output((product.integers - product.zero) * product.step)
    sums = (columns[:, :1] @ weights.transpose(0, 2, 1)).reshape(-1)
    if not np.allclose(sums, first, rtol=1e-3, atol=1e-3 * float(np.abs(first).max(initial=0.0))):
        return  # it is no product of these weights alone
    product.frames, product.rows = product.frames + 1, product.rows + columns.shape[1]
    stride = -(-columns.shape[1] // MAX_ROWS)
    columns, count = columns[:, ::stride], len(wanted[::stride])
    missing = wanted[::stride].reshape(count, product.groups, -1).transpose(1, 0, 2)
    missing = missing - columns @ product.by_output(product.floats).transpose(0, 2, 1)
    turned = columns.transpose(0, 2, 1)
    product.total = product.total + columns.mean(axis=1, dtype=np.float64)
    product.square = product.square + (turned @ columns).astype(np.float64) / count
    product.missing = product.missing + missing.mean(axis=1)
    product.cross = product.cross + turned @ missing / count


def _rest(product: JudgedProduct, samples: int) -> Iterator[str]:
    """Judge the rest of each weight, in steps, once those behind it have made up for what they can."""
    if not product.frames:
        return
    mean, count = product.total / product.frames, product.columns
    covariance = product.square / product.frames - mean[:, :, None] * mean[:, None]
    size = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / count
    size = np.where(size > 0, size, 1.0)
    rows = min(product.rows // product.frames * samples, ROWS_OF_A_QUANTIZER)
    covariance = covariance / size
    cross = (product.cross / product.frames - mean[:, :, None] * (product.missing / product.frames)[:, None]) / size
    fitted = np.linalg.solve(covariance + RIDGE * (1 + count / rows) * np.eye(count), cross).transpose(0, 2, 1)
    covariance += (DAMPING + DAMPING_PER_COLUMN * count / rows) * np.eye(count)
    order = np.argsort(-np.diagonal(covariance, axis1=1, axis2=2), axis=1, kind="stable")
    error, weights, fit, inner = (
        np.take_along_axis(each, order[:, None], axis=2)
        for each in (
            product.by_output(product.integers - product.zero - product.floats / product.step),
            product.by_output(product.floats / product.step),
            fitted / product.by_output(product.step),
            product.by_output(
                (product.integers > product.integers.min()) & (product.integers < product.integers.max())
            ),
        )
    )
    turned = np.take_along_axis(np.take_along_axis(covariance, order[:, :, None], axis=1), order[:, None], axis=2)
    try:
        factor = np.linalg.cholesky(turned[:, ::-1, ::-1])[:, ::-1, ::-1]
    except np.linalg.LinAlgError:
        return
    rest, whole, moved = (
        (each @ factor / np.diagonal(factor, axis1=1, axis2=2)[:, None])[inner] for each in (error, weights, fit)
    )
    if len(rest) < MIN_WEIGHTS:
        return
    # Before they are rounded, weights may be fitted to data with an error of its own, which makes most of them smaller.
    causes = np.stack([np.ones(len(rest)), np.sign(weights[inner]), weights[inner], whole, moved], axis=1)
    inverse = np.linalg.pinv(causes.T @ causes)
    shares = inverse @ causes.T @ rest
    deviation = float((rest - causes @ shares).std())
    for number, way in enumerate((("down", "up"), ("towards 0", "away from 0"))):
        lost, chance = float(shares[number]), deviation * sqrt(max(0.0, float(inverse[number, number])))
        if abs(lost) > max(MAX_REST, DEVIATIONS * chance):
            yield (
                f"the weights of `{product.node.label}` must be rounded to nearest; they are rounded {way[lost > 0]}, "
                f"by {abs(lost):.2f} of a step on average"
            )


def _mean(product: JudgedProduct, samples: int) -> Iterator[str]:
    """Judge the mean errors of outputs behind the bias."""
    count = len(product.means)
    if count < MIN_MEANS or not product.finite:
        return
    left, own = (float(np.square(np.mean(means, axis=0)).mean()) for means in (product.means, product.own))
    if float(np.var(product.own, axis=0).mean()) <= SAME * own:
        return  # samples that are all the same say nothing of chance
    chance = float(np.var(product.means, axis=0, ddof=1).mean()) / count
    kept = 1.0 if product.floats.min() >= 0 else min(1.0, 2 * (PRIOR_ROWS / (product.rows_behind + PRIOR_ROWS)) ** 2)
    most = MAX_MEAN if count < samples else MAX_MEAN_OF_ALL
    allowed = kept * own + most * (1 + FEW_OUTPUTS / product.means[0].size) * chance
    if left > allowed + product.rounding + MIN_SHARE * product.signal / count:
        yield (
            f"the bias behind `{product.node.label}` must make up for the mean error of its outputs; {sqrt(left):.3g} "
            f"is left on {count} samples, {sqrt(own):.3g} with the float model's own bias, and chance makes "
            f"{sqrt(chance):.3g}"
        )
