"""Arguments that tell a function of one integer from any other of its kind: what a circuit of it is to be shown.

Of a step function both sides of every threshold and both ends of the reachable range; of a table every place. Beside
them numbers all over the range, so that every bit of an argument is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import Any, Protocol

import numpy as np

from onnx_hw.exact.requantization import Requantizer
from onnx_hw.exact.steps import Steps
from onnx_hw.exact.tables import Table
from onnx_hw.order import Order
from onnx_hw.tensor import Tensor

FRAMES = 2
MOST_ARGUMENTS = 2048
"""Of a channel. Functions with more thresholds are shown some of them, evenly chosen."""
SPREAD = 16


class _Elementwise(Protocol):
    @property
    def operand(self) -> Tensor: ...
    def takes(self, folding: Any) -> tuple[Order, ...]: ...
    def illegal(self, folding: Any) -> str: ...


@dataclass(frozen=True)
class Telling:
    """What an operator is to be shown.

    Attributes:
        operator: the same one, of an image in which the arguments fit; None where its folding allows no such image.
        frames: (frames, 1, pixels, channels) int64, the arguments.
        thresholds, of_thresholds: of all functions, those of which both sides are among the arguments, and all.
        places, of_places: the same of the places of tables.
    """

    operator: Any
    frames: np.ndarray
    thresholds: int = 0
    of_thresholds: int = 0
    places: int = 0
    of_places: int = 0


def of_steps(operator: _Elementwise, folding: Any, exact: Steps, circuit: Requantizer) -> Telling:
    """For a step function.

    Args:
        circuit: of it, which may be a table.
    """
    (first, last), rows, told, real, places, of_places = operator.operand.range, [], 0, 0, 0, 0
    for thresholds in exact.thresholds:
        inner = np.unique(thresholds[(thresholds > first) & (thresholds <= last)])
        shown = inner[:: 1 + 2 * len(inner) // MOST_ARGUMENTS]
        row = [shown, shown - 1]
        real, told = real + len(inner), told + len(shown)
        if isinstance(circuit, Table):
            inside = np.arange(max(first, circuit.clamp.min), min(last, circuit.clamp.max) + 1)
            row.append(inside[:: 1 + len(inside) // MOST_ARGUMENTS])
            places, of_places = places + len(row[-1]), of_places + len(inside)
        rows.append(_with_spread(np.concatenate(row), first, last))
    return _shown(operator, folding, rows, Telling(None, np.zeros(0), told, real, places, of_places))


def of_table(operator: _Elementwise, folding: Any, functions: int) -> Telling:
    """For a table of every argument, of so many functions."""
    first, last = operator.operand.range
    every = np.arange(first, last + 1)
    shown = every[:: 1 + len(every) // MOST_ARGUMENTS]
    counts = Telling(None, np.zeros(0), places=functions * len(shown), of_places=functions * len(every))
    return _shown(operator, folding, [_with_spread(shown, first, last)], counts)


def _with_spread(arguments: np.ndarray, first: int, last: int) -> np.ndarray:
    """(n,) int64, ascending: those, and some all over the range with both its ends."""
    spread = [first + (last - first) * k // (SPREAD - 1) for k in range(SPREAD)]
    return np.unique(np.concatenate([arguments, spread]).astype(np.int64))


def _shown(operator: _Elementwise, folding: Any, rows: Sequence[np.ndarray], counts: Telling) -> Telling:
    """The counts with the frames; arguments that are fewer than those of another channel are shown again."""
    channels = operator.operand.channels
    beside = lcm(folding.pixels, getattr(folding, "tile", 0) or 1)
    pixels = -(-max(map(len, rows)) // (FRAMES * beside)) * beside
    columns = np.stack([np.resize(row, FRAMES * pixels) for row in rows], axis=1)
    frames = np.broadcast_to(columns, (FRAMES * pixels, channels)).reshape(FRAMES, 1, pixels, channels)
    wide: Any = replace(operator, operand=replace(operator.operand, shape=(1, pixels, channels)))  # type: ignore[type-var]
    return replace(counts, operator=None if wide.illegal(folding) else wide, frames=frames)
