"""Constants that are broadcast to data, as one number per channel of its stream."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_hw.lower.network_builder import NetworkBuilder, StreamValue
from onnx_hw.lower.obstacle import PER_PIXEL, Obstacle


def per_channel(builder: NetworkBuilder, data: StreamValue, constant: np.ndarray) -> tuple[Fraction, ...]:
    """Return a constant that is broadcast to a value, as one entry or one per channel of the stream.

    The constant may have more axes in front, of length 1.

    Raises:
        Obstacle: the constant differs between pixels, or cannot be broadcast to the shape of the value.
    """
    constant = np.asarray(constant, dtype=object)
    while constant.ndim > len(data.shape) and constant.shape[0] == 1:
        constant = constant[0]
    kinds: dict[Fraction, int] = {}  # exact numbers are compared once, before they are broadcast
    kind = np.array([kinds.setdefault(number, len(kinds)) for number in constant.reshape(-1)], dtype=np.int64)
    try:
        full = np.broadcast_to(kind.reshape(constant.shape), data.shape).reshape(-1)
    except ValueError:
        raise Obstacle(
            "broadcast", f"a constant {list(constant.shape)} must fit into the data {list(data.shape)}"
        ) from None
    numbers = tuple(kinds)
    if np.size(constant) == 1:
        return numbers
    tensor = builder.materialize(data)
    channels = tensor.channels
    if data.is_complete:
        channel = builder.positions(data) % channels
    else:
        channel = builder.positions(data.whole(tensor.size))[data.where] % channels
    of_channel = np.full(channels, full[0])  # a channel without elements can have any number
    of_channel[channel] = full
    if (of_channel[channel] != full).any():
        raise Obstacle(PER_PIXEL, "a constant must be the same for all pixels of a channel")
    return tuple(numbers[k] for k in of_channel)
