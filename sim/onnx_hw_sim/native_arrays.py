"""Inputs and results of a compiled simulation as numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from onnx_hw_sim.circuit import Stream
from onnx_hw_sim.payload import idle, pack


def bytes_at(address: int | None, size: int) -> np.ndarray:
    """Return the bytes at an address, (size,) uint8, without a copy."""
    if not size or not address:
        return np.zeros(0, dtype=np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def rows_to_offer(source: Stream, tokens: np.ndarray, row: int) -> np.ndarray:
    """Return each token's payload of ``row`` bytes, and that which is driven without one: (tokens + 1, row) uint8."""
    rows = np.zeros((len(tokens) + 1, row), dtype=np.uint8)
    used = -(-source.width // 8)
    rows[:-1, :used] = pack(tokens, source.bits)
    rows[-1, :used] = idle(source.lanes, source.bits)
    return rows


def firings(engines: Sequence[str], rows: np.ndarray, first: int = 0) -> dict[str, np.ndarray]:
    """Return the cycles in which each engine fired.

    Args:
        rows: (cycles, bytes) uint8, a bit per engine.
        first: cycle of the first row.
    """
    columns = np.ascontiguousarray(rows.T)  # a column holds eight engines and is read eight times
    return {
        engine: np.flatnonzero((columns[k // 8] >> k % 8 & 1).view(bool)) + first for k, engine in enumerate(engines)
    }
