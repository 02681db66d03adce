"""Beats of streams as bytes, and back: frames of a link, in which each integer takes its own bits, and transfers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_hw_link.link import LinkPort, frame_bytes

__all__ = ["from_transfers", "in_turns", "out_of_turns", "to_transfers"]

Turns = Sequence[tuple[int, int]]


def in_turns(ports: tuple[LinkPort, ...], turns: Turns, beats: Sequence[np.ndarray]) -> bytes:
    """Return the bytes of a frame: (beats, width) integers of each stream, in the order in which they travel."""
    at, parts = [0] * len(ports), []
    for k, count in turns:
        part = beats[k][at[k] : at[k] + count].reshape(-1).astype("<i8")
        at[k] += count
        size, rest = divmod(ports[k].bits, 8)
        raw = part.view(np.uint8).reshape(-1, 8)
        if rest:
            parts.append(np.unpackbits(raw, axis=1, count=ports[k].bits, bitorder="little").reshape(-1))
        else:
            parts.append(raw[:, :size].reshape(-1))
    if all(port.bits % 8 == 0 for port in ports):
        return np.concatenate(parts).tobytes()
    bits = [part if ports[k].bits % 8 else _bits(part) for (k, _), part in zip(turns, parts, strict=True)]
    return np.packbits(np.concatenate(bits), bitorder="little").tobytes()


def out_of_turns(ports: tuple[LinkPort, ...], turns: Turns, data: bytes) -> list[np.ndarray]:
    """Return the (beats, width) int64 of each stream from the bytes of a frame."""
    bits = _bits(np.frombuffer(data, dtype=np.uint8, count=frame_bytes(ports)))
    streams: list[list[np.ndarray]] = [[] for _ in ports]
    at = 0
    for k, count in turns:
        size = count * ports[k].beat_bits
        streams[k].append(bits[at : at + size])
        at += size
    return [_integers(port, np.concatenate(parts)) for port, parts in zip(ports, streams, strict=True)]


def _bits(data: np.ndarray) -> np.ndarray:
    return np.unpackbits(data, bitorder="little")


def _integers(port: LinkPort, bits: np.ndarray) -> np.ndarray:
    """Return the (beats, width) int64 whose bits stand side by side."""
    wide = np.zeros((port.beats * port.width, 64), dtype=np.uint8)
    wide[:, : port.bits] = bits.reshape(-1, port.bits)
    values = np.packbits(wide, axis=1, bitorder="little").view("<i8").reshape(port.beats, port.width)
    return _signed(port, values, port.bits)


def _signed(port: LinkPort, values: np.ndarray, bits: int) -> np.ndarray:
    above = 64 - bits
    return (values << above) >> above if port.signed else values


def to_transfers(port: LinkPort, beats: np.ndarray) -> bytes:
    """Return the bytes of (beats, width) integers, one transfer after the other."""
    if port.bits == 1:
        return np.packbits(beats.astype(np.uint8) & 1, axis=1, bitorder="little").tobytes()
    size = port.place_bits // 8
    wide = np.ascontiguousarray(beats, dtype="<i8").view(np.uint8).reshape(-1, 8)
    return wide[:, :size].tobytes()


def from_transfers(port: LinkPort, data: bytes) -> np.ndarray:
    """Return the (beats, width) int64 of the transfers of a frame."""
    raw = np.frombuffer(data, dtype=np.uint8)
    if port.bits == 1:
        bits = np.unpackbits(raw.reshape(port.beats, -1), axis=1, bitorder="little")[:, : port.width].astype(np.int64)
        return -bits if port.signed else bits
    size = port.place_bits // 8
    wide = np.zeros((port.beats * port.width, 8), dtype=np.uint8)
    wide[:, :size] = raw.reshape(-1, size)
    return _signed(port, wide.view("<i8").reshape(port.beats, port.width), port.place_bits)
