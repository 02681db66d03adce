"""Frames on which golden and the model are compared (link 2): given ones first, drawn ones if these are too few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

import numpy as np

from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.dtypes import dtype_of_name, integer_range, is_integer, to_model_dtype
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect

MIN_FRAMES = 4
"""Least number of frames that every build compares."""

SEED = 8

RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0), (-128.0, 127.0), (0.0, 9.0), (0.0, 0.0))
"""Tried ranges of inputs: of images and the like, and of indices."""

BEYOND_ANY_GRID = 2.0**96
"""Number beyond every grid."""

NUMBERS = frozenset(name for name, of in BY_NAME.items() if of.dtype.kind in "fiub")
"""Element types that can be drawn."""

Frames = Mapping[str, np.ndarray]


def frames_to_compare(model: Model, network: Network, given: Frames | None) -> tuple[list[dict[str, np.ndarray]], int]:
    """Return frames by graph input, the ``given`` ones (or None) and then drawn ones, and the number of given ones."""
    first = [] if given is None else _one_by_one(given)[:MIN_FRAMES]
    drawn = drawn_frames(model, network, MIN_FRAMES - len(first)) if len(first) < MIN_FRAMES else None
    return [*first, *(_one_by_one(drawn) if drawn is not None else ())], len(first)


def _one_by_one(frames: Frames) -> list[dict[str, np.ndarray]]:
    count = min((len(array) for array in frames.values()), default=0)
    return [{name: array[k] for name, array in frames.items()} for k in range(count)]


def drawn_frames(model: Model, network: Network, count: int) -> Frames | None:
    """Draw seeded random frames, in the range that makes the most different integers.

    None where no such frame can be run: an input is not a numeric tensor, or the model refuses the numbers.
    """
    if any(value.element_type not in NUMBERS for value in model.graph.inputs):
        return None
    best: tuple[int, Frames] | None = None
    for ranges in ranges_to_draw(model.graph):
        generator = np.random.Generator(np.random.PCG64(SEED))
        try:
            pairs = zip(model.graph.inputs, ranges, strict=True)
            frames = {value.name: _drawn(value, span, count, generator) for value, span in pairs}
            integers = golden.integers_of(network, frames)
        except UserError:
            continue
        different = sum(len(np.unique(array)) for array in integers.values())
        if best is None or different > best[0]:
            best = different, frames
    return None if best is None else best[1]


def ranges_to_draw(graph: Graph) -> Iterator[Sequence[tuple[float, float]]]:
    """Return a range for every input: first the one of its integers, where the model states it."""
    stated = [_stated_range(graph, value) for value in graph.inputs]
    for other in RANGES:
        yield [other if span is None else span for span in stated]
    for other in RANGES:
        yield [other] * len(stated)


def _stated_range(graph: Graph, value: Value) -> tuple[float, float] | None:
    """Return the range of the QuantizeLinear behind an input, or of a small integer; None for neither."""
    of = BY_NAME.get(value.element_type)
    if of is not None and of.is_integer and of.bits < 32:
        return _ends(value)
    same = {value.name}
    for node in graph.nodes:
        if not node.inputs or node.inputs[0] not in same:
            continue
        if facts_of(node).effect is Effect.KEEPS:
            same.update(node.outputs)
        elif facts_of(node).effect is Effect.SNAPS:
            return _on_grid(node, graph, value)
        elif facts_of(node).effect is Effect.QUANTIZES:
            scale, zero = (graph.constants.get(name) for name in (*node.inputs[1:], "")[:2])
            known = graph.values.get(node.outputs[0])
            if scale is None or scale.size != 1 or known is None or not is_integer(dtype_of_name(known.element_type)):
                return None
            middle = 0.0 if zero is None else float(zero.reshape(-1)[0])
            low, high = sorted((end - middle) * float(scale.reshape(-1)[0]) for end in _ends(known))
            return (low, high) if isfinite(high - low) else None
    return None


def _on_grid(node: Node, graph: Graph, value: Value) -> tuple[float, float] | None:
    """Return the range of a quantizer behind an input, if it keeps the ends of the range as they are; else None."""
    names = [name for name in node.inputs[1:] if name]
    if any(name not in graph.constants for name in names) or not all(isinstance(n, int) for n in value.shape or ()):
        return None
    given = [graph.constants[name] for name in names]
    shape = graph.values[node.inputs[0]].shape or ()
    ends = [
        compute(node, [np.full(shape, end, dtype=np.float32), *given])[0] for end in (-BEYOND_ANY_GRID, BEYOND_ANY_GRID)
    ]
    kept = all(np.array_equal(compute(node, [end, *given])[0], end) for end in ends)
    low, high = float(ends[0].min()), float(ends[1].max())
    return (low, high) if kept and -BEYOND_ANY_GRID < low < high < BEYOND_ANY_GRID else None


def _ends(value: Value) -> tuple[float, float]:
    low, high = integer_range(dtype_of_name(value.element_type))
    return float(low), float(high)


def _drawn(value: Value, span: tuple[float, float], count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw numbers of an input's type, uniformly from a range, (count, *shape)."""
    shape = (count, *(d if isinstance(d, int) else 1 for d in value.shape or ()))
    numbers = generator.uniform(*span, shape)
    if value.element_type == "bool":
        return numbers > sum(span) / 2
    dtype = dtype_of_name(value.element_type)
    if is_integer(dtype):
        low, high = integer_range(dtype)
        return np.asarray(to_model_dtype(np.clip(np.rint(numbers), low, high).astype(dtype)))
    return np.asarray(to_model_dtype(numbers.astype(dtype)))
