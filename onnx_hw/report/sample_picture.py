"""Pictures of samples for a page: PNG files in base64."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

MAX_SIDE = 64  # pixels
MIN_SIDE = 4  # pixels; what is smaller is no image

COLOURS = {1: 0, 3: 2}
"""PNG's colour types, by number of channels."""


def sample_pictures(frames: Mapping[str, np.ndarray], numbers: Sequence[int] | np.ndarray) -> tuple[str, ...]:
    """Return a picture of every chosen sample; empty texts where the model's input is no image.

    Black and white are the least and the greatest number of all chosen samples.

    Args:
        frames: samples by graph input, (frames, *shape).
        numbers: positions of the chosen samples.
    """
    chosen = [_as_image(array[number]) for array in frames.values() for number in numbers]
    images = [image for image in chosen if image is not None]
    if len(frames) != 1 or len(images) < len(numbers) or not images:
        return ("",) * len(numbers)
    low, high = min(float(image.min()) for image in images), max(float(image.max()) for image in images)
    scale = 255 / (high - low) if high > low else 0.0
    grey = [np.rint((image.astype(np.float64) - low) * scale).astype(np.uint8) for image in images]
    return tuple(base64.b64encode(png(image)).decode("ascii") for image in grey)


def _as_image(frame: np.ndarray) -> np.ndarray | None:
    """Return a sample as (height, width, channels) within ``MAX_SIDE``, by leaving out pixels; None for no image."""
    shape = tuple(length for k, length in enumerate(frame.shape) if length != 1 or k >= frame.ndim - 2)
    image = frame.reshape(shape)
    if image.ndim == 2:
        image = image[:, :, None]
    elif image.ndim == 3 and image.shape[0] in COLOURS:
        image = image.transpose(1, 2, 0)
    if image.ndim != 3 or image.shape[2] not in COLOURS or min(image.shape[:2]) < MIN_SIDE:
        return None
    step = -(-max(image.shape[:2]) // MAX_SIDE)
    return image[::step, ::step] if np.isfinite(image.astype(np.float64)).all() else None


def png(pixels: np.ndarray) -> bytes:
    """Return a PNG file of pixels, (height, width, 1 or 3) uint8."""
    height, width, channels = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # 0: no filter
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, COLOURS[channels], 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
