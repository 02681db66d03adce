"""The words of a core whose constants belong to channels: which channel each lane has, beat by beat of a pixel."""

from __future__ import annotations

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.ops.stream_order import UNUSED, Order
from onnx_hw.ops.tensor import Tensor


def channel_words(operand: Tensor, lanes: int) -> Order:
    """The words; their elements are the numbers of the channels."""
    channels = operand.channels
    return Order(Tensor((1, 1, channels), Int.holding(0, channels - 1)), lanes)


def channels_of(words: Order) -> np.ndarray:
    """(words, lanes) int64: the channels; in unused places the last one, whose constants are there anyway."""
    return np.where(words.elements == UNUSED, words.tensor.channels - 1, words.elements)
