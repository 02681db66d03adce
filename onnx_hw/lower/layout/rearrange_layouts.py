"""Orders of operand and result in which a rearrangement stores little, and rearrangements with other orders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.rearrange import Rearrange


def with_orders(operator: Rearrange, operand: Permutation | None, result: Permutation | None) -> Rearrange:
    """Return a rearrangement for other orders of its operand and its result; None for the present order."""
    if operand is not None:
        source = np.where(operator.source < 0, -1, operand.places[operator.source])
        operator = replace(operator, operand=replace(operator.operand, shape=operand.shape), source=source)
    if result is not None:
        operator = replace(operator, shape=result.shape, source=operator.source[result.source])
    return operator


def compose(first: Rearrange, second: Rearrange) -> Rearrange | None:
    """Return one rearrangement for two in a row; None where they insert different constants or leave only constants."""
    source = np.where(second.source < 0, -1, first.source[second.source])
    fills = {second.fill} if (second.source < 0).any() else set()
    if (source[second.source >= 0] < 0).any():
        fills.add(first.fill)
    if len(fills) > 1 or source.max() < 0:
        return None
    made = Rearrange(first.operand, second.shape, source, fills.pop() if fills else 0)
    return made.on_loop() if first.turns_are_rows and second.turns_are_rows else made


def orders_of_operand(operator: Rearrange) -> Iterator[Permutation]:
    """Orders of the operand in which it is read from front to back."""
    source, size, channels = operator.source, operator.operand.size, operator.shape[2]
    if _exchanges(operator):
        yield Permutation(operator.shape, source)
        return
    (positions,) = np.nonzero(source >= 0)
    used, first = np.unique(source[positions], return_index=True)
    later = np.setdiff1d(np.arange(size), used, assume_unique=True)
    order = np.concatenate([used[np.argsort(first)], later])
    rows = np.unique(positions[first] // (operator.shape[1] * channels)).size
    if size % (rows * channels) == 0:
        yield Permutation((rows, size // rows // channels, channels), order)
    elif size % channels == 0:
        yield Permutation((1, size // channels, channels), order)
    else:
        yield Permutation((1, 1, size), order)


def orders_of_result(operator: Rearrange) -> Iterator[Permutation]:
    """Orders of the result in which the operand is read from front to back, with constants spread evenly between."""
    source, size, channels = operator.source, operator.source.size, operator.shape[2]
    if _exchanges(operator):
        yield Permutation(operator.operand.shape, np.argsort(source))
        return
    for unit in dict.fromkeys((channels, 1)):
        units = source.reshape(-1, unit)
        first = np.where(units < 0, operator.operand.size, units).min(axis=1)
        read = first < operator.operand.size
        when = np.empty(len(first))
        when[read] = (np.argsort(np.argsort(first[read], kind="stable")) + 0.5) / max(1, read.sum())
        when[~read] = (np.arange((~read).sum()) + 0.5) / max(1, (~read).sum())
        order = np.argsort(when, kind="stable")[:, None] * unit + np.arange(unit)
        yield Permutation((1, size // channels, channels), order.reshape(-1))


def _exchanges(operator: Rearrange) -> bool:
    """Return whether each element of the operand is in the result exactly once, and nothing else is."""
    source = operator.source
    return source.size == operator.operand.size and bool((np.bincount(source[source >= 0], minlength=1) == 1).all()
                                                         and (source >= 0).all())  # fmt: skip
