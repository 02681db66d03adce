"""What tensors hold for given frames: how much of their range is used, and how much is cut off at its ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from re import sub
from typing import Annotated

import numpy as np

from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.samples.read_samples import frame_count

MACS_AT_MOST = 100_000_000
"""Of all frames that are looked at: about a second of golden."""

VALUES_AT_MOST = 10_000_000
"""Of all tensors and frames, for they are all there at once."""

FRAMES_AT_MOST = 64
BINS = 16


@dataclass(frozen=True)
class ValueStatistics:
    """The integers of a tensor for the samples of the user."""

    frames: Annotated[int, "frames that were looked at"]
    low: Annotated[int, "the least integer there was"]
    high: Annotated[int, "the greatest one"]
    at_low: Annotated[float, "share of the integers at the lower end of the range, 0..1: there, numbers are cut off"]
    at_high: Annotated[float, "share of the integers at the upper end of the range, 0..1"]
    histogram: Annotated[str, "a digit for every 16th of the range: 0 for nothing, 9 for where most integers lie"]


def values_seen(network: Network, frames: Mapping[str, np.ndarray] | None) -> dict[str, ValueStatistics]:
    """By tensor; none without frames.

    Args:
        frames: by graph input, (frames, *shape).
    """
    if not frames:
        return {}
    macs = sum(node.operator.macs for node in network.nodes)
    size = sum(tensor.size for tensor in network.tensors.values())
    affordable = max(1, min(MACS_AT_MOST // max(1, macs), VALUES_AT_MOST // size))
    count = min(frame_count(frames), FRAMES_AT_MOST, affordable)
    values = golden.trace(network, golden.integers_of(network, {name: array[:count] for name, array in frames.items()}))
    return {name: _seen(network, name, values[name], count) for name in network.tensors}


def _seen(network: Network, name: str, values: np.ndarray, frames: int) -> ValueStatistics:
    grid, type_ = network.grids.get(name), network.tensors[name].dtype
    low, high = (type_.min, type_.max) if grid is None else (grid.low, grid.high)
    edges = np.linspace(low - 0.5, high + 0.5, BINS + 1)
    counts = np.histogram(values, edges)[0]
    digits = np.where(counts > 0, np.clip(np.rint(9 * counts / max(1, counts.max())), 1, 9), 0).astype(int)
    at_low, at_high = (round(float((values == end).mean()), 6) for end in (low, high))
    return ValueStatistics(frames, int(values.min()), int(values.max()), at_low, at_high, "".join(map(str, digits)))


def sqnr_of(network: Network, known: Mapping[str, float | None]) -> dict[str, float | None]:
    """Signal to noise of tensors, from that of the model's values whose quantization they hold.

    Args:
        known: dB by name of the value; None where nothing differs.
    """
    named = {boundary.tensor: sub(r"/u?int\d+$", "", boundary.onnx_name) for boundary in network.held}
    return {tensor: known[name] for tensor, name in named.items() if name in known}
