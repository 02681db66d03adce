"""Tensors as streams: how the integers of a frame are laid out in beats."""

from __future__ import annotations

import numpy as np


def to_beats(array: np.ndarray, lanes: int) -> np.ndarray:
    """Cut (frames, height, width, channels) into beats (tokens, lanes): pixel by pixel, channel innermost.

    The unused lanes of a ragged last beat of a pixel are 0.
    """
    channels = array.shape[-1]
    per_pixel = -(-channels // lanes)
    flat = array.reshape(-1, channels)
    padded = np.zeros((flat.shape[0], per_pixel * lanes), dtype=np.int64)
    padded[:, :channels] = flat
    return padded.reshape(-1, lanes)


def used_lanes(channels: int, lanes: int, tokens: int) -> np.ndarray:
    """(tokens, lanes) bool: which lanes of consecutive beats carry a value."""
    per_pixel = -(-channels // lanes)
    pixel = (np.arange(per_pixel * lanes) < channels).reshape(per_pixel, lanes)
    return np.tile(pixel, (-(-tokens // per_pixel), 1))[:tokens]


def from_beats(beats: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Inverse of ``to_beats``: (tokens, lanes) to (frames, height, width, channels)."""
    height, width, channels = shape
    per_pixel = -(-channels // beats.shape[1])
    return beats.reshape(-1, per_pixel * beats.shape[1])[:, :channels].reshape(-1, height, width, channels)
