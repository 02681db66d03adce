"""Statistics of the values of tensors for given frames: use of the range, and share that is cut off at its ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from re import sub
from typing import Annotated

import numpy as np

from onnx_hw.ir.network import Network
from onnx_hw.samples.samples import frame_count

MAX_MACS = 100_000_000
"""Number of multiply-accumulates of all frames that are looked at: about a second of golden."""

MAX_VALUES = 10_000_000
"""Number of values of all tensors and frames, which are computed together."""

MAX_FRAMES = 64
BINS = 16  # of the histogram


@dataclass(frozen=True)
class ValueStatistics:
    """Statistics of the integers of a tensor for the samples of the user."""

    frames: Annotated[int, "frames that were looked at"]
    low: Annotated[int, "the least integer"]
    high: Annotated[int, "the greatest integer"]
    at_low: Annotated[float, "share of the integers at the lower end of the range, where numbers are cut off, 0..1"]
    at_high: Annotated[float, "share of the integers at the upper end of the range, 0..1"]
    histogram: Annotated[str, "one digit for every 16th of the range: 0 for no integer, 9 for the most frequent 16th"]


def value_statistics(network: Network, frames: Mapping[str, np.ndarray] | None) -> dict[str, ValueStatistics]:
    """Return the statistics by tensor for samples by graph input, (frames, *shape); empty without them."""
    if not frames:
        return {}
    from onnx_hw.ir import golden

    macs = sum(node.operator.macs for node in network.nodes)
    size = sum(tensor.size for tensor in network.tensors.values())
    affordable = max(1, min(MAX_MACS // max(1, macs), MAX_VALUES // size))
    count = min(frame_count(frames), MAX_FRAMES, affordable)
    integers = golden.integers_of(network, {name: array[:count] for name, array in frames.items()})
    statistics = {name: _statistics(network, name, values, count) for name, values in golden.walk(network, integers)}
    return {name: statistics[name] for name in network.tensors}


def _statistics(network: Network, name: str, values: np.ndarray, frames: int) -> ValueStatistics:
    grid, type_ = network.grids.get(name), network.tensors[name].dtype
    low, high = (type_.min, type_.max) if grid is None else (grid.low, grid.high)
    edges = np.linspace(low - 0.5, high + 0.5, BINS + 1)
    counts = np.histogram(values, edges)[0]
    digits = np.where(counts > 0, np.clip(np.rint(9 * counts / max(1, counts.max())), 1, 9), 0).astype(int)
    at_low, at_high = (round(float((values == end).mean()), 6) for end in (low, high))
    return ValueStatistics(frames, int(values.min()), int(values.max()), at_low, at_high, "".join(map(str, digits)))


def sqnr_of(network: Network, known: Mapping[str, float | None]) -> dict[str, float | None]:
    """Return the signal to noise ratio of tensors, dB, from that of the model's values that they hold, by name.

    It is None where nothing differs.
    """
    named = {boundary.tensor: sub(r"/u?int\d+$", "", boundary.onnx_name) for boundary in network.held}
    return {tensor: known[name] for tensor, name in named.items() if name in known}
