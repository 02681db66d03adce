"""Beats of a stream as bytes, and back: see ``LinkPort``."""

from __future__ import annotations

import numpy as np

from onnx_hw_link.link import LinkPort

__all__ = ["frame_of", "integers_of"]


def frame_of(port: LinkPort, beats: np.ndarray) -> bytes:
    """Return the bytes of (beats, width) integers as they travel."""
    if port.bits == 1:
        return np.packbits(beats.astype(np.uint8) & 1, axis=1, bitorder="little").tobytes()
    size = port.place_bits // 8
    wide = np.ascontiguousarray(beats, dtype="<i8").view(np.uint8).reshape(-1, 8)
    return wide[:, :size].tobytes()


def integers_of(port: LinkPort, data: bytes) -> np.ndarray:
    """Return the (beats, width) int64 of the bytes of a frame."""
    raw = np.frombuffer(data, dtype=np.uint8)
    if port.bits == 1:
        bits = np.unpackbits(raw.reshape(port.beats, -1), axis=1, bitorder="little")[:, : port.width].astype(np.int64)
        return -bits if port.signed else bits
    size = port.place_bits // 8
    wide = np.zeros((port.beats * port.width, 8), dtype=np.uint8)
    wide[:, :size] = raw.reshape(-1, size)
    values = wide.view("<i8").reshape(port.beats, port.width)
    above = 64 - port.place_bits
    return (values << above) >> above if port.signed else values
