"""Reader of PNG images as arrays, by Pillow."""

from __future__ import annotations

import io
import struct
import warnings
import zlib

import numpy as np

from onnx_hw.messages.errors import user_error


def read_png(content: bytes) -> np.ndarray:
    """Return the pixels, (height, width, channels): uint8, or uint16 for grey images with 16 bits.

    Palettes become three channels, black and white become 0 and 255; colours with 16 bits keep the upper 8.

    Raises:
        ValueError: the content is something else; the text says what it must be.
        UserError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        hint = 'pip install "onnx-hw[images]", or give npy files'
        raise user_error(
            "samples-format", "Pillow must be installed to read PNG images", hint=hint, stage="samples"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
                kind = {"1": "L", "P": "RGB"}.get(image.mode, image.mode)
                pixels = np.asarray(image if kind == image.mode else image.convert(kind))
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        raise ValueError(f"a whole PNG; Pillow says: {error or type(error).__name__}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, MemoryError):
        raise ValueError(f"a PNG of at most {Image.MAX_IMAGE_PIXELS:,} pixels") from None
    if pixels.dtype != np.uint8:
        pixels = pixels.astype(np.uint16)
    return pixels.reshape(*pixels.shape[:2], -1)
