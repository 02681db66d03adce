"""Synthetic frames to try a model without data: random numbers, in the type of every input."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model, Value
from onnx_hw.onnx.operators.dtypes import dtype_of_name, integer_range, is_integer, to_model_dtype
from onnx_hw.quantization.ranges.calibrate import Range

FRAMES = 8
MAX_ELEMENTS = 1 << 24
"""Greatest number of elements of all frames together: large inputs get fewer frames, but at least one."""

SEED = 1

WIDE_TYPES = frozenset(("int16", "uint16", "int32", "uint32", "int64", "uint64"))

GREATEST_TRIED = (255, 9, 1, 0)
"""Greatest integers, tried in this order, for types of more than 8 bits: they may be indices or lengths, and the model
must run with them.
"""


def range_of_input(element_type: str, greatest: int = GREATEST_TRIED[0]) -> Range:
    """Return the range of an input: floats lie in 0..1, small integers anywhere, wider ones in 0..``greatest``."""
    dtype = dtype_of_name(element_type)
    if not is_integer(dtype):
        return Range(0.0, 1.0)
    low, high = integer_range(dtype)
    return Range(float(low), float(high)) if high <= 255 else Range(0.0, float(greatest))


def synthetic_frames(model: Model) -> dict[str, np.ndarray]:
    """Return frames of seeded random numbers by graph input, (frames, *shape), in the dtypes in which a model holds
    them.

    Real data gives better scales.

    Raises:
        UserError: the model runs with none of them.
    """
    size = sum(prod(_shape(value)) for value in model.graph.inputs)
    count = max(1, min(FRAMES, MAX_ELEMENTS // max(size, 1)))
    for greatest in GREATEST_TRIED:
        generator = np.random.Generator(np.random.PCG64(SEED))
        frames = {value.name: _drawn(value, count, generator, greatest) for value in model.graph.inputs}
        if all(value.element_type not in WIDE_TYPES for value in model.graph.inputs):
            break
        try:
            reference.run(model, {name: array[0] for name, array in frames.items()})
            break
        except UserError:
            if greatest == GREATEST_TRIED[-1]:
                raise
    return frames


def _shape(value: Value) -> tuple[int, ...]:
    return tuple(length if isinstance(length, int) else 1 for length in value.shape or ())


def _drawn(value: Value, count: int, generator: np.random.Generator, greatest: int) -> np.ndarray:
    shape = (count, *_shape(value))
    dtype = dtype_of_name(value.element_type)
    if dtype.kind == "b":
        return generator.random(shape) < 0.5
    if is_integer(dtype):
        span = range_of_input(value.element_type, greatest)
        return to_model_dtype(generator.integers(int(span.low), int(span.high), shape, endpoint=True).astype(dtype))
    return to_model_dtype(generator.random(shape, dtype=np.float32).astype(dtype))
