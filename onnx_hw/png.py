"""PNG images as arrays: W3C, Portable Network Graphics, third edition. Interlaced ones are refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"

LARGEST = 1 << 26
"""Numbers of an image: nobody's claim is believed beyond."""

CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""By colour type: grey, colours, places in a palette, grey and opacity, colours and opacity."""

DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


def read_png(content: bytes) -> np.ndarray:
    """The pixels, (height, width, channels) uint8, or uint16 where the file has 16 bits: whole numbers as stored.

    Palettes are resolved into three channels; opacity in a colour or a palette (tRNS) is left out.

    Raises:
        ValueError: it must be what the text says.
    """
    header: tuple[int, int, int, int] | None = None
    palette: np.ndarray | None = None
    packed: list[bytes] = []
    for kind, body in _chunks(content):
        if header is None:
            header = _header(kind, body)
        elif kind == b"PLTE":
            if not body or len(body) % 3:
                raise ValueError("a palette of three bytes a colour")
            palette = np.frombuffer(body, np.uint8).reshape(-1, 3)
        elif kind == b"IDAT":
            packed.append(body)
    if header is None:
        raise ValueError("a PNG with a header")
    width, height, depth, colour = header
    channels = CHANNELS[colour]
    stride = -(-width * channels * depth // 8)
    raw = _unpacked(b"".join(packed), (stride + 1) * height)
    rows = _without_filters(np.frombuffer(raw, np.uint8).reshape(height, stride + 1), max(1, channels * depth // 8))
    if depth == 16:
        return rows.reshape(-1).view(">u2").astype(np.uint16).reshape(height, width, channels)
    if depth < 8:
        bits = np.unpackbits(rows, axis=1)[:, : width * depth].reshape(height, width, depth)
        rows = bits @ (1 << np.arange(depth)[::-1]).astype(np.uint8)
    pixels = rows.astype(np.uint8).reshape(height, width, channels)
    if colour != 3:
        return pixels
    if palette is None or int(pixels.max()) >= len(palette):
        raise ValueError("a PNG whose palette has all of its colours")
    return palette[pixels[:, :, 0]]


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The kind and the body of every chunk up to the last."""
    if not content.startswith(SIGNATURE):
        raise ValueError("a PNG")
    at = len(SIGNATURE)
    while True:
        size, kind = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        body, check = content[at + 8 : at + 8 + size], content[at + 8 + size : at + 12 + size]
        if len(check) < 4:
            raise ValueError("a whole PNG: it ends too early")
        if zlib.crc32(kind + body) != int.from_bytes(check, "big"):
            raise ValueError("a PNG without damage: a check sum is wrong")
        if kind == b"IEND":
            return
        yield kind, body
        at += 12 + size


def _header(kind: bytes, body: bytes) -> tuple[int, int, int, int]:
    """Width, height, depth and colour type."""
    if kind != b"IHDR" or len(body) != 13:
        raise ValueError("a PNG that begins with its header")
    width, height = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
    depth, colour, compression, filters, interlaced = body[8:]
    if compression or filters or depth not in DEPTHS.get(colour, ()):
        raise ValueError("a PNG of a known kind")
    if interlaced:
        raise ValueError("a PNG that is not interlaced")
    if not 0 < width * height * CHANNELS[colour] <= LARGEST:
        raise ValueError(f"a PNG of 1 to {LARGEST:,} numbers, not {width} by {height} pixels")
    return width, height, depth, colour


def _unpacked(packed: bytes, size: int) -> bytes:
    """Just so many bytes; no more are ever made."""
    try:
        raw = zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error:
        raise ValueError("a PNG without damage: its pixels cannot be unpacked") from None
    if len(raw) != size:
        raise ValueError("a PNG with as many pixels as its header says")
    return raw


def _without_filters(rows: np.ndarray, step: int) -> np.ndarray:
    """(height, bytes) uint8.

    Args:
        rows: (height, 1 + bytes), the first of each says its filter.
        step: bytes of a pixel, 1 at least.
    """
    found = np.zeros((len(rows), rows.shape[1] - 1), np.uint8)
    above = np.zeros(rows.shape[1] - 1, np.uint8)
    for number, (kind, line) in enumerate(zip(rows[:, 0].tolist(), rows[:, 1:], strict=True)):
        if kind == 0:
            above = line
        elif kind == 1:
            padded = np.concatenate([line, np.zeros(-len(line) % step, np.uint8)]).reshape(-1, step)
            above = np.cumsum(padded, axis=0, dtype=np.uint8).reshape(-1)[: len(line)]
        elif kind == 2:
            above = line + above
        elif kind in (3, 4):
            above = _one_by_one(kind, line.tolist(), above.tolist(), step)
        else:
            raise ValueError("a PNG whose filters are known")
        found[number] = above
    return found


def _one_by_one(kind: int, line: list[int], above: list[int], step: int) -> np.ndarray:
    """A row whose bytes depend on those to their left: Average, Paeth."""
    for k, byte in enumerate(line):
        left, corner = (line[k - step], above[k - step]) if k >= step else (0, 0)
        if kind == 3:
            line[k] = (byte + (left + above[k]) // 2) & 255
            continue
        guess = left + above[k] - corner
        off = abs(guess - left), abs(guess - above[k]), abs(guess - corner)
        line[k] = (byte + (left, above[k], corner)[off.index(min(off))]) & 255
    return np.array(line, np.uint8)
