"""PreviousStep: the value of the step before, in a loop over time; it only stands between a model and its circuit."""

from __future__ import annotations

from onnx_hw.onnx.graph.loops import DELAY
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import TensorType


def previous_type(initial: TensorType, *, of: str, axis: int, steps: int) -> TensorType:
    if initial.shape[axis] != 1:
        raise ValueError(f"the initial value of `{of}` must have one step on axis {axis}, not {initial.shape[axis]}")
    return initial.with_shape((*initial.shape[:axis], steps, *initial.shape[axis + 1 :]))


@operator(since=1, domain=DELAY[0], types=previous_type, stateless=False, facts=Facts(Effect.KEEPS))
def PreviousStep(initial: Array, *, of: str, axis: int, steps: int) -> Array:
    """Stand for the value ``of``, one step later along ``axis``; ``initial`` is that of the first of ``steps``.

    The value is not an input, since its producer reads this one: an evaluation of the graph runs the loop.

    Raises:
        ValueError: always, because a node alone does not know the value.
    """
    shape = previous_type(TensorType(initial.dtype, initial.shape), of=of, axis=axis, steps=steps).shape
    raise ValueError(f"`{of}`, of the shape {list(shape)}, is only known where the whole loop is run")
