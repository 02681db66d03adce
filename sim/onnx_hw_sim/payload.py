"""Packing of lanes of integers into bits. Lane 0 is in the lowest bits; bytes are little endian."""

from __future__ import annotations

import numpy as np

MAX_BITS = 62

_MAX_BITS_IN_EIGHT_BYTES = 57
"""Widest lane that lies within eight bytes, wherever in a byte it begins."""


def pack(tokens: np.ndarray, bits: int) -> np.ndarray:
    """Pack (tokens, lanes) int64 into (tokens, ⌈lanes · bits / 8⌉) uint8: the low ``bits`` of every value, side by
    side.

    Bits above the payload are 0.
    """
    _check(bits)
    count, lanes = tokens.shape
    as_bytes = np.ascontiguousarray(tokens, dtype="<i8").view(np.uint8).reshape(count, lanes, 8)
    as_bits = np.unpackbits(as_bytes, axis=2, bitorder="little", count=bits)
    return np.packbits(as_bits.reshape(count, lanes * bits), axis=1, bitorder="little")


def unpack(payload: np.ndarray, lanes: int, bits: int, signed: bool) -> np.ndarray:
    """Unpack (tokens, at least ⌈lanes · bits / 8⌉) uint8 into (tokens, lanes) int64: the inverse of ``pack``."""
    _check(bits)
    if bits in (8, 16, 32):
        in_bytes = np.ascontiguousarray(payload[:, : lanes * bits // 8])
        return in_bytes.view(f"<{'i' if signed else 'u'}{bits // 8}").astype(np.int64)
    if bits > _MAX_BITS_IN_EIGHT_BYTES:
        as_bits = np.unpackbits(payload, axis=1, bitorder="little", count=lanes * bits).reshape(-1, lanes, bits)
        upper = np.repeat(as_bits[:, :, -1:] * signed, 64 - bits, axis=2)
        whole = np.packbits(np.concatenate([as_bits, upper], axis=2), axis=2, bitorder="little")
        return whole.view("<i8").reshape(-1, lanes).astype(np.int64)
    first = np.arange(lanes) * bits
    width = int(first[-1]) // 8 + 8
    padded = np.zeros((payload.shape[0], width), dtype=np.uint8)
    used = min(width, payload.shape[1])
    padded[:, :used] = payload[:, :used]
    # The eight bytes that begin at every byte: they hold any lane, at most 7 bits before it and 57 of its own.
    windows = np.ndarray((len(padded), width - 7), dtype="<i8", buffer=padded, strides=(width, 1))
    words = windows[:, first // 8]
    above = 64 - bits
    lifted = words << (above - first % 8)
    return lifted >> above if signed else (lifted.view(np.uint64) >> np.uint64(above)).view(np.int64)


def idle(lanes: int, bits: int) -> np.ndarray:
    """Return what a source drives while ``valid`` is low, alternating bits: (⌈lanes · bits / 8⌉,) uint8.

    A circuit that reads a payload without reading ``valid`` must not find the token it hopes for.
    """
    return np.packbits(np.arange(lanes * bits) % 2, bitorder="little")


def check_range(tokens: np.ndarray, bits: int, signed: bool, stream: str) -> None:
    """Raise ValueError unless every value fits its lane; a truncated value would look like an error of the circuit."""
    if tokens.size == 0:
        return
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if int(tokens.min()) < low or int(tokens.max()) > high:
        raise ValueError(
            f"tokens of `{stream}` must lie in {low}..{high}, not in {int(tokens.min())}..{int(tokens.max())}"
        )


def _check(bits: int) -> None:
    if not 1 <= bits <= MAX_BITS:
        raise ValueError(f"a lane must have 1 to {MAX_BITS} bits, not {bits}")
