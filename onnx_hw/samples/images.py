"""Reader of PNG and JPEG images as arrays, by Pillow."""

from __future__ import annotations

import io
import struct
import warnings
import zlib

import numpy as np

from onnx_hw.messages.errors import user_error
from onnx_hw.runtime.options import Resize


def require_pillow(where: str) -> None:
    """Raise ``UserError`` without Pillow; ``where``, for the error, is the file or folder that holds images."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise user_error(
            "samples-format",
            "Pillow must be installed to read PNG and JPEG images",
            where=where,
            hint='pip install "onnx-hw[images]", or give npy files',
            stage="samples",
        ) from None


def read_image(content: bytes, size: tuple[int, int] | None = None, resize: Resize = Resize.STRETCH) -> np.ndarray:
    """Return the pixels, (height, width, channels): uint8, or uint16 for grey images with 16 bits.

    Palettes become three channels, black and white become 0 and 255; colours with 16 bits keep the upper 8.

    Args:
        content: bytes of the file.
        size: height and width to resize to; None for those of the file.
        resize: how.

    Raises:
        ValueError: the content is something else; the text says what it must be.
        UserError: Pillow is not installed.
    """
    require_pillow("")
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=["PNG", "JPEG"]) as image:
                kind = {"1": "L", "P": "RGB", "CMYK": "RGB"}.get(image.mode, image.mode)
                converted = image if kind == image.mode else image.convert(kind)
                if size is not None and size != converted.size[::-1]:
                    wide = converted.convert("I") if converted.mode.startswith("I") else converted
                    height, width = size
                    if resize is Resize.CROP:
                        converted = ImageOps.fit(wide, (width, height), Image.Resampling.BILINEAR)
                    else:
                        converted = wide.resize((width, height), Image.Resampling.BILINEAR)
                pixels = np.asarray(converted)
    except UnidentifiedImageError:  # whose text names an object in memory
        raise ValueError("a whole PNG or JPEG; its bytes are neither") from None
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error) as error:
        raise ValueError(f"a whole PNG or JPEG; Pillow says: {error or type(error).__name__}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning, MemoryError):
        raise ValueError(f"an image of at most {Image.MAX_IMAGE_PIXELS:,} pixels") from None
    if pixels.dtype != np.uint8:
        pixels = pixels.astype(np.uint16)
    return pixels.reshape(*pixels.shape[:2], -1)
