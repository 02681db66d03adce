"""Scales and zero points of operators on integers: one for all, or one for each row, column or channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from onnx_hw.onnx.operators.tensor_type import TensorType

Rule = Callable[..., Any]


def scaled(
    rule: Rule, *, one: tuple[int, ...] = (), along: Mapping[int, tuple[int, int]] | None = None, rest: bool = False
) -> Rule:
    """The type rule of a node, some of whose inputs are scales and zero points.

    Args:
        one: numbers of the inputs that must have a single element.
        along: numbers of inputs that may also have one per entry of an axis of their data: (its number, the axis).
        rest: after those in ``one`` come triples: data, and two of a single element.

    Raises:
        ValueError: (the rule) one has another shape.
    """

    @wraps(rule)
    def checked(*inputs: TensorType | None, **attributes: Any) -> Any:
        last = len(one)
        singles = (*one, *(k for k in range(last, len(inputs)) if (k - last) % 3)) if rest else one
        for k in singles:
            given = inputs[k] if k < len(inputs) else None
            if given is not None and given.size != 1:
                raise ValueError(f"input {k}, a scale or zero point, must be a scalar, not {list(given.shape)}")
        for k, (data, axis) in (along or {}).items():
            given, of = (inputs[n] if n < len(inputs) else None for n in (k, data))
            if given is not None and of is not None:
                check_entries(k, given, of, axis)
        return rule(*inputs, **attributes)

    return checked


def check_entries(number: int, given: TensorType, data: TensorType, axis: int) -> None:
    """One for all, or one per entry of an axis; -1 and -2 are columns and rows of matrices, each of which may have own.

    Raises:
        ValueError: neither.
    """
    if given.size == 1:
        return
    if data.ndim > axis >= -data.ndim:
        entries = data.shape[axis]
        other = -1 if axis == -2 else -2
        whole = tuple(1 if k - data.ndim == other else n for k, n in enumerate(data.shape))
        if given.shape == (entries,) or (axis < 0 and data.ndim > 1 and given.shape == whole):
            return
        raise ValueError(
            f"input {number}, a scale or zero point, must be a scalar or have {entries} entries, not the shape "
            f"{list(given.shape)}"
        )
    raise ValueError(f"input {number}, a scale or zero point, must be a scalar for data of shape {list(data.shape)}")
