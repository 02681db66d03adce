"""Scales and zero points of operators on integers: one for all, or one for each row, column or channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from onnx_hw.onnx.operators.tensor_type import TensorType

Rule = Callable[..., Any]


def check_scales(
    rule: Rule, *, one: tuple[int, ...] = (), along: Mapping[int, tuple[int, int]] | None = None, rest: bool = False
) -> Rule:
    """Check the inputs that are scales and zero points, then apply a type rule.

    Args:
        one: numbers of the inputs that must have a single element.
        along: numbers of inputs that may also have one per entry of an axis of their data: (its number, the axis).
        rest: whether after those in ``one`` come triples: data, and two of a single element.

    Raises:
        ValueError: (the rule) a scale or zero point has another shape.
    """

    @wraps(rule)
    def checked(*inputs: TensorType | None, **attributes: Any) -> Any:
        last = len(one)
        singles = (*one, *(k for k in range(last, len(inputs)) if (k - last) % 3)) if rest else one
        for k in singles:
            scale = inputs[k] if k < len(inputs) else None
            if scale is not None and scale.size != 1:
                raise ValueError(f"input {k}, a scale or zero point, must be a scalar, not {list(scale.shape)}")
        for k, (data, axis) in (along or {}).items():
            scale, tensor = (inputs[n] if n < len(inputs) else None for n in (k, data))
            if scale is not None and tensor is not None:
                check_entries(k, scale, tensor, axis)
        return rule(*inputs, **attributes)

    return checked


def check_entries(number: int, scale: TensorType, data: TensorType, axis: int) -> None:
    """Check that there is one for all, or one per entry of an axis.

    The axes -1 and -2 are columns and rows of matrices, each of which may have its own.

    Raises:
        ValueError: the shape is neither.
    """
    if scale.size == 1:
        return
    if data.ndim > axis >= -data.ndim:
        entries = data.shape[axis]
        other = -1 if axis == -2 else -2
        whole = tuple(1 if k - data.ndim == other else n for k, n in enumerate(data.shape))
        if scale.shape == (entries,) or (axis < 0 and data.ndim > 1 and scale.shape == whole):
            return
        raise ValueError(
            f"input {number}, a scale or zero point, must be a scalar or have {entries} entries, not the shape "
            f"{list(scale.shape)}"
        )
    raise ValueError(f"input {number}, a scale or zero point, must be a scalar for data of shape {list(data.shape)}")
