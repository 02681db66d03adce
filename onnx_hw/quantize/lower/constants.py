"""Constants beside data: one value, or one per channel of the stream.

Before opset 7 the shorter operand was aligned by an attribute, not with the last axes.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_hw.onnx.model import Node
from onnx_hw.quantize.builder import Builder, Hardware, Obstacle


def per_channel(builder: Builder, data: Hardware, constant: np.ndarray) -> tuple[Fraction, ...]:
    """A constant that is broadcast to a value, as one entry per channel of the stream.

    Raises:
        Obstacle: it differs between pixels, or widens the value.
    """
    try:
        full = np.broadcast_to(constant, data.shape).reshape(-1)
    except ValueError:
        raise Obstacle(
            "broadcast", f"a constant {list(constant.shape)} must fit into the data {list(data.shape)}"
        ) from None
    if np.size(constant) == 1:
        return (full[0],)
    builder.settled(data)
    order = builder.stream_order(data)
    assert order is not None
    stream = full[order].reshape(-1, builder.tensors[data.tensor].channels)
    if (stream != stream[0]).any():
        raise Obstacle("constant-per-pixel", "a constant must be the same for all pixels of a channel")
    return tuple(stream[0])


def is_constant(builder: Builder, name: str) -> bool:
    """Whether a value is a constant, plain or quantized."""
    return builder.constant(name) is not None or name in builder.constants


def aligned(node: Node, constant: np.ndarray, rank: int) -> np.ndarray:
    """A constant with its axes where the operator before opset 7 puts them: from ``axis`` on, when it is given."""
    if "axis" not in node.attributes:
        return constant
    axis = int(node.attributes["axis"]) % rank
    return constant.reshape(constant.shape + (1,) * (rank - axis - constant.ndim))
